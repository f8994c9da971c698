"""``penstock deadletters …``: what was not delivered, why, and sending it once more."""

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from penstock.cli import complete, options
from penstock.cli.output import Column, say, show, show_json, show_table, show_yaml
from penstock.visible import visible_line

deadletters = typer.Typer(
    help="What was not delivered, and sending it once more.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

COLUMNS = (
    Column("TIME"),
    Column("ID", 40, shorten=True),
    Column("TYPE", 30, shorten=True),
    Column("SUBSCRIPTION", 40),
    Column("OUTCOME"),
    Column("REASON", 40, shorten=True),
    Column("ATTEMPTS"),
)

Trigger = Annotated[str | None, typer.Option("--trigger", help="Only of this trigger.", metavar="NAME")]
Of = Annotated[
    str | None,
    typer.Option(
        "--of",
        help="Only of this trigger, subscription or source.",
        metavar="KIND/NAME",
        autocompletion=complete.receivers,
    ),
]
Type = Annotated[str | None, typer.Option("--type", help="Only events of this type.")]
Code = Annotated[int | None, typer.Option("--code", help="Only with this status of the last answer; 0: no answer.")]
GROUP_COLUMNS = (
    Column("GROUP"),
    Column("SUBSCRIPTION", 50, shorten=True),
    Column("ERROR", 60),
    Column("COUNT", right=True),
    Column("FIRST", 20),
    Column("LAST", 40),
    Column("STILL FAILING", 50),
    Column("SAMPLE", 10, shorten=True),
)

Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]


@deadletters.command("list")
def listing(  # noqa: PLR0913 - options
    trigger: Trigger = None,
    of: Of = None,
    type_: Type = None,
    code: Code = None,
    redriven: Annotated[bool, typer.Option("--redriven", help="Also those that were sent again already.")] = False,
    groups: Annotated[bool, typer.Option("--groups", help="Those that failed in the same way, together.")] = False,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    everywhere: Everywhere = False,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """What was dead-lettered or given up, the newest first.

    \b
    penstock deadletters list
    penstock deadletters list --groups
    penstock deadletters list --trigger audit --code 503
    penstock deadletters list --of kafkasource/orders
    """
    options.checked(output, "table", "json")
    asked = _asked(_whose(trigger, of), type_, code, None if everywhere else namespace)
    if groups:
        _show_groups(_ask(server, asked, "/groups"), output, "" if everywhere else f" in namespace {namespace}")
        return
    found = _ask(server, {**asked, "redriven": "1" if redriven else None})
    if output == "json":
        for item in found["items"]:
            show_json(item, line=True)
        return
    if not found["items"]:
        say("nothing was given up or dead-lettered" + ("" if everywhere else f" in namespace {namespace}"))
        return
    show_table(COLUMNS, [_row(item, everywhere) for item in found["items"]])
    if found["more"]:
        say(f"these are the newest {len(found['items'])}; narrow it down with --of, --type or --code")


@deadletters.command("show")
def show_one(  # noqa: PLR0913 - options
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id of the event.")],
    trigger: Trigger = None,
    of: Of = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    everywhere: Everywhere = False,
    output: options.DocumentOutput = "yaml",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """One event with the reason, and the event itself.

    \b
    penstock deadletters show 4711
    penstock deadletters show 4711 -o json
    """
    from penstock.errors import Rejected

    options.checked(output, "yaml", "json")
    asked = _asked(_whose(trigger, of), None, None, None if everywhere else namespace)
    answer = _ask(server, {**asked, "ids": id_, "event": "1", "redriven": "1"})
    found = answer["items"]
    if not found:
        raise Rejected(f"there is no dead letter of an event {id_}", hint="`penstock deadletters list` shows them")
    for item in found:
        if output == "json":
            show_json(item, line=len(found) > 1)
        else:
            show_yaml(item)
    if answer["events_left_out"]:
        say(f"{answer['events_left_out']} of them are shown without their event: together the events are too large")


@deadletters.command()
def redrive(  # noqa: PLR0913 - options
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="Ids of events.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that the other options select.")] = False,
    trigger: Trigger = None,
    of: Of = None,
    type_: Type = None,
    code: Code = None,
    group: Annotated[str | None, typer.Option("--group", help="A group of `list --groups`.", metavar="GROUP")] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Events a second, 0: no limit. Otherwise 100.", min=0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent, and to whom.")] = False,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Sends events once more to the subscription that did not take them, and to no other.

    \b
    penstock deadletters redrive 4711
    penstock deadletters redrive --all --trigger audit --dry-run
    penstock deadletters redrive --all --trigger audit --rate 20
    penstock deadletters redrive --group 6e1c0a7d22b4

    They come behind what is in the topic by now, as a job: Ctrl-C leaves it running, and `penstock jobs` shows it.
    Exits with 3 when some could not be sent.
    """
    from penstock.cli.client import Client
    from penstock.cli.jobs import watched

    options.checked(output, "table", "json")
    if not (ids or everything or group) or (ids and everything):
        raise typer.BadParameter("give ids, --group, or --all")
    client = Client(server)
    asked = _job(_asked(_whose(trigger, of), type_, code, namespace), ids or [], group, rate)
    job = client.post("/api/penstock/jobs", {**asked, "dryRun": dry_run})
    if dry_run:
        _show_plan(job, output)
        return
    if job["plan"]["warning"]:
        say(visible_line(f"warning: {job['plan']['warning']}"))
    job = watched(client, job)
    _end(job, output)


def _end(job: dict[str, Any], output: str) -> None:
    from penstock.errors import Unavailable

    if output == "json":
        show_json({"redriven": job["sent"], "problems": job["problems"], "job": job})
    else:
        show(f"sent again: {job['sent']}")
    for problem in job["problems"]:
        say(visible_line(f"{problem['id']}: {problem['message']}"))
    if job["state"] == "failed":
        raise Unavailable(
            f"job {job['id']} failed after {job['sent']} of {job['plan']['count']}\n{visible_line(job['error'])}",
            hint="the same command sends the rest: what was sent is marked",
        )
    if job["problems"] or job["state"] == "cancelled":
        raise typer.Exit(options.SOME_FAILED if job["sent"] else 1)


def _job(asked: dict[str, Any], ids: list[str], group: str | None, rate: float | None) -> dict[str, Any]:
    """The API's words: there ``kind`` is the job's, and a subscription goes by its key."""
    kind, name = asked.pop("kind", None), asked.pop("name", None)
    of = f"{kind}/{asked['namespace']}/{name}" if kind else None
    if group:
        asked.pop("namespace")  # a group is of one subscription, wherever that is
    return {"kind": "redrive", "ids": ids, "group": group, "rate": rate, "of": of, **asked}


def _show_plan(job: dict[str, Any], output: str) -> None:
    plan = job["plan"]
    if output == "json":
        show_json(job)
        return
    rate = f"{plan['rate']:g} a second, {plan['seconds']:g} s in all" if plan["rate"] else "no limit"
    show(f"would send again: {plan['count']}")
    show(f"rate:             {rate}")
    for target in plan["target"]:
        to = target["subscriber"] or "nobody"
        show(visible_line(f"target:           {target['key']}: {target['count']} to {to}"))
    if plan["first"]:
        show(f"failed between:   {plan['first']} and {plan['last']}")
    if plan["warning"]:
        say(visible_line(f"warning: {plan['warning']}"))


def _show_groups(found: list[dict[str, Any]], output: str, where: str) -> None:
    if output == "json":
        show_json(found)
    elif not found:
        say(f"nothing was given up or dead-lettered{where}")
    else:
        show_table(GROUP_COLUMNS, [_group_row(each) for each in found])


def _group_row(group: dict[str, Any]) -> list[str]:
    failing = "yes" if group["still_failing"] else "no"
    sample = " ".join(f"{group['sample']['reason']} {group['sample']['body']}".split())
    return [
        group["group"], group["key"], group["reason_kind"], str(group["count"]), group["first"], group["last"],
        failing, sample,
    ]  # fmt: skip


def _whose(trigger: str | None, of: str | None) -> dict[str, str]:
    from penstock.cli.targets import one
    from penstock.control.kinds import EGRESS
    from penstock.errors import Misused

    if trigger is not None and of is not None:
        raise typer.BadParameter("give either --trigger NAME or --of KIND/NAME")
    if trigger is not None:
        return {"kind": "Trigger", "name": trigger}
    if of is None:
        return {}
    target = one(of)
    if target.kind not in EGRESS:
        have = ", ".join(kind.name.lower() for kind in EGRESS)
        raise Misused(f"a {target.kind.name.lower()} has no dead letters", hint=f"these have: {have}")
    return {"kind": target.kind.name, "name": str(target.name)}


def _asked(whose: dict[str, str], type_: str | None, code: int | None, namespace: str | None) -> dict[str, Any]:
    asked = {**whose, "type": type_, "code": code, "namespace": namespace}
    return {name: value for name, value in asked.items() if value is not None}


def _ask(server: str, asked: dict[str, Any], what: str = "") -> Any:
    from penstock.cli.client import Client

    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return Client(server).get(f"/api/penstock/deadletters{what}?{query}")


def _row(item: dict[str, Any], with_namespace: bool) -> list[str]:
    whom = f"{item['namespace']}/{item['subscription']}" if with_namespace else item["subscription"]
    outcome = "redriven" if item["redriven"] else item["outcome"]
    return [item["time"], item["id"], item["type"], whom, outcome, item["reason"], str(item["attempts"])]
