"""Logs: how a process writes them, and how the last errors of a dead one are read. Called by every command."""

import logging
import re
import sys
import time
from pathlib import Path
from typing import TextIO

TAIL_BYTES = 64 * 1024
LEVEL_STYLES = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
RESET = "\x1b[0m"

ERROR_LINE = re.compile(r"\b(ERROR|FATAL|CRITICAL)\b|^\w*(Error|Exception)\b|^[\w.]+(Error|Exception): |^error: ")


class OneLine(logging.Formatter):
    """One line per record: time, level, logger, message; an exception adds its own name, and its trace in debug."""

    def __init__(self, *, coloured: bool, with_traces: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime
        self._coloured = coloured
        self._with_traces = with_traces

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if not self._with_traces:
            line = line.split("\nTraceback (most recent call last):", 1)[0]
            if record.exc_info and record.exc_info[1] is not None:
                error = record.exc_info[1]
                line += f": {type(error).__name__}: {error}"
            line = line.replace("\n", " | ")
        style = LEVEL_STYLES.get(record.levelname) if self._coloured else None
        return f"{style}{line}{RESET}" if style else line


def configure(level: str = "INFO", *, debug: bool = False, stream: TextIO | None = None) -> None:
    """Sends the logs of this process to stderr: coloured on a terminal, plain elsewhere."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine(coloured=stream.isatty(), with_traces=debug))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("DEBUG" if debug else level.upper())
    for chatty in ("py4j", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def last_errors(log: Path, since_byte: int = 0, *, or_last_lines: bool = True, limit: int = 3) -> list[str]:
    """The last lines of a log that look like a reason, or else simply its last ones if those are wanted."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(since_byte if since_byte <= size else 0, size - TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    lines = [line.strip() for line in lines if line.strip()]
    telling = [line for line in lines if ERROR_LINE.search(line)]
    chosen = telling or (lines if or_last_lines else [])
    return [line[:300] for line in chosen[-limit:]]


def size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def keep_bounded(log: Path, max_bytes: int = 10_000_000, kept: int = 2) -> None:
    """Moves the content of a log that grew too large aside. Its writer appends and goes on at the new beginning."""
    if size_of(log) <= max_bytes:
        return
    for number in range(kept, 1, -1):
        older = log.with_name(f"{log.name}.{number - 1}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number}"))
    with log.open("rb+") as stream, log.with_name(f"{log.name}.1").open("wb") as aside:
        while chunk := stream.read(1 << 20):
            aside.write(chunk)
        stream.truncate(0)
