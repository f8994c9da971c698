"""The live snapshot as lines of text, for ``penstock top`` and ``penstock lag``. Values in, lines out."""

from collections.abc import Sequence
from typing import Any

from penstock.cli.output import Column, table

WORST_FIRST = ("failing", "not ready", "gone", "parked", "hanging", "retrying", "paused", "delivering", "idle")
ARROWS = {-1: "↓", 0: "", 1: "↑"}
MOST_ATTENTION = 5

TOP = (
    Column("STATE"),
    Column("SUBSCRIPTION", 90),
    Column("OLDEST", 85, right=True),
    Column("LAG", 80, right=True),
    Column("OUT/S", 75, right=True),
    Column("FAILED/S", 60, right=True),
    Column("P95", 70, right=True),
    Column("P99", 40, right=True),
    Column("IN/S", 50, right=True),
    Column("RETRYING", 30, right=True),
    Column("DEAD", 55, right=True),
)
LAG = (
    Column("SUBSCRIPTION"),
    Column("OLDEST", 90, right=True),
    Column("LAG", right=True),
    Column("BEHIND", 60, right=True),
    Column("STALLED", 50, right=True),
    Column("STATE", 80),
)

Row = dict[str, Any]


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """By state, then by how long something has waited, then by how much is behind or flows."""

    def rank(row: Row) -> tuple[float, ...]:
        return (
            WORST_FIRST.index(row["state"]) if row["state"] in WORST_FIRST else 0,
            -(row["oldest_waiting_seconds"] or 0.0),
            -(row["lag"] or 0),
            -row["delivered_per_second"],
        )

    return sorted(rows, key=lambda row: (*rank(row), row["key"]))


def top(document: Row, width: int | None, height: int | None = None) -> list[str]:
    """A whole screen: totals, what needs attention, subscriptions. Lines that do not fit are counted."""
    lines = [*totals(document["totals"], width)]
    for part in document["parts"]:
        if part["state"] != "running":
            lines.append(f"! {part['name']} is {part['state']}: {part['reason']} {part['address']}".rstrip())
    others = [item for item in document["attention"] if not item["key"].startswith("part/")]
    for item in others[:MOST_ATTENTION]:
        why = f": {item['why']}" if item["why"] else ""
        lines.append(f"{'!' if item['severity'] == 'bad' else '-'} {item['key']} {item['what']}{why}")
    lines.append("")
    rows = worst_first(document["subscriptions"])
    if rows:
        lines += table(TOP, [top_row(row) for row in rows], width)
    else:
        lines.append("no subscriptions yet: `penstock apply -f FILE` makes some")
    if height is not None and len(lines) > height:
        left_out = len(lines) - height + 1
        lines = [*lines[: height - 1], f"… and {left_out} more"]
    return [line if width is None else line[:width] for line in lines]


def totals(found: Row, width: int | None) -> list[str]:
    """One after the other, broken between two where a line is full."""
    success = "-" if found["success"] is None else f"{found['success'] * 100:.2f} %"
    facts = [
        f"in {number(found['in_per_second'])}/s",
        f"delivered {number(found['delivered_per_second'])}/s",
        f"failed {number(found['failed_per_second'])}/s",
        f"success {success}",
        f"p50 {milliseconds(found['p50_ms'])}",
        f"p95 {milliseconds(found['p95_ms'])}",
        f"p99 {milliseconds(found['p99_ms'])}",
        f"oldest waiting {seconds(found['oldest_waiting_seconds'])}",
        f"dead letters {found['dead_letters']}",
        f"paused {found['paused']}",
    ]
    lines = [facts[0]]
    for fact in facts[1:]:
        longer = f"{lines[-1]} · {fact}"
        if width is not None and len(longer) > width:
            lines.append(fact)
        else:
            lines[-1] = longer
    return lines


def top_row(row: Row) -> list[str]:
    return [
        row["state"],
        row["key"],
        seconds(row["oldest_waiting_seconds"]),
        _lag(row),
        number(row["delivered_per_second"]),
        number(row["failed_per_second"]),
        milliseconds(row["p95_ms"]),
        milliseconds(row["p99_ms"]),
        number(row["matched_per_second"]),
        str(row["retrying"]),
        str(row["dead_letters"]),
    ]


def lag_row(row: Row) -> list[str]:
    return [
        row["key"],
        seconds(row["oldest_waiting_seconds"]),
        _lag(row),
        seconds(row["lag_seconds"]),
        seconds(row["stalled_seconds"]),
        row["state"],
    ]


def _lag(row: Row) -> str:
    return "-" if row["lag"] is None else f"{row['lag']}{ARROWS[row['lag_trend']]}"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def seconds(value: float | None) -> str:
    """Short: 0, 4.2s, 45s, 12m, 5h, 2d."""
    if value is None:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if value >= size * 2:
            return f"{int(value // size)}{unit}"
    return "0" if value == 0 else f"{value:.1f}s" if value < 10 else f"{int(value)}s"
