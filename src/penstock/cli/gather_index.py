"""The first page of a file for support: what tells most first, then all that is in it. No script."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from penstock.cli.gathering import Facts, Missing

STYLE = """
:root { color-scheme: light dark; --line: #8885; --bad: #c62828; --good: #2e7d32; --warn: #b26a00; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #81c784; --warn: #ffb74d; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .75rem .25rem 0; vertical-align: top; }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; } code, pre { font: 13px/1.4 ui-monospace, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0 1rem; }
.bad { color: var(--bad); } .good { color: var(--good); } .warn { color: var(--warn); } .quiet { opacity: .7; }
"""

HEAD = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Penstock</title>
<style>{STYLE}</style></head>
"""


def page(facts: Facts, files: Sequence[tuple[str, int]], missing: Sequence[Missing], *, with_secrets: bool) -> str:
    made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    warning = '<p class="bad">✗ <strong>This file holds secret values.</strong> Mind whom you give it to.</p>'
    body = [
        "<h1>Penstock: for support</h1>",
        f'<p class="quiet">Made {made} · {len(files)} files · {len(missing)} pieces missing</p>',
        warning if with_secrets else "<p>Secrets are masked.</p>",
        *_parts(facts),
        *_unhealthy(facts),
        *_lags(facts),
        *_errors(facts),
        *_missing(missing),
        "<h2>Versions</h2>",
        _table(("What", "Version"), facts.versions.items()),
        "<h2>Everything</h2>",
        _files(files),
    ]
    return f"{HEAD}<body>\n" + "\n".join(body) + "\n</body></html>\n"


def _parts(facts: Facts) -> list[str]:
    rows = [
        (each["name"], _Word(each["state"], each["state"] in ("running", "ready")), each["address"], each["reason"])
        for each in facts.parts
    ]
    nothing = '<p class="bad">✗ Nothing is known of the parts: nothing runs, or nobody answers.</p>'
    return ["<h2>Parts</h2>", _table(("Part", "State", "Address", "Reason"), rows) if rows else nothing]


def _unhealthy(facts: Facts) -> list[str]:
    rows = [
        (each["resource"], _Word(each["ready"], False), each["reason"], each["message"]) for each in facts.unhealthy
    ]
    rows += [
        (f"query of {each['topic']}", _Word(each["state"], False), each["reason"], "; ".join(each["warnings"]))
        for each in facts.queries
        if each["state"] in ("refused", "failed")
    ]
    all_well = f'<p class="good">✓ All of {facts.resources} resources are ready.</p>'
    nothing = all_well if facts.resources else '<p class="quiet">There are no resources.</p>'
    shown = _table(("What", "Ready", "Reason", "Message"), rows) if rows else nothing
    return ["<h2>Not well</h2>", shown]


def _lags(facts: Facts) -> list[str]:
    rows = sorted(facts.lags.items(), key=lambda row: -row[1])
    shown = [(name, _Word(str(lag), lag == 0, number=True)) for name, lag in rows[:50]]
    nothing = '<p class="quiet">Nothing is known of it.</p>'
    return ["<h2>Lag</h2>", _table(("Subscription", "Events that wait"), shown) if shown else nothing]


def _errors(facts: Facts) -> list[str]:
    found = ["<h2>Last errors in the logs</h2>"]
    for log, lines in facts.errors.items():
        found.append(f'<a href="{escape("logs/" + log)}">{escape(log)}</a><pre>{escape(chr(10).join(lines))}</pre>')
    return found if facts.errors else [*found, '<p class="good">✓ There are none.</p>']


def _missing(missing: Sequence[Missing]) -> list[str]:
    if not missing:
        return []
    return ["<h2>What is missing here</h2>", _table(("What", "Why"), [(each.what, each.why) for each in missing])]


def _files(files: Sequence[tuple[str, int]]) -> str:
    rows = [(_Link(path), _Word(f"{size:,}", None, number=True)) for path, size in sorted(files)]
    return _table(("File", "Bytes"), rows)


class _Word(str):
    """A state: its word, a sign and a colour."""

    is_good: bool | None
    is_number: bool

    def __new__(cls, text: str, is_good: bool | None, *, number: bool = False) -> "_Word":
        made = super().__new__(cls, text)
        made.is_good, made.is_number = is_good, number
        return made


class _Link(str):
    pass


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    shown = list(rows)
    first = shown[0] if shown else heads
    lines = ["<table><thead><tr>"]
    lines += [f"<th{_number(cell)}>{escape(head)}</th>" for head, cell in zip(heads, first, strict=True)]
    lines.append("</tr></thead><tbody>")
    lines += ["<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in shown]
    return "".join(lines) + "</tbody></table>"


def _cell(text: str) -> str:
    if isinstance(text, _Link):
        return f'<td><a href="{escape(text)}"><code>{escape(text)}</code></a></td>'
    if not isinstance(text, _Word) or text.is_good is None:
        return f"<td{_number(text)}>{escape(text)}</td>"
    if text.is_number:
        return f'<td class="number {"good" if text.is_good else "warn"}">{escape(text)}</td>'
    return f'<td class="{"good" if text.is_good else "bad"}">{"✓" if text.is_good else "✗"} {escape(text)}</td>'


def _number(text: str) -> str:
    return ' class="number"' if isinstance(text, _Word) and text.is_number else ""
