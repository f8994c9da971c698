"""Which events are traced, and W3C's ``traceparent``. Light: OpenTelemetry is imported only where tracing is on.

    sender's traceparent     what happens
    sampled (…-01)           spans join the sender's trace
    not sampled (…-00)       none; its bytes go on unchanged
    none                     a new trace, for the share of events that ``trace_sampling`` says
    invalid                  none; its bytes go on unchanged

``open_tracing`` makes the ``Tracing`` of a process (``spans.py``), or none. Called by the receiver and by workers,
after they have forked.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from penstock.errors import Misconfigured
from penstock.settings import setting

if TYPE_CHECKING:
    from penstock.telemetry.spans import Tracing

ExporterName = Literal["none", "otlp", "zipkin"]

SAMPLING_SETTING = setting(0.0, "share of events without a trace of their own that begin one, 0.0 to 1.0")
EXPORTER_SETTING = setting("none", "where traces go: none (tracing is off), otlp or zipkin")
ENDPOINT_SETTING = setting("", "the collector's URL; empty: the usual one on this host")

LENGTH = 55  # of a traceparent of version 00; later ones may be longer
FLAGS_END = 54
SAMPLED = frozenset(b"13579bdf")  # last digits of the flags with the lowest bit set
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?\Z")


class Settings(Protocol):
    """What the settings of a process say about tracing."""

    @property
    def trace_sampling(self) -> float: ...
    @property
    def trace_exporter(self) -> ExporterName: ...
    @property
    def trace_endpoint(self) -> str: ...


@dataclass(frozen=True)
class TraceSettings:
    """The same as plain values, which travel to workers."""

    sampling: float = 0.0
    exporter: ExporterName = "none"
    endpoint: str = ""

    @property
    def is_on(self) -> bool:
        return self.exporter != "none"


NO_TRACES = TraceSettings()


class Parent(NamedTuple):
    """The span that another one belongs to."""

    trace_id: int
    span_id: int

    @property
    def traceparent(self) -> bytes:
        return b"00-%032x-%016x-01" % self


def trace_settings(settings: Settings) -> TraceSettings:
    """Raises Misconfigured for what cannot be meant."""
    share, endpoint = settings.trace_sampling, settings.trace_endpoint
    if not 0.0 <= share <= 1.0:
        raise Misconfigured(f"trace_sampling is {share:g}; it is a share, from 0.0 to 1.0", hint="0.01 is one in 100")
    if endpoint:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(
                "trace_endpoint is no URL with http or https", hint="http://127.0.0.1:4318/v1/traces, for example"
            )
        if "@" in parts.netloc:
            raise Misconfigured(
                "trace_endpoint has a user or a password in it",
                hint="put credentials into OTEL_EXPORTER_OTLP_HEADERS",
            )
    return TraceSettings(share, settings.trace_exporter, endpoint)


def open_tracing(settings: TraceSettings, part: str) -> "Tracing | None":
    """The process's own; None when tracing is off."""
    if not settings.is_on:
        return None
    from penstock.telemetry.spans import shared_tracing

    return shared_tracing(settings, part)


def sampled_parent(traceparent: bytes) -> Parent | None:
    """The sender's span, when it wants to be traced. Mostly it does not, which one byte tells."""
    if len(traceparent) < LENGTH or traceparent[FLAGS_END] not in SAMPLED:
        return None
    found = _TRACEPARENT.match(traceparent)
    if found is None or (found[1] == b"00" and len(traceparent) != LENGTH):
        return None
    return Parent(int(found[2], 16), int(found[3], 16))


class Choice:
    """Whether an event is traced. ``dice`` are between 0 and 1."""

    __slots__ = ("_dice", "_share")

    def __init__(self, share: float, dice: Callable[[], float] = random.random) -> None:
        self._share = share
        self._dice = dice

    def of(self, traceparent: bytes) -> tuple[bool, Parent | None]:
        """Whether it is, and of which span it is a part; of none when it begins a trace."""
        if traceparent:
            parent = sampled_parent(traceparent)
            return parent is not None, parent
        return self._dice() < self._share, None
