"""Warns before retention takes what somebody has not had yet: at half of the time that Kafka keeps it, and at 80 %.

Every topic is looked at once a minute, one in each round of the dispatcher; also for those who are paused, since they
are the ones that stand still.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping

from penstock.contract.model import Subscription, topic_of
from penstock.kafka import topics
from penstock.kafka.clusters import Clusters
from penstock.kafka.ledger import FollowedLedger, LaneKey

logger = logging.getLogger("penstock.dispatcher")

LOOK_SECONDS = 60.0
WARN_SHARE, ALARM_SHARE = 0.5, 0.8  # of the retention


def threatened(
    positions: Mapping[tuple[str, int], int], older_than: Mapping[int, int], ends: Mapping[int, int]
) -> dict[str, int]:
    """By name, how many events below these offsets, the first ones that are younger, are not finished."""
    found: dict[str, int] = {}
    for (name, partition), position in positions.items():
        count = min(older_than[partition], ends[partition]) - position
        if count > 0:
            found[name] = found.get(name, 0) + count
    return found


class RetentionWatch:
    def __init__(self, clusters: Clusters, ledger: FollowedLedger) -> None:
        self._clusters = clusters
        self._ledger = ledger
        self._looked_at: dict[str, float] = {}

    def look(self, wanted: Mapping[tuple[str, str], Iterable[Subscription]]) -> Iterator[tuple[str, list[str]]]:
        """A topic whose turn it is, with what there is to warn of; for subscriptions by place and id of topics."""
        now = time.monotonic()
        for (place, topic_id), subscriptions in wanted.items():
            if now >= self._looked_at.setdefault(place, now) + LOOK_SECONDS:
                self._looked_at[place] = now
                found = list(subscriptions)
                if found and not self._clusters.problem(found[0].cluster):
                    yield place, self._look_at(topic_of(place), topic_id, found)
                return

    def _look_at(self, topic: str, topic_id: str, subscriptions: list[Subscription]) -> list[str]:
        admin = self._clusters.clients(subscriptions[0].cluster).admin
        kept = topics.retention_seconds(admin, topic)
        state = topics.describe(admin, [topic]).get(topic)
        if kept is None or state is None or state.topic_id != topic_id:
            return []
        ends = topics.latest_offsets(admin, topic, state.partitions)
        positions = {}
        for each in subscriptions:
            for partition in ends:
                entry = self._ledger.entry(LaneKey(each.uid, topic_id, partition))
                if entry is not None:
                    positions[f"{each.kind.lower()} {each.namespace}/{each.name}", partition] = entry.record.position
        if all(position >= ends[partition] for (_, partition), position in positions.items()):
            return []
        warnings = []
        alarmed: dict[str, int] = {}
        for share, level in ((ALARM_SHARE, logging.ERROR), (WARN_SHARE, logging.WARNING)):
            older = topics.offsets_at(admin, topic, state.partitions, time.time() - share * kept)
            for name, count in threatened(positions, older, ends).items():
                if name not in alarmed:
                    alarmed[name] = count
                    what = f"{count:,} events for {name} have waited for {share:.0%} of what {topic} keeps them"
                    logger.log(level, "%s: they will be lost", what)
                    warnings.append(what)
        return warnings
