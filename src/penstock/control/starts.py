"""From where a subscription sees a topic: decided once, noted in the status before anything acts on it. Pure.

A restart must not decide anew, or what came between would be lost. A topic that was made anew has another id, and
is decided about again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.control import names, times
from penstock.control.kinds import Resource, noted


@dataclass(frozen=True)
class Start:
    """The offsets from which a subscription sees a topic."""

    topic_id: str  # none: noted while there was no topic, so all that it will hold comes later
    positions: Mapping[int, int]
    written: bool = False  # whether the ledger has it

    def covering(self, partitions: int) -> "Start":
        """With partitions that came later, which a subscription sees from their first event on."""
        if set(self.positions) >= set(range(partitions)):
            return self
        return Start(self.topic_id, {p: self.positions.get(p, 0) for p in range(partitions)})


Starts = dict[str, Start]  # by topic
BEFORE_TOPIC = Start("", {})


def noted_starts(resource: Resource) -> Starts:
    text = noted(resource).get(names.NOTED_START)
    if not text:
        return {}
    stored: dict[str, Any] = json.loads(text)
    if "topicId" in stored:  # as it was noted when there was only one
        return {"": _decoded(stored)}
    return {topic: _decoded(each) for topic, each in stored.items()}


def _decoded(stored: dict[str, Any]) -> Start:
    positions = {int(p): offset for p, offset in stored["positions"].items()}
    return Start(stored["topicId"], positions, stored.get("written", False))


def as_note(starts: Starts) -> str:
    return json.dumps(
        {
            topic: {
                "topicId": start.topic_id,
                "positions": {str(p): offset for p, offset in sorted(start.positions.items())},
                "written": start.written,
            }
            for topic, start in sorted(starts.items())
        },
        separators=(",", ":"),
    )


def decided(resource: Resource, topic_id: str) -> Start | None:
    """The start that was decided before, if it was for this very topic."""
    return next((each for each in noted_starts(resource).values() if each.topic_id == topic_id), None)


@dataclass(frozen=True)
class Asked:
    """Where a subscription wants to begin."""

    earliest: bool = False
    since: float | None = None  # seconds since the epoch


LATEST = Asked()


def asked(text: str | None, *, is_newer: bool) -> Asked:
    """From what somebody wrote; without a word, everything that comes after the subscription.

    ``is_newer``: the topic is younger than the subscription, so that is everything in it.
    """
    if text is not None and text not in names.STARTS:
        return Asked(since=times.epoch_of(text))
    return Asked(earliest=text == "earliest" or (text is None and is_newer))
