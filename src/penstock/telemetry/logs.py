"""Logs: how a process writes them, and how the last errors of a dead one are read. Called by every command.

A line is time, level, logger and message, and behind them what the message is about, as ``key=value``. With
``PENSTOCK_LOG_FORMAT=json`` it is a JSON value. ``log_lines.py`` reads both. An event has the same fields wherever
something is said about it, so that it can be followed by its id.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from penstock.errors import Misconfigured
from penstock.visible import escaped, visible, visible_line

FORMAT_VARIABLE, LEVEL_VARIABLE = "PENSTOCK_LOG_FORMAT", "PENSTOCK_LOG_LEVEL"
FORMATS = ("text", "json")

# Everything that a line may be about, in this order. ``event`` is its id; offsets are those of ``topic``.
FIELDS = ("event", "source", "type", "topic", "partition", "offset", "subscription", "attempt", "status", "left_out")

TAIL_BYTES = 64 * 1024
LEVEL_STYLES = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
RESET = "\x1b[0m"

ERROR_LINE = re.compile(r"\b(ERROR|FATAL|CRITICAL)\b|^\w*(Error|Exception)\b|^[\w.]+(Error|Exception): |^error: ")
NEEDS_QUOTES = re.compile(r'[\s"=\\\x00-\x1f\x7f]|^\Z')
PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"


def about(**fields: Any) -> dict[str, Any]:
    """What a line is about: ``logger.warning("…", extra=about(event=id, topic=topic))``. What is None is left out."""
    return {"fields": {name: value for name, value in fields.items() if value is not None}}


class Bounded:
    """Lines that may come by the thousand: a few a second are written, and each says how many were left out."""

    __slots__ = ("_left_out", "_per_second", "_second", "_written")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = 0
        self._written = 0
        self._left_out = 0

    def ask(self, now: float) -> int | None:
        """None: not now. Else how many were left out since the last one that was written."""
        if int(now) != self._second:
            self._second, self._written = int(now), 0
        if self._written >= self._per_second:
            self._left_out += 1
            return None
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def logfmt(fields: Mapping[str, Any]) -> str:
    """``key=value``, one blank between two; a value that could be misread is in quotes, as JSON has them."""
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())


def _quoted(text: str) -> str:
    is_plain = text.isprintable() and not NEEDS_QUOTES.search(text)
    return text if is_plain else escaped(json.dumps(text, ensure_ascii=False))


def without_passwords(text: str) -> str:
    """Whatever somebody wrote into an address; it is nothing for a log."""
    return PASSWORD.sub("", text) if "@" in text else text


class OneLine(logging.Formatter):
    """Time, level, logger, message, fields; an exception adds its own name, and its trace in debug."""

    def __init__(self, *, coloured: bool, with_traces: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", TIME_FORMAT)
        self.converter = time.gmtime
        self._coloured = coloured
        self._with_traces = with_traces

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        return visible_line(super().formatMessage(record).replace("\n", " | "))

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if self._with_traces:
            line = visible(line)
        else:
            line = line.split("\nTraceback (most recent call last):", 1)[0] + _error_of(record)
            line = visible_line(line.replace("\n", " | "))
        fields = fields_of(record)
        line = without_passwords(f"{line} {logfmt(fields)}" if fields else line)
        style = LEVEL_STYLES.get(record.levelname) if self._coloured else None
        return f"{style}{line}{RESET}" if style else line


class JsonLine(logging.Formatter):
    """The same as a JSON value: time, level, logger, message, fields."""

    def __init__(self, *, with_traces: bool) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._with_traces = with_traces

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if self._with_traces and record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        else:
            message += _error_of(record)
        line = {
            "time": f"{self.formatTime(record, TIME_FORMAT)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": without_passwords(message),
            "fields": {name: without_passwords(str(value)) for name, value in fields_of(record).items()},
        }
        return escaped(json.dumps(line, ensure_ascii=False))


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _error_of(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return "" if error is None else f": {type(error).__name__}: {error}"


def configure(level: str | None = None, *, debug: bool = False, stream: TextIO | None = None) -> None:
    """Sends the logs of this process to stderr: coloured on a terminal, plain elsewhere. The variables say the level
    and the form, where the caller does not."""
    stream = stream or sys.stderr
    chosen = os.environ.get(FORMAT_VARIABLE) or "text"
    if chosen not in FORMATS:
        raise Misconfigured(f"{FORMAT_VARIABLE} is {chosen!r}; it must be one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(stream)
    if chosen == "json":
        handler.setFormatter(JsonLine(with_traces=debug))
    else:
        handler.setFormatter(OneLine(coloured=stream.isatty(), with_traces=debug))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    wanted = (level or os.environ.get(LEVEL_VARIABLE) or "INFO").upper()
    root.setLevel("DEBUG" if debug else wanted)
    for chatty in ("py4j", "asyncio", "urllib3"):
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
