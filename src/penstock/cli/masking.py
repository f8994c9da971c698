"""Secrets taken out of text that leaves the machine: by what they are, and by how they look.

What is in the secrets directory is known, so it is found wherever it stands, also as base64. What is not known is
found by its form: passwords in URLs, values of keys such as ``password``, bearer tokens. Used by ``must-gather``.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from penstock.cli.occurrences import Occurrences

MASK = "********"
SHORTEST = 4  # what is shorter stands in every text, and masking it would destroy the text
# These expressions take time linear in the text: each begins with fixed text, and no repetition needs backtracking.
_IN_URL = re.compile(r"(://[^\s/@:\"'<>]*+:)([^\s/@\"'<>]++)(@)")
_IN_QUERY = re.compile(
    r"([?&](?:password|passwd|pwd|token|access_token|api[_-]?key|secret|sig|signature)=)([^&\s\"'<>]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_BY_KEY = re.compile(
    r"""((?:passw(?:or)?d|passphrase|token|api[._-]?key|client[._-]?secret|secret[._-]?key|private[._-]?key
    |jaas[._]config|credentials?)["']?\s*[:=]\s*)(?!["']?(?:null|true|false|none)\b)("[^"\n]*"|'[^'\n]*'|[^\s,;&}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z]+ ){0,5}PRIVATE KEY-----")
_PEM_END = re.compile(r"-----END (?:[A-Z]+ ){0,5}PRIVATE KEY-----")
SECRET_VARIABLE = re.compile(r"PASSW|TOKEN|SECRET(?!S_DIR)|CREDENTIAL|API_?KEY|HEADERS", re.IGNORECASE)


class Masking:
    """Grows while one learns: every value that is known from then on is masked."""

    def __init__(self, values: Iterable[str] = (), *, is_off: bool = False) -> None:
        self.is_off = is_off
        self._values: set[str] = set()
        self._known = Occurrences()
        self.know(values)

    def know(self, values: Iterable[str]) -> None:
        for value in values:
            for form in (value, value.strip(), unquote(value)):
                if len(form) >= SHORTEST:
                    for each in {form, *_base64_forms(form), json.dumps(form)[1:-1]} - self._values:
                        self._values.add(each)
                        self._known.add(each)

    def learn_urls(self, text: str) -> None:
        """The passwords in the URLs of this text, so that they are found without their URL too."""
        for before, password, _ in _IN_URL.findall(text):
            user = before.rpartition("//")[2].rstrip(":")
            self.know([password, f"{user}:{password}", f"{unquote(user)}:{unquote(password)}"])
        self.know(value for _, value in _IN_QUERY.findall(text))

    def __call__(self, text: str) -> str:
        if self.is_off:
            return text
        text = _IN_URL.sub(rf"\1{MASK}\3", text)
        text = _IN_QUERY.sub(rf"\1{MASK}", text)
        text = _BEARER.sub(rf"\1{MASK}", text)
        text = _BY_KEY.sub(rf"\1{MASK}", text)
        text = _without_private_keys(text)
        return self._without_known(text) if self._values else text

    def _without_known(self, text: str) -> str:
        parts, at = [], 0
        for begin, end in self._known.spans(text):
            parts += [text[at:begin], MASK]
            at = end
        return "".join([*parts, text[at:]])

    def variable(self, name: str, value: str) -> str:
        """The value of a variable of the environment."""
        return MASK if value and not self.is_off and SECRET_VARIABLE.search(name) else self(value)


def _without_private_keys(text: str) -> str:
    """Searches begin and end in turns: one expression for both would read the rest of the text from each begin."""
    parts, at = [], 0
    while (begin := _PEM_BEGIN.search(text, at)) and (end := _PEM_END.search(text, begin.end())):
        parts += [text[at : begin.start()], MASK]
        at = end.end()
    return "".join([*parts, text[at:]])


def _base64_forms(text: str) -> Iterator[str]:
    raw = text.encode()
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")


def values_in(secrets_dir: Path) -> Iterator[str]:
    """Everything secret in the secrets directory. Raises OSError for what cannot be read."""
    for path in sorted(secrets_dir.rglob("*")):
        if path.is_file():
            yield from _values_of(path.read_bytes())


def _values_of(raw: bytes) -> Iterator[str]:
    """Of a Secret (keys and base64), or of any other file: each word of it."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        for value in found.values():
            yield str(value)
            yield from _pieces(_decoded(str(value)))
    else:
        yield from _pieces(raw.decode(errors="replace"))


def _pieces(text: str) -> Iterator[str]:
    yield text
    for word in text.split():
        yield word
        yield word.removeprefix("whsec_")
        yield word.partition("=")[2]  # a file of settings


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except ValueError:
        return ""
