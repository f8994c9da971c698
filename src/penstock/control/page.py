"""The page at the admin port's root: what runs, what was applied, what to try. The dashboard will take its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    SINK,
    SOURCE,
    SUBSCRIPTION,
    TRIGGER,
    Kind,
    Resource,
    condition,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from penstock.control.parts import SystemStatus

_STYLE = """
:root{color-scheme:light dark;--ink:#1b2530;--dim:#667380;--line:#dde3e8;--ground:#fbfcfd;--well:#137a4b;
--ill:#b3261e;--code:#eef2f5}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--dim:#93a0ac;--line:#2c3640;--ground:#12181e;--well:#4cc38a;
--ill:#ff8a80;--code:#1d262e}}
*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:2rem 1.25rem;background:var(--ground);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0}h2{font-size:1rem;
margin:2rem 0 .5rem}p{margin:.25rem 0;color:var(--dim)}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.4rem .75rem .4rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-size:.75rem;letter-spacing:.04em;color:var(--dim);font-weight:600}td.number,th.number{text-align:right}
td.why{white-space:normal;color:var(--dim)}.well{color:var(--well)}.ill{color:var(--ill)}
pre{background:var(--code);padding:.9rem 1rem;border-radius:.4rem;overflow-x:auto;
font:13px/1.6 ui-monospace,monospace}
"""

_TRY = """printf '%s\\n' 'apiVersion: eventing.knative.dev/v1' 'kind: Broker' 'metadata: {name: orders}' |
  penstock apply -f -
penstock wait broker/orders --for=condition=Ready
penstock send broker/orders --type order.placed --source /shop --data '{"n": 1}'"""


def overview(resources: list[Resource], system: SystemStatus) -> str:
    parts = [(part.name, _light(part.state, part.is_well), part.address, part.reason) for part in system.parts]
    return _document(
        "<h1>Penstock</h1><p>Events in over HTTP, kept in Kafka, delivered to everybody who asked.</p>"
        + _section("What runs", ("PART", "STATE", "ADDRESS", ""), parts)
        + "".join(_kind_section(each, resources, system) for each in _SECTIONS)
        + f"<h2>To try</h2><pre>{escape(_TRY)}</pre>"
        + '<p><a href="/metrics">metrics</a> · <a href="/api/penstock/status">status as JSON</a></p>'
    )


def waiting(reason: str) -> str:
    return _document(f'<h1>Penstock</h1><p class="ill">The controller is starting: {escape(reason)}</p>')


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Penstock</title><style>{_STYLE}</style><body>{body}</body></html>"
    )


def _section(title: str, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; every cell is escaped unless it is markup of ours."""
    if not rows:
        return f"<h2>{title}</h2><p>None yet.</p>"
    head = "".join(f"<th{_class(heading)}>{heading}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td{_class(h)}>{_cell(c)}</td>" for h, c in zip(headings, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<h2>{title}</h2><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _class(heading: str) -> str:
    return {"LAG": ' class="number"', "SUBSCRIBERS": ' class="number"', "": ' class="why"'}.get(heading, "")


class _Markup(str):
    """Text that is HTML already."""


def _cell(text: str) -> str:
    return text if isinstance(text, _Markup) else escape(text)


def _light(word: str, well: bool) -> str:
    return _Markup(f'<span class="{"well" if well else "ill"}">{"●" if well else "○"} {escape(word)}</span>')


def _ready(resource: Resource) -> tuple[str, str]:
    found = condition(resource, "Ready")
    return _light(found["status"], found["status"] == "True"), found.get("message") or found.get("reason") or ""


Cells = Callable[[Resource], tuple[str, ...]]


@dataclass(frozen=True)
class _Section:
    """How the resources of a kind are shown: what is special about them, between what all have."""

    title: str
    kind: Kind
    headings: tuple[str, ...]
    cells: Cells
    always: bool = False  # also when there are none, since that is where one begins
    with_lag: bool = False


def _address(resource: Resource) -> tuple[str, ...]:
    return ((status_of(resource).get("address") or {}).get("url", ""),)


def _trigger_cells(trigger: Resource) -> tuple[str, ...]:
    return str(spec_of(trigger).get("broker")), status_of(trigger).get("subscriberUri", "")


def _channel_cells(channel: Resource) -> tuple[str, ...]:
    return *_address(channel), str(len(status_of(channel).get("subscribers") or []))


def _subscription_cells(subscription: Resource) -> tuple[str, ...]:
    found = status_of(subscription).get("physicalSubscription") or {}
    channel = str((spec_of(subscription).get("channel") or {}).get("name"))
    return channel, found.get("subscriberUri", ""), found.get("replyUri", "")


def _source_cells(source: Resource) -> tuple[str, ...]:
    return ", ".join(spec_of(source).get("topics") or []), status_of(source).get("sinkUri", "")


def _sink_cells(sink: Resource) -> tuple[str, ...]:
    return str(spec_of(sink).get("topic")), *_address(sink)


_SECTIONS = (
    _Section("Brokers", BROKER, ("ADDRESS",), _address, always=True),
    _Section("Triggers", TRIGGER, ("BROKER", "SUBSCRIBER"), _trigger_cells, always=True, with_lag=True),
    _Section("Channels", CHANNEL, ("ADDRESS", "SUBSCRIBERS"), _channel_cells),
    _Section("Subscriptions", SUBSCRIPTION, ("CHANNEL", "SUBSCRIBER", "REPLY"), _subscription_cells, with_lag=True),
    _Section("Sources", SOURCE, ("TOPICS", "SINK"), _source_cells, with_lag=True),
    _Section("Sinks", SINK, ("TOPIC", "ADDRESS"), _sink_cells),
)


def _kind_section(section: _Section, resources: list[Resource], system: SystemStatus) -> str:
    found = [each for each in resources if each["kind"] == section.kind.name]
    if not found and not section.always:
        return ""
    headings = ("NAME", "READY", *section.headings, *(("LAG",) if section.with_lag else ()), "")
    return _section(section.title, headings, [_row(section, each, system) for each in found])


def _row(section: _Section, resource: Resource, system: SystemStatus) -> tuple[str, ...]:
    light, why = _ready(resource)
    lag = (_lag(resource, system),) if section.with_lag else ()
    return f"{namespace_of(resource)}/{name_of(resource)}", light, *section.cells(resource), *lag, why


def _lag(resource: Resource, system: SystemStatus) -> str:
    lanes = system.lags.get(key_of(resource))
    return "-" if lanes is None else str(sum(lane.lag for lane in lanes))
