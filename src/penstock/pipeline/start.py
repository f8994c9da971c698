"""Where a query begins: the ledger's positions, what somebody has reset, and what Kafka still has.

In: the subscriptions of a topic, and which of their lanes another query serves. Out: the starting offset of every
partition, with every lost range named. Called before each start of a query.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from penstock.contract.model import Subscription
from penstock.delivery.progress import Progress, Range
from penstock.errors import Misconfigured
from penstock.kafka import claims, group_image, ledger, topics
from penstock.kafka.clients import Clients
from penstock.kafka.groups import Groups
from penstock.kafka.ledger import FollowedLedger, LaneKey, LaneRecord, Ledger, LedgerPart

logger = logging.getLogger("penstock.dispatcher")

FAR_ROWS = 5_000  # a second or less of reading
Lane = tuple[str, int]  # the uid of a subscription, and a partition


@dataclass(frozen=True)
class Beginning:
    topic_id: str
    partitions: int  # of the topic
    offsets: Mapping[int, int]  # of those that are served
    ends: Mapping[int, int]  # of the same
    ledger: LedgerPart  # the topic's
    apart: frozenset[Lane]  # lanes that another query serves
    behind: frozenset[Lane]  # lanes so far behind others that they should have a query of their own

    @property
    def backlog(self) -> int:
        return sum(self.ends[each] - offset for each, offset in self.offsets.items())


@dataclass(frozen=True)
class Wanted:
    """What a query is to serve."""

    topic: str
    subscriptions: Sequence[Subscription]
    apart: Set[Lane] = frozenset()  # lanes that another query serves
    only: Set[int] = frozenset()  # partitions; none: all of them
    may_part: bool = False  # lanes that are far behind others are left to another query
    scope: Callable[[str], str] = str  # from the topic's id to what partitions are claimed under
    pinned_apart: Set[str] = frozenset()  # uids whose lanes another query serves, in all partitions
    movable: Set[str] | None = (
        None  # uids whose lanes no query serves now, so resets are applied; None: no lane is served
    )

    def may_move(self, uid: str) -> bool:
        return self.movable is None or uid in self.movable


def find_beginning(clients: Clients, followed: FollowedLedger, wanted: Wanted) -> Beginning:
    """Raises Misconfigured when the topic is missing, Unavailable when the ledger or Kafka cannot be read."""
    topic, subscriptions = wanted.topic, wanted.subscriptions
    admin = clients.admin
    state = topics.describe(admin, [topic]).get(topic)
    if state is None:
        raise Misconfigured(f"topic {topic} does not exist")
    earliest = topics.earliest_offsets(admin, topic, state.partitions)
    mover = _Mover(followed, state.topic_id, wanted.scope(state.topic_id))
    # Those that another query serves are not moved under its hands; it is stopped first (``Topic.reset``).
    apart = {*wanted.apart, *((uid, each) for uid in wanted.pinned_apart for each in range(state.partitions))}
    elsewhere = {uid for uid, _ in wanted.apart}
    own = [each for each in subscriptions if each.uid not in elsewhere]
    if not wanted.only:
        _obey_resets(clients.groups, [each for each in own if wanted.may_move(each.uid)], mover)
    followed.read_to_end()
    part = followed.part(lambda lane: lane.topic_id == state.topic_id)
    known = part.ledger
    latest = topics.latest_offsets(admin, topic, state.partitions)  # after the ledger, so that it cannot be behind it
    partitions = sorted(wanted.only) or range(state.partitions)
    _pull_back(mover, known, topic, own, {each: latest[each] for each in partitions})
    offsets = {}
    behind = set()
    for partition in partitions:
        served = [each for each in subscriptions if (each.uid, partition) not in apart]
        if wanted.may_part:
            late = far_behind(known, state.topic_id, partition, served, earliest[partition])
            behind |= {(uid, partition) for uid in late}
            served = [each for each in served if each.uid not in late]
        first = lowest_position(known, state.topic_id, partition, served, latest[partition])
        _tell_lost(topic, partition, served, known, state.topic_id, earliest[partition])
        offsets[partition] = min(max(first, earliest[partition]), latest[partition])
    ends = {each: latest[each] for each in partitions}
    return Beginning(state.topic_id, state.partitions, offsets, ends, part, frozenset(apart), frozenset(behind))


def _tell_lost(
    topic: str, partition: int, served: Sequence[Subscription], known: Ledger, topic_id: str, earliest: int
) -> None:
    """What retention took before it was delivered, exactly, and from whom."""
    lost: dict[tuple[int, int], list[str]] = {}
    for each in served:
        entry = known.entry(LaneKey(each.uid, topic_id, partition))
        for span in lost_ranges(entry.record, earliest) if entry else ():
            lost.setdefault(span, []).append(f"{each.kind.lower()} {each.namespace}/{each.name}")
    for (first, last), whom in sorted(lost.items()):
        logger.error(
            "lost: %s/%d offsets %d to %d were deleted by retention before they were delivered to %s",
            topic, partition, first, last, ", ".join(whom),
        )  # fmt: skip


def lost_ranges(record: LaneRecord, earliest: int) -> list[tuple[int, int]]:
    """First and last offsets of what is not finished and not there any more; finished beyond a gap is not lost."""
    found, at = [], record.position
    for first, last in record.beyond:
        if at < min(first, earliest):
            found.append((at, min(first, earliest) - 1))
        at = max(at, last + 1)
    if at < earliest:
        found.append((at, earliest - 1))
    return found


def far_behind(
    known: Ledger, topic_id: str, partition: int, subscriptions: Sequence[Subscription], earliest: int
) -> set[str]:
    """The uids of those who would make the others wait while all that they still need is read."""
    entries = {each.uid: known.entry(LaneKey(each.uid, topic_id, partition)) for each in subscriptions}
    positions = {uid: max(entry.record.position if entry else 0, earliest) for uid, entry in entries.items()}
    furthest = max(positions.values(), default=0)
    return {uid for uid, position in positions.items() if position < furthest - FAR_ROWS}


def lowest_position(
    known: Ledger, topic_id: str, partition: int, subscriptions: Sequence[Subscription], end: int
) -> int:
    """The first offset that any of them still needs; a lane without a record needs all there is."""
    entries = [known.entry(LaneKey(each.uid, topic_id, partition)) for each in subscriptions]
    return min(((entry.record.position if entry else 0) for entry in entries), default=end)


class _Mover:
    """Moves lanes, under a generation that is higher than the present one. No query may be serving them."""

    def __init__(self, followed: FollowedLedger, topic_id: str, scope: str) -> None:
        self.topic_id = topic_id
        self._followed = followed
        self._scope = scope

    def move(self, subscription: Subscription, asked: Mapping[int, int]) -> None:
        producer = self._followed.connection.producer()
        writer = ledger.LedgerWriter(producer)
        generation = claims.next_query_number(producer, self._scope) << claims.QUERY_SHIFT
        for partition, offset in asked.items():
            lane = LaneKey(subscription.uid, self.topic_id, partition)
            writer.write(lane, generation, LaneRecord(offset, self._finished_since(lane, offset)))
        writer.flush(f"the new position of {subscription.group}")

    def _finished_since(self, lane: LaneKey, offset: int) -> tuple[Range, ...]:
        """Offsets that were in flight when the lane was stopped and are delivered by now: they are not sent again."""
        entry = self._followed.entry(lane)
        if entry is None:
            return ()
        progress = Progress(entry.record.position, entry.record.beyond)
        return tuple(
            (each, each) for each in sorted(entry.record.stopped) if each >= offset and progress.is_done(each)
        )


def _obey_resets(groups: Groups, subscriptions: Sequence[Subscription], mover: _Mover) -> None:
    """Somebody set a group's offsets: the lanes go there."""
    for subscription, asked in group_image.resets(groups, subscriptions):
        try:
            # Without our mark: should we die before the lanes are moved, it is still a reset.
            groups.commit(subscription.group, subscription.topic, asked, "reset")
        except Misconfigured as error:
            logger.error("%s; its offsets are not taken for a reset", error.message)
            continue
        logger.warning("group %s was reset from outside to %s: obeyed", subscription.group, asked)
        mover.move(subscription, asked)
        groups.commit(subscription.group, subscription.topic, asked, group_image.MARK)


def _pull_back(
    mover: _Mover, known: Ledger, topic: str, subscriptions: Sequence[Subscription], latest: Mapping[int, int]
) -> None:
    """Lanes that stand beyond the end of the log: it lost records, or somebody set them there.

    What comes next would get offsets that these lanes take for finished, so they go back to the end.
    """
    for subscription in subscriptions:
        beyond = {}
        for partition, end in latest.items():
            entry = known.entry(LaneKey(subscription.uid, mover.topic_id, partition))
            if entry is not None and entry.record.position > end:
                beyond[partition] = end
                logger.error(
                    "trigger %s/%s stands at offset %d of %s/%d, which ends at %d: it goes on from there",
                    subscription.namespace, subscription.name, entry.record.position, topic, partition, end,
                )  # fmt: skip
        if beyond:
            mover.move(subscription, beyond)
