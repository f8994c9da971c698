"""Lines of logs as values, whoever wrote them: Penstock (text or JSON), Kafka, Spark. Pure.

    2026-11-16T14:20:39.204Z WARNING penstock.delivery: given up: … event=42     Penstock, and Kafka without fields
    26/11/16 14:20:41 WARN SparkConf: …                                          Spark, in local time
    {"time": …, "level": …, "logger": …, "message": …, "fields": {…}}            Penstock's other form

What follows a line without a time of its own, such as a stack trace, belongs to it. Read by ``log_files.py``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from penstock.telemetry.logs import FIELDS, logfmt

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
OTHER_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL", "TRACE": "DEBUG"}
LAST_WORD = "error: "  # of a process that could not go on; it has no time, and comes after what has
MOST_FOLLOWING = 500  # lines that may belong to one; Kafka shows its settings in this way

_LEVEL = r"(DEBUG|INFO|WARNING|ERROR|CRITICAL|WARN|FATAL|TRACE)"
_OURS = re.compile(rf"(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z) {_LEVEL} +([^\s:]+): ?(.*)", re.DOTALL)
_SPARKS = re.compile(rf"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) {_LEVEL} ([^\s:]+): ?(.*)", re.DOTALL)
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^\s"=]+)'
_ONE_FIELD = re.compile(rf" ({'|'.join(FIELDS)})=({_VALUE})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class LogLine:
    time: float  # seconds since the epoch
    level: str  # one of LEVELS
    part: str  # controller, receiver, dispatcher, kafka, up
    logger: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def stamp(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def text(self) -> str:
        told = f" {logfmt(self.fields)}" if self.fields else ""
        return f"{self.stamp} {self.level:<7} {self.part:<10} {self.logger}: {self.message}{told}"

    def value(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "time": self.stamp,
            "level": self.level,
            "part": self.part,
            "logger": self.logger,
            "message": self.message,
            "fields": dict(self.fields),
        }


def parse(line: str, part: str) -> LogLine | None:
    """None for what has no time of its own."""
    line = _COLOUR.sub("", line) if "\x1b" in line else line
    if line.startswith("{"):
        return _of_json(line, part)
    found = _OURS.match(line)
    if found is not None:
        return _made(datetime.fromisoformat(found[1]), found, part)
    found = _SPARKS.match(line)
    if found is not None:
        return _made(datetime.strptime(found[1], "%y/%m/%d %H:%M:%S").astimezone(), found, part)
    return None


def parse_all(lines: Iterable[str], part: str, time_before: float = 0.0) -> Iterator[LogLine]:
    """Each with what follows it. What stands before the first time has that time, or ``time_before`` without any."""
    last: LogLine | None = None
    following: list[str] = []
    is_timed = False  # a line with a time has come
    for line in lines:
        found = parse(line, part)
        if found is not None and not is_timed:
            is_timed = True
            last = last and replace(last, time=found.time)
        if found is None and line.startswith(LAST_WORD):
            found = LogLine(last.time if last else time_before, "ERROR", part, part, line[len(LAST_WORD) :].strip())
        if found is not None:
            if last is not None:
                yield _with(last, following)
            last, following = found, []
        elif not line.strip():
            continue
        elif last is None:
            last = LogLine(time_before, "INFO", part, part, line.strip())
        elif len(following) < MOST_FOLLOWING:
            following.append(line)
    if last is not None:
        yield _with(last, following)


def _with(line: LogLine, following: list[str]) -> LogLine:
    return replace(line, message="\n".join([line.message, *following])) if following else line


def _made(time: datetime, found: re.Match[str], part: str) -> LogLine:
    level, logger, message = OTHER_NAMES.get(found[2], found[2]), found[3], found[4].rstrip()
    fields: dict[str, str] = {}
    at = _fields_at(message) if logger.startswith("penstock") else len(message)
    if at < len(message):
        fields = {name: _unquoted(value) for name, value in _ONE_FIELD.findall(message, at)}
        message = message[:at]
    return LogLine(time.timestamp(), level, part, logger, message, fields)


def _fields_at(message: str) -> int:
    """Where the fields at the end of a line begin; the line's length if it has none. Reads the line once."""
    begin = end = 0
    for found in _ONE_FIELD.finditer(message):
        if found.start() != end:
            begin = found.start()
        end = found.end()
    return begin if end == len(message) else len(message)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _of_json(line: str, part: str) -> LogLine | None:
    try:
        value = json.loads(line)
        level = str(value["level"])
        fields = {str(name): str(told) for name, told in value["fields"].items()}
        time = datetime.fromisoformat(value["time"]).timestamp()
        return LogLine(time, level, part, str(value["logger"]), str(value["message"]), fields)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
