"""What the dispatcher answers over HTTP, on a port of its own: its metrics, and questions that need Spark.

    GET  /healthz, /readyz, /metrics
    POST /search, /verdicts          asked by the controller (contract/questions.py)

Every handler runs in a thread of the listener. Searches use the session of the queries, in jobs of their own.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from penstock.contract.questions import decode_search, decode_verdicts
from penstock.errors import Rejected
from penstock.event.json_form import decode_event
from penstock.filter.check import require_valid
from penstock.pipeline.running import Environment
from penstock.pipeline.search import Searches
from penstock.pipeline.trial import Verdict, try_many
from penstock.telemetry.exposition import CONTENT_TYPE
from penstock.telemetry.http import LINES, Answered, Handler

MOST_EVENTS = 2000  # in a question for verdicts


def routes(environment: Environment) -> Mapping[str, Handler]:
    searches, trials = Searches(environment.session, environment.clusters), Trials(environment.session)

    def readyz(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(b"ok\n", "text/plain")

    def metrics(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(environment.vitals.text(), CONTENT_TYPE)

    def search(_query: Mapping[str, str], body: bytes) -> Answered:
        return Answered(content_type=LINES, lines=searches.search(decode_search(body)))

    def verdicts(_query: Mapping[str, str], body: bytes) -> Answered:
        return trials.answer(body)

    return {
        "GET /readyz": readyz,
        "GET /metrics": metrics,
        "POST /search": search,
        "POST /verdicts": verdicts,
    }


class Trials:
    """Filters tried on events, one question after the other, since large ones take memory."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._turn = threading.Lock()

    def answer(self, body: bytes) -> Answered:
        asked = decode_verdicts(body)
        if len(asked.events) > MOST_EVENTS:
            raise Rejected(f"these are {len(asked.events)} events; at most {MOST_EVENTS} are tried at once")
        events = [decode_event(bytes(each)) for each in asked.events]
        invalid = {place: problem for place, each in enumerate(asked.filters) if (problem := _problem(each))}
        valid = [each for place, each in enumerate(asked.filters) if place not in invalid]
        with self._turn:
            found = try_many(self._session, valid, events, reasons=asked.reasons)
        rows = []
        for row in found:
            verdicts = iter(row)
            places = range(len(asked.filters))
            rows.append([Verdict(False, invalid[at]) if at in invalid else next(verdicts) for at in places])
        return Answered.json({"verdicts": [[verdict._asdict() for verdict in row] for row in rows]})


def _problem(filters: Sequence[Mapping[str, Any]]) -> str:
    """Why these filters are not even tried; empty: they are. The others are tried all the same."""
    try:
        require_valid(filters)
    except Rejected as error:
        return f"the filter is invalid: {error.message}"
    return ""
