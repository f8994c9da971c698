"""The spans of the receiver: a request that is traced, and each of its events on the way to Kafka.

    receive ─┬─▶ produce ─▶ (the record's traceparent; a worker's match span goes on from there)
             └─▶ produce

Called by ``accept.py``; made by ``serve.py`` when tracing is on, and imported only then.
"""

from collections.abc import Sequence

from penstock.contract.model import Route
from penstock.errors import PenstockError
from penstock.event.model import Event
from penstock.receiver.request import Request
from penstock.telemetry.spans import PRODUCER, SERVER, Span, Tracing, Value, end, parent_of
from penstock.telemetry.traces import Parent, sampled_parent

TraceHeaders = Sequence[tuple[str, bytes]]
TRACEPARENT = "traceparent"


class ReceiverTracing:
    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def received(self, request: Request, route: Route, number: int) -> "Trip | None":
        """None, mostly: a request that is not traced."""
        is_traced, parent = self._tracing.choice.of(request.header(b"traceparent"))
        return Trip(self._tracing, parent, route, number) if is_traced else None

    def refused(self, request: Request, status: int, reason: str) -> None:
        """A request that a sender traces, and that does not even come to Kafka."""
        parent = sampled_parent(request.header(b"traceparent"))
        if parent is not None and request.route is not None:
            end(_receive(self._tracing, parent, request.route), reason, {"http.response.status_code": status})

    def close(self) -> None:
        self._tracing.close()


class Trip:
    """A request that is traced, until its answer."""

    __slots__ = ("_produced", "_receive", "_route", "_tracing")

    def __init__(self, tracing: Tracing, parent: Parent | None, route: Route, number: int) -> None:
        self._tracing = tracing
        self._route = route
        self._produced: list[Span] = []
        self._receive = _receive(tracing, parent, route)
        if number > 1:
            self._receive.set_attribute("messaging.batch.message_count", number)

    def traces(self, event: Event, told: TraceHeaders) -> TraceHeaders:
        """The trace headers of an event's record: the sender's, but for the span that it comes from now."""
        attributes: dict[str, Value] = {
            "messaging.system": "kafka",
            "messaging.destination.name": self._route.topic,
            "messaging.operation.name": "produce",
            "messaging.operation.type": "send",
            "messaging.message.body.size": len(event.data or b""),
        }
        for name in ("id", "source", "type"):
            if name in event.attributes:
                attributes[f"cloudevents.event_{name}"] = event.attributes[name]
        span = self._tracing.begin(f"produce {self._route.topic}", PRODUCER, parent_of(self._receive), attributes)
        self._produced.append(span)
        return [(TRACEPARENT, parent_of(span).traceparent), *(pair for pair in told if pair[0] != TRACEPARENT)]

    def settled(self, error: PenstockError | None, status: int) -> None:
        """Kafka has all of its events, or not."""
        said = "" if error is None else error.message
        for span in self._produced:
            end(span, said)
        end(self._receive, said, {"http.response.status_code": status})


def _receive(tracing: Tracing, parent: Parent | None, route: Route) -> Span:
    about: dict[str, Value] = {"http.request.method": "POST", "url.path": route.path, "http.route": route.path}
    return tracing.begin(f"receive {route.path}", SERVER, parent, about)
