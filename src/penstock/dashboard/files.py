"""The files of the dashboard, read once and kept in memory with their types and tags.

Called by ``control/pages.py``. A file that is added under ``static/`` is served without being named anywhere.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

INDEX = "index.html"
USED_LINK = "used-link.html"  # shown for a login link that no longer works
LARGEST_IN_ALL = 150_000  # bytes of all pages together, as they are sent: what loads at once needs no more

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# Nothing comes from elsewhere, nothing goes elsewhere, and no script or style stands in the page itself.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    packed: bytes  # with gzip
    content_type: str
    etag: str


def load() -> dict[str, StaticFile]:
    """All files by their path below ``static/``."""
    found = dict(_walk(files("penstock.dashboard") / "static", ""))
    return {path: _file(path, content) for path, content in found.items()}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        path = prefix + each.name
        if each.is_dir():
            yield from _walk(each, path + "/")
        elif _suffix(path) in _TYPES:  # an editor's leftovers are none of ours
            yield path, each.read_bytes()


def _file(path: str, content: bytes) -> StaticFile:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return StaticFile(content, gzip.compress(content, mtime=0), _TYPES[_suffix(path)], tag)


def _suffix(path: str) -> str:
    return path[path.rfind(".") :]
