"""``penstock cesql``: what a CESQL expression makes of an event, evaluated by Spark as a filter would be."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import show_json

if TYPE_CHECKING:
    from penstock.pipeline.evaluate import Answered, Asked

SOME_EVENT = {"specversion": "1.0", "id": "1", "source": "/cesql", "type": "cesql"}


def cesql(
    expression: Annotated[str | None, typer.Argument(help="The expression.", show_default=False)] = None,
    event: Annotated[
        str | None, typer.Option("--event", help="The event as JSON, - for stdin.", metavar="FILE")
    ] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help='Lines {"expression": …, "event": {…}} from stdin, an answer for each.')
    ] = False,
) -> None:
    """Evaluates a CESQL expression and prints its value and its error as JSON.

    \b
    penstock cesql "LENGTH(type) > 3"
    penstock cesql "subject LIKE 'order-%'" --event order.json
    penstock cesql --stdin < questions.jsonl

    Without an event, one is taken that has only the required attributes. Exits with 1 when the expression cannot
    be read.
    """
    from penstock.filter.cesql_syntax import Unreadable, parse
    from penstock.pipeline.evaluate import Answered, Asked

    if stdin == (expression is not None):
        raise typer.BadParameter("give either an EXPRESSION or --stdin")
    if stdin:
        for answered in _answers(list(_questions(sys.stdin))):
            show_json(answered._asdict(), line=True)
        return
    assert expression is not None
    asked = Asked(expression, _event(event))
    try:
        parse(expression)  # what cannot be read is said at once, without Spark
    except Unreadable as error:
        show_json(Answered(False, "parse")._asdict(), line=True)
        raise error from None
    (answered,) = _answers([asked])
    show_json(answered._asdict(), line=True)


def _answers(asked: "list[Asked]") -> "list[Answered]":
    from penstock.cli.local_spark import local_spark
    from penstock.pipeline.evaluate import evaluate

    if not asked:
        return []
    with local_spark("Starting Spark") as session:
        return evaluate(session, asked)


def _questions(lines: Iterable[str]) -> "Iterator[Asked]":
    from penstock.errors import Rejected
    from penstock.pipeline.evaluate import Asked

    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            asked = json.loads(line)
            expression, event = asked["expression"], asked.get("event") or SOME_EVENT
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Rejected(
                f"line {number} of stdin is no question\n{error}", hint='{"expression": "id = \'1\'", "event": {}}'
            ) from None
        if not isinstance(expression, str) or not isinstance(event, Mapping):
            raise Rejected(f"line {number} of stdin: the expression must be text and the event an object")
        yield Asked(expression, event)


def _event(path: str | None) -> Mapping[str, Any]:
    from penstock.cli.files import read_text
    from penstock.errors import Rejected

    if path is None:
        return SOME_EVENT
    try:
        event = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{path} cannot be read as an event\n{error}") from None
    if not isinstance(event, Mapping):
        raise Rejected(f"{path} holds no event: an object is expected")
    return event
