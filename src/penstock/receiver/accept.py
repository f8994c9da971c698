"""THE PATH of an event from HTTP to its topic.

    request ──▶ route ──▶ event(s) ──▶ record(s) ──▶ Kafka ──▶ 202
       │          │           │            │           │
       │          404         400          503         503  not acknowledged: unknown, the sender tries again
       405, 413, 415          413 a batch  overloaded, 413  larger than the topic allows
       431, 408, 400 (connection.py)       Kafka away

Comes in: the head of a request, then the whole request, from a connection. Goes out: one answer for each. ``begin``
and ``accept`` return at once; the 202 is sent from ``_settled``, which Kafka's acknowledgement of the last record
calls and nothing else does. So a receiver that is killed between any two lines leaves the sender without an answer,
never with a wrong one.
"""

import logging
import re
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from penstock.contract.model import Route
from penstock.contract.telemetry import RECEIVED
from penstock.errors import Misconfigured, PenstockError, Rejected
from penstock.event.attributes import DEFAULT_LIMITS, AttributeLimits, check_lengths, check_number
from penstock.event.http import decode
from penstock.event.kafka import TRACE_HEADERS, encode_record
from penstock.event.model import Event
from penstock.kafka.produce import TooLarge
from penstock.receiver import answers
from penstock.receiver.answers import Answer
from penstock.receiver.health import Health
from penstock.receiver.inflight import Inflight
from penstock.receiver.outlets import Outlet, Outlets
from penstock.receiver.request import Request
from penstock.receiver.routes import Routes
from penstock.receiver.tally import UNKNOWN, Tally
from penstock.telemetry.logs import about

if TYPE_CHECKING:
    from penstock.receiver.tracing import ReceiverTracing

logger = logging.getLogger("penstock.receiver")

Reply = Callable[[Answer], None]

TRACES = tuple((name.encode(), name) for name in TRACE_HEADERS)
PRINTABLE = re.compile(rb"[\x20-\x7e]+\Z")

HEALTH = (b"/healthz", b"/readyz")
METRICS = b"/metrics"
METRICS_SECONDS = 1.0  # the counts grow once a second, so the text is not made more often
IDENTITY = b"identity"
LONGEST_ECHO = 1024  # bytes of a header that is sent back


class Ingress:
    """What the path needs: where addresses lead, the producers, and how much may be under way."""

    def __init__(
        self,
        routes: Routes,
        outlets: Outlets,
        inflight: Inflight,
        tally: Tally | None = None,
        attribute_limits: AttributeLimits = DEFAULT_LIMITS,
    ) -> None:
        self.routes = routes
        self.tally = tally or Tally()
        self.draining = False
        self._outlets = outlets
        self._inflight = inflight
        self._attribute_limits = attribute_limits
        self.tracing: ReceiverTracing | None = None
        self._metrics_answer = answers.OK
        self._metrics_until = 0.0

    def begin(self, request: Request) -> Answer | None:
        """Step 1, the head is there: the answer if it needs no body, None if this is an event to be read."""
        path = request.path
        by_path = self.routes.by_path
        route = (
            by_path.get(path) or by_path.get(path.removesuffix(b"/")) or self.routes.of_host(request.header(b"host"))
        )
        if route is None:
            if path in HEALTH:
                return self._state(request)
            if path == METRICS:
                return self._metrics(request)
            if not self.routes.are_current:
                return answers.NOT_READY
            return _unknown(request)
        request.route = route
        if request.method != b"POST":
            return _other_method(request)
        if request.header(b"content-encoding", IDENTITY).lower() != IDENTITY:
            return answers.refusal(415, "the body is compressed", "send it without Content-Encoding")
        if self._inflight.is_full:
            return answers.OVERLOADED
        return None

    def accept(self, request: Request, reply: Reply) -> None:
        """Steps 2 to 4, the body is there: events, records, Kafka."""
        route = request.route
        assert route is not None, "begin lets nothing through without a route"
        try:
            events = decode(request.headers, request.body)
            self._check_limits(request, events)
        except Rejected as error:
            self._refuse(request, answers.rejected(error), reply)
            return
        if not events:
            reply(answers.ACCEPTED)  # a batch may be empty, says the specification
            return
        try:
            outlet = self._outlets.of(route)
        except Misconfigured as error:  # its log says why; where a topic lies is nothing for a sender
            logger.debug("%s", error.message)
            self._refuse(request, answers.MISCONFIGURED, reply)
            return
        refused = self._refuses(route, outlet.health, len(events))
        if refused is not None:
            self._refuse(request, refused, reply)
            return
        self._send(route, outlet, request, events, reply)

    def _check_limits(self, request: Request, events: list[Event]) -> None:
        limits = self._attribute_limits
        may_be_long = request.size_bytes > limits.each_bytes  # else no attribute can be longer than that
        for place, event in enumerate(events):
            try:
                check_number(event.attributes, limits.number)
                if may_be_long:
                    check_lengths(event.attributes, limits.each_bytes)
            except Rejected as error:
                if len(events) == 1:
                    raise
                raise Rejected(f"event {place} of the batch: {error.message}", hint=error.hint) from None

    def _send(self, route: Route, outlet: Outlet, request: Request, events: list[Event], reply: Reply) -> None:
        traces = [(name, value) for raw, name in TRACES if (value := request.header(raw)) and PRINTABLE.match(value)]
        if not (route.is_foreign or self.tally.is_silent):
            traces.append((RECEIVED, b"%d" % int(request.received * 1e6)))
        trip = None if self.tracing is None else self.tracing.received(request, route, len(events))
        if trip is None:
            records = [encode_record(event, route.content_mode, traces) for event in events]
        else:
            records = [encode_record(event, route.content_mode, trip.traces(event, traces)) for event in events]
        number = len(records)
        began = perf_counter()
        self._inflight.events += number

        def settled(error: PenstockError | None) -> None:
            self._inflight.events -= number
            answer = _settled(outlet.health, route.topic, error)
            try:
                if error is None:
                    self.tally.accepted(route.path, route.topic, number, perf_counter() - began)
                else:
                    self.refused(request, answer)
                if trip is not None:
                    trip.settled(error, answer.status)
            finally:
                reply(answer)

        outlet.producer.send(route.topic, records, settled)

    def refused(self, request: Request | None, answer: Answer) -> None:
        """Counts it. Questions about health, and probes of the mesh, are no events."""
        if answer.reason and (request is None or not (request.path in HEALTH or request.header(b"k-network-probe"))):
            route = None if request is None else request.route
            self.tally.refused(UNKNOWN if route is None else route.path, answer.reason)
            if request is not None and logger.isEnabledFor(logging.DEBUG):
                _say_refused(request, answer)

    def _refuse(self, request: Request, answer: Answer, reply: Reply) -> None:
        self.refused(request, answer)
        if self.tracing is not None:
            self.tracing.refused(request, answer.status, answer.reason)
        reply(answer)

    def _refuses(self, route: Route, health: Health, number: int) -> Answer | None:
        """Whether events are not even handed to Kafka: it is known to be away, or enough are waiting for it."""
        if not self._inflight.could_hold(number):
            return answers.refusal(413, f"a batch of {number} events is too large", "send it in parts")
        if not self._inflight.has_room(number):
            return answers.OVERLOADED
        reason = health.refuses(route.topic)
        return None if reason is None else answers.unavailable(reason)

    def _metrics(self, request: Request) -> Answer:
        if request.method not in (b"GET", b"HEAD"):
            return answers.WRONG_HEALTH_METHOD
        if monotonic() >= self._metrics_until:
            self._metrics_answer = answers.metrics(self.tally.text(self.routes.kinds))
            self._metrics_until = monotonic() + METRICS_SECONDS
        return self._metrics_answer

    def _state(self, request: Request) -> Answer:
        if request.method not in (b"GET", b"HEAD"):
            return answers.WRONG_HEALTH_METHOD
        if request.path == b"/healthz":
            return answers.OK
        if self.draining:
            return answers.DRAINING
        return answers.OK if self.routes.are_current else answers.NOT_READY


def _say_refused(request: Request, answer: Answer) -> None:
    """Which event it was is known only where its attributes are headers."""
    named = {"event": b"ce-id", "source": b"ce-source", "type": b"ce-type"}
    told = {field: value.decode("latin-1") for field, name in named.items() if (value := request.header(name))}
    topic = None if request.route is None else request.route.topic
    path = request.path[:200].decode("latin-1")
    said = "%s refused with %d: %s"
    logger.debug(said, path, answer.status, answer.reason, extra=about(**told, topic=topic, status=answer.status))


def _unknown(request: Request) -> Answer:
    path, host = (text[:200].decode("latin-1") for text in (request.path, request.header(b"host")))
    return answers.refusal(404, f"no resource has the address {path}, or the host {host}")


def _settled(health: Health, topic: str, error: PenstockError | None) -> Answer:
    """Step 5: Kafka has reported on every record. Only here is an event accepted."""
    if error is None:
        health.acknowledged(topic)
        return answers.ACCEPTED
    if isinstance(error, TooLarge):
        return answers.refusal(413, error.message, error.hint)
    health.failed(topic, error.message)
    return answers.unavailable(error.message)


def _other_method(request: Request) -> Answer:
    """What is asked of an address besides taking an event: probes of the mesh, and a webhook's handshake."""
    for name in (b"k-network-hash", b"webhook-request-origin"):
        if len(request.header(name)) > LONGEST_ECHO:
            return answers.refusal(400, f"the header {name.decode()} is longer than {LONGEST_ECHO} bytes")
    if request.method == b"GET" and request.header(b"k-network-probe") == b"probe":
        return Answer(200, headers=(("K-Network-Hash", request.header(b"k-network-hash").decode("latin-1")),))
    if request.method == b"OPTIONS":
        origin = request.header(b"webhook-request-origin").decode("latin-1")
        if not origin:
            return answers.OPTIONS
        return Answer(200, headers=(answers.ALLOW_EVENTS, ("WebHook-Allowed-Origin", origin)))
    return answers.WRONG_METHOD
