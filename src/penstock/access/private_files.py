"""Files that only their owner may read: secrets, tokens, and what is made from them.

Used by every room that keeps something confidential on disk.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from penstock.child import PRIVATE_UMASK

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private() -> None:
    """From now on this process, and what it starts, makes files that only their owner may use."""
    os.umask(PRIVATE_UMASK)


def tighten(folder: Path) -> None:
    """Removes all rights of other users from the folder and its content. Links in it are not followed.

    The folder itself comes last: its mode proves that everything below was done, so the next start has nothing to do.
    Files of other users stay as they are; only their owner may change them.
    """
    folder = folder.resolve()
    if not folder.is_dir() or not others_may_read(folder):
        return
    for place, _, names in os.walk(folder, topdown=False):
        for path in (*(os.path.join(place, name) for name in names), place):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                mode = os.lstat(path).st_mode
                if mode & OTHERS and not stat.S_ISLNK(mode):
                    os.chmod(path, stat.S_IMODE(mode) & ~OTHERS)


def make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Writes the whole file or nothing, even in a crash: a temporary file is synced to the disk, then renamed."""
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
