"""Files that people name on the command line."""

import sys
from pathlib import Path

from penstock.errors import Rejected


def read_text(path: str, hint: str | None = None) -> str:
    """What the file holds, or stdin for ``-``. Rejected says why it cannot be read."""
    shown = "stdin" if path == "-" else path
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Rejected(f"{shown} cannot be read\n{error.strerror}", hint=hint) from None
    except UnicodeDecodeError as error:
        raise Rejected(f"{shown} is not UTF-8 text\n{error.reason} at byte {error.start}") from None
