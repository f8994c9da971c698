"""The log files of a data directory: found, merged by time, followed while they grow. Called by ``penstock logs``.

    logs/receiver.log.2 ─▶ .1 ─▶ receiver.log ─▶ lines ─┐
    logs/kafka.log.1    ─▶       kafka.log    ─▶ lines ─┴─▶ one stream, the oldest first

A file that grows too large is moved aside: the supervisor copies it and truncates it (``logs.keep_bounded``), Kafka
renames it. Either way what was not yet read is found in its first successor, at the same place.
"""

import heapq
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.telemetry.log_lines import LogLine, parse_all

ENDINGS = (".log", ".out")  # a JVM's own words are beside its log
KEPT_ASIDE = 9
CHUNK_BYTES = 1 << 20
LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class LogFile:
    """A log that is written now, and what was moved aside from it."""

    path: Path

    @property
    def part(self) -> str:
        return self.path.stem

    @property
    def older(self) -> list[Path]:
        """The oldest first."""
        named = [self.path.with_name(f"{self.path.name}.{number}") for number in range(KEPT_ASIDE, 0, -1)]
        return [path for path in named if path.exists()]

    def lines(self, since: float = 0.0, end: int = sys.maxsize) -> Iterator[LogLine]:
        """All that was said since then, up to this byte of the file; files that ended before are not opened."""
        for path in [*self.older, self.path]:
            try:
                changed = path.stat().st_mtime
                if changed >= since:
                    found = parse_all(_lines_of(path, end if path is self.path else sys.maxsize), self.part, changed)
                    yield from (line for line in found if line.time >= since)
            except OSError:
                continue  # moved aside while we looked


def log_files(folder: Path) -> list[LogFile]:
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
    except OSError:
        return []
    return [LogFile(path) for path in names]


def merged(files: Sequence[LogFile], since: float = 0.0, ends: Mapping[Path, int] | None = None) -> Iterator[LogLine]:
    """Lines of one file stay in their order, whatever their clocks say. ``ends``: where to stop, by file."""
    ends = ends or {}
    parts = [file.lines(since, ends.get(file.path, sys.maxsize)) for file in files]
    return heapq.merge(*parts, key=lambda line: line.time)


class Following:
    """One log from its present end on. ``new_lines`` is called again and again."""

    def __init__(self, file: LogFile, *, from_start: bool = False) -> None:
        self.file = file
        self._identity, size = _identity_of(file.path)
        self.beginning = self._position = 0 if from_start else size
        self._rest = b""

    def new_lines(self) -> list[LogLine]:
        identity, size = _identity_of(self.file.path)
        if identity is None:
            return []
        read = b""
        if identity != self._identity or size < self._position:
            if self._identity is not None:
                read = _read(self.file.path.with_name(f"{self.file.path.name}.1"), self._position)
            self._identity, self._position = identity, 0
        more = _read(self.file.path, self._position)
        self._position += len(more)
        *whole, rest = (self._rest + read + more).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        texts = (line.decode(errors="replace") for line in whole)
        return list(parse_all(texts, self.file.part, _changed(self.file.path)))


class FollowedFolder:
    """All logs of a folder, also those that appear later."""

    def __init__(self, folder: Path, parts: Sequence[str]) -> None:
        self._folder = folder
        self._parts = parts
        self._followed = {file.path: Following(file) for file in self._files()}

    @property
    def beginnings(self) -> dict[Path, int]:
        """From where on each is followed: what stands before is for somebody else to show."""
        return {path: each.beginning for path, each in self._followed.items()}

    def new_lines(self) -> list[LogLine]:
        """What was said since the last time, the oldest first."""
        for file in self._files():
            if file.path not in self._followed:
                self._followed[file.path] = Following(file, from_start=True)
        found = [line for each in self._followed.values() for line in each.new_lines()]
        return sorted(found, key=lambda line: line.time)

    def _files(self) -> list[LogFile]:
        return chosen(log_files(self._folder), self._parts)


def chosen(files: Sequence[LogFile], parts: Sequence[str]) -> list[LogFile]:
    """Those of the parts; ``kafka`` means all its brokers, and none means all parts."""
    if not parts:
        return list(files)
    return [file for file in files if any(file.part == part or file.part.startswith(f"{part}-") for part in parts)]


def _lines_of(path: Path, end: int) -> Iterator[str]:
    with path.open("rb") as stream:
        while end > 0 and (line := stream.readline(min(end, LONGEST_LINE))):
            end -= len(line)
            yield line.decode(errors="replace").rstrip("\n")


def _identity_of(path: Path) -> tuple[int | None, int]:
    try:
        found = path.stat()
    except OSError:
        return None, 0
    return found.st_ino, found.st_size


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path, position: int) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(position, os.SEEK_SET)
            return stream.read(16 * CHUNK_BYTES)
    except OSError:
        return b""
