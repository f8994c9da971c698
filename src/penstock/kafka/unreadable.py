"""Records of Penstock's own topics that cannot be read. They are skipped, counted and logged; nothing stops.

The reader of a topic raises ``UnreadableRecord`` for one, and notes it here. Topics are read again and again, so a
record is known by its place and logged once.
"""

import logging
import threading

logger = logging.getLogger("penstock.kafka")

MOST_PLACES = 1000  # of a topic; what comes after those is counted with each reading
MOST_LINES = 20  # of a topic in the log


class UnreadableRecord(ValueError):
    """A record that no version of Penstock wrote, or that was damaged."""


class Unreadable:
    """May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, set[int | str]] = {}  # by topic
        self._counts: dict[str, int] = {}

    def note(self, topic: str, place: int | str, why: Exception) -> None:
        """A record that was skipped; its place is the offset, or the key where the offset is not known."""
        with self._lock:
            places = self._places.setdefault(topic, set())
            if place in places:
                return
            if len(places) < MOST_PLACES:
                places.add(place)
            count = self._counts[topic] = self._counts.get(topic, 0) + 1
        if count <= MOST_LINES:
            more = "; further ones are only counted" if count == MOST_LINES else ""
            where = f"offset {place}" if isinstance(place, int) else f"key {place[:80]!r}"
            logger.warning("%s %s cannot be read and is skipped: %.200s%s", topic, where, why, more)

    def counts(self) -> dict[str, int]:
        """By topic."""
        with self._lock:
            return dict(self._counts)

    def summary(self) -> str:
        """A message for the status; empty if everything could be read."""
        found = [f"{count} of {topic}" for topic, count in sorted(self.counts().items())]
        return f"records that cannot be read were skipped: {', '.join(found)}" if found else ""
