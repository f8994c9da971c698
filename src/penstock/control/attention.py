"""What needs somebody's attention, the worst first, each with what to do about it. Values in, values out."""

from typing import Any

from penstock.control.live_rows import Row, View

WAITING_SECONDS = 60.0  # an event that waits for longer is worth a look
LONG_PAUSE_SECONDS = 24 * 3600.0
MOST = 50

Item = dict[str, Any]


def attention(view: View, document: Row) -> list[Item]:
    """At most so many: whoever has more has one trouble, not many."""
    found = [*_parts(document["parts"]), *_kafka(document["kafka"])]
    for row in document["ingresses"]:
        if row["ready"] == "False":
            found.append((1, _item("bad", row["key"], "is not ready", row["reason"], _resource(row))))
    found += [(1.5, _item("bad", key, "cannot be read as stored", why, _place(key))) for key, why in view.problems]
    for row in document["subscriptions"]:
        found += _subscription(view, row)
    found += [
        (6, _item("warn", f"Topic/{topic}", "retention is near", warning, ("Show", "#/topics")))
        for topic, warning in view.warnings
    ]
    return [item for _, item in sorted(found, key=lambda each: each[0])][:MOST]


def parts_only(document: Row) -> list[Item]:
    """While the controller is starting."""
    return [item for _, item in _parts(document["parts"])]


def _parts(parts: list[Row]) -> list[tuple[float, Item]]:
    found: list[tuple[float, Item]] = []
    for part in parts:
        if part["state"] != "running":
            where = f" ({part['address']})" if part["address"] not in part["reason"] else ""
            what, why = f"{part['name']} is {part['state']}", (part["reason"] + where).strip()
            found.append((0, _item("bad", f"part/{part['name']}", what, why, ("Show", "#/"))))
    return found


def _kafka(kafka: Row) -> list[tuple[float, Item]]:
    found = []
    if kafka["offline_partitions"]:
        what = f"{kafka['offline_partitions']} partitions have no leader"
        found.append((0.5, _item("bad", "part/kafka", what, "a broker is missing", ("Show", "#/topics"))))
    return found


def _subscription(view: View, row: Row) -> list[tuple[float, Item]]:
    found: list[tuple[float, Item]] = []
    show = ("Show", f"#/subscriptions/{row['key']}")

    def note(rank: float, severity: str, what: str, why: str, action: tuple[str, str] = show) -> None:
        found.append((rank, _item(severity, row["key"], what, why, action)))

    oldest = row["oldest_waiting_seconds"] or 0.0
    if row["state"] == "gone":
        note(1, "bad", "its subscriber is gone", "it answered 410; `penstock resume` tries again")
    elif row["state"] == "paused":
        paused = _paused_for(view, row["key"])
        if paused > LONG_PAUSE_SECONDS:
            note(5, "warn", f"has been paused for {shown(paused)}", f"{row['lag'] or 0} events wait")
        return found
    elif row["state"] == "not ready":
        note(1, "bad", "is not ready", row["reason"])
    if row["dead_letters"]:
        is_failing = row["state"] == "failing"
        what = f"{_counted(row['dead_letters'], 'dead letter')}" + (", and more are coming" if is_failing else "")
        action = ("Look at them", f"#/deadletters?of={row['key']}")
        note(2 if is_failing else 4.5, "bad" if is_failing else "warn", what, row["last_error"], action)
    elif row["state"] == "failing":
        note(2, "bad", "its deliveries fail", row["last_error"])
    if oldest > WAITING_SECONDS:
        waits = "waits" if row["lag"] == 1 else "wait"
        what = f"{_counted(row['lag'] or 0, 'event')} {waits} for {shown(oldest)}"
        note(3 - min(oldest, 1e6) / 1e7, "bad", what, row["last_error"] or row["reason"])
    if row["state"] == "parked":
        note(4, "warn", "is parked: its subscriber is slow", "it has a query of its own until it has caught up")
    return found


def _paused_for(view: View, key: str) -> float:
    """As long as its oldest event waits, at least: when it was paused is not written down."""
    age = view.sight.ages.get(key)
    return (age.oldest if age else None) or 0.0


def _item(severity: str, key: str, what: str, why: str, action: tuple[str, str]) -> Item:
    label, href = action
    return {"severity": severity, "key": key, "what": what, "why": why, "action": {"label": label, "href": href}}


def _resource(row: Row) -> tuple[str, str]:
    return "Show", f"#/resources/{row['key']}"


def _place(key: str) -> tuple[str, str]:
    return "Show", "#/topics" if key.startswith("Topic/") else f"#/resources/{key}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shown(seconds: float) -> str:
    """12 s, 3 m, 5 h, 2 d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size * 2:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
