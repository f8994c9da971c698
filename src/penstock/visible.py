"""Text from others on a terminal: control characters and bidirectional marks are shown as escapes.

Event data, names and messages may hold sequences that move the cursor, set the window's title or reverse the text.
Every line that a command prints (``cli/output.py``) or that a log gets (``telemetry/logs.py``) goes through here.
Pure. Hidden characters are never printable, so printable text is returned unchanged at once.
"""

import re
import secrets

_C0 = r"\x00-\x08\x0b-\x1f\x7f"  # except tab and newline
# C1, direction marks and overrides, line separators, invisible marks and tags, lone surrogates.
_OTHERS = (
    r"\x80-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f\ud800-\udfff"
)
_HIDDEN = re.compile(f"[{_C0}{_OTHERS}]")
_HIDDEN_IN_A_LINE = re.compile(f"[\t\n{_C0}{_OTHERS}]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
# It cannot be guessed, so text from others cannot imitate our colours.
_MARK = f"\x00{secrets.token_hex(8)}:"
_COLOUR = re.compile(f"{_MARK}([0-9;]+)m")


def visible(text: str) -> str:
    """Lines of text, with our own colours."""
    pieces = _COLOUR.split(text)  # text and colour alternate
    pieces[::2] = [_HIDDEN.sub(_shown, each) for each in pieces[::2]]
    pieces[1::2] = [f"\x1b[{each}m" for each in pieces[1::2]]
    return "".join(pieces)


def visible_line(text: str) -> str:
    """Text that must stay in its line: a cell of a table, a value after its name."""
    return text if text.isprintable() else _HIDDEN_IN_A_LINE.sub(_shown, text)


def visible_message(text: str) -> str:
    """A message that may have several lines, such as an expression with a caret: all but the first are indented."""
    first, *others = map(visible_line, text.split("\n"))
    return "\n".join([first, *(each if each.startswith("  ") else f"  {each}" for each in others)])


def colour(text: str, code: str) -> str:
    """Text that ``visible`` prints in this colour."""
    return f"{_MARK}{code}m{text}{_MARK}0m"


def escaped(document: str) -> str:
    """The same JSON in visible characters. Also for YAML, if strings with hidden characters are in double quotes."""
    return document if document.isprintable() else _HIDDEN.sub(_as_json, document)


def is_hidden(text: str) -> bool:
    """Whether there is anything that must be escaped."""
    return _HIDDEN.search(text) is not None


def _shown(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _as_json(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
