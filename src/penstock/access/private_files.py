"""Files that only their owner may read: secrets, tokens, and what is made from them.

Used by every room that keeps something confidential on disk.
"""

import os
import secrets
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """The whole file or none of it, also after a crash: a complete draft is synced to the disk, then renamed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def others_may_read(path: Path) -> bool:
    """Whether anybody besides the owner has any right to the file."""
    return bool(path.stat().st_mode & OTHERS)
