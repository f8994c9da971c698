"""How much is under way in this process, and how much may be. All of it on the event loop."""


class Inflight:
    """Counts of events that wait for Kafka and of bytes held for requests; what bounds the memory."""

    __slots__ = ("_most_bytes", "_most_events", "bytes", "events")

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self.events = 0
        self.bytes = 0
        self._most_events = most_events
        self._most_bytes = most_bytes

    @property
    def is_full(self) -> bool:
        return self.events >= self._most_events or self.bytes >= self._most_bytes

    def has_room(self, events: int) -> bool:
        return self.events + events <= self._most_events

    def could_hold(self, events: int) -> bool:
        """Whether so many fit when nothing else is under way."""
        return events <= self._most_events
