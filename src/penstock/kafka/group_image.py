"""The ledger's public image: a consumer group per subscription, so that every Kafka tool shows the lag.

Our commits carry a mark in their metadata. An offset without the mark was set by somebody else: a reset, which
is obeyed by a new start of the query. An absent group has expired or never was, and means nothing.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from penstock.contract.model import Cluster, Subscription
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka.clusters import Clusters
from penstock.kafka.groups import Groups
from penstock.kafka.ledger import FollowedLedger, LaneKey

logger = logging.getLogger("penstock.kafka")

MARK = "penstock"
INTERVAL_SECONDS = 0.8
LONGEST_INTERVAL_SECONDS = 10.0
RESETS_SECONDS = 3.0
POLL_SECONDS = 0.4
PASSED_BY = (
    200  # groups committed in a round whose subscriptions only passed rows by; the others have their turn later
)
AGAIN_SECONDS = 6 * 3600.0  # quiet groups are committed again long before a broker forgets them

Partitions = dict[tuple[str, str], set[int]]  # by subscription uid and topic id
Shown = Mapping[tuple[str, str], Subscription]  # by the same


def resets(groups: Groups, subscriptions: Iterable[Subscription]) -> list[tuple[Subscription, dict[int, int]]]:
    """The subscriptions whose group somebody else has set, with the new offsets by partition."""
    wanted = list(subscriptions)
    committed = groups.offsets(each.group for each in wanted)
    found = []
    for subscription in wanted:
        foreign = {
            partition: at.offset
            for (topic, partition), at in committed.get(subscription.group, {}).items()
            if topic == subscription.topic and at.metadata != MARK
        }
        if foreign:
            found.append((subscription, foreign))
    return found


class GroupImages:
    """A thread that follows the ledger and commits, about once a second, what moved."""

    def __init__(self, clusters: Clusters, ledger: FollowedLedger, on_reset: Callable[[Subscription], None]) -> None:
        self._clusters = clusters
        self._groups: dict[Cluster, Groups] = {}  # in the cluster of the topic
        self._on_reset = on_reset  # somebody has set offsets of this subscription's group
        self._ledger = ledger
        self._moved: Partitions = {}
        self._passed_by: Partitions = {}  # the longest unseen first
        self._resets_due = 0.0
        self.rounds = 0  # that were finished
        self._shown: dict[tuple[str, str], Subscription] = {}  # by subscription uid and topic id
        self._is_all_due = threading.Event()  # everything is to be committed, not only what moved
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-images", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def show(self, shown: Mapping[tuple[str, str], Subscription]) -> None:
        """From now on these, by subscription uid and topic id, and no others. May be called from any thread."""
        self._shown = dict(shown)
        self._is_all_due.set()

    def stop(self) -> None:
        """Commits what is known by now and ends."""
        self._stopping.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        due = time.monotonic() + INTERVAL_SECONDS
        again = time.monotonic() + AGAIN_SECONDS
        try:
            while True:
                is_last = self._stopping.wait(POLL_SECONDS)
                self._follow()
                began = time.monotonic()
                if began >= again:
                    again = began + AGAIN_SECONDS
                    self._is_all_due.set()
                if is_last or began >= due:
                    self._refresh()
                    # With very many groups they are shown less often, rather than taking a core. A round may also
                    # have taken long because Kafka was away; hence the bound.
                    took = time.monotonic() - began
                    due = time.monotonic() + min(LONGEST_INTERVAL_SECONDS, max(INTERVAL_SECONDS, 5 * took))
                if is_last:
                    return
        finally:
            self._keep_groups(())

    def _follow(self) -> None:
        try:
            self._ledger.poll()
        except Exception:
            logger.exception("the ledger is not followed")
        moved = self._ledger.take_moved()
        _add(self._moved, moved.themselves)
        _add(self._passed_by, moved.by_floor)

    def _refresh(self) -> None:
        """One round. Whatever goes wrong in it, or in one of the clusters, the next one comes."""
        shown = self._shown
        looks = time.monotonic() >= self._resets_due
        self._keep_groups({each.cluster for each in shown.values()})
        due = self._take_due(shown)
        for cluster in {each.cluster for each in shown.values()}:
            here = {which: each for which, each in shown.items() if each.cluster == cluster}
            try:
                self._clusters.require(cluster)
                if looks:
                    self._look_for_resets(cluster, here)
                self._commit_moved(cluster, here, due)
            except PenstockError as error:
                logger.warning("groups are not refreshed: %s", error.message)
            except Exception:
                logger.exception("groups are not refreshed")
        for which, partitions in due.items():  # of clusters that are away: the next round tries again
            self._moved.setdefault(which, set()).update(partitions)
        if looks:
            self._resets_due = time.monotonic() + RESETS_SECONDS
        self.rounds += 1

    def _groups_of(self, cluster: Cluster) -> Groups:
        if cluster not in self._groups:
            self._groups[cluster] = Groups(self._clusters.connection(cluster))
        return self._groups[cluster]

    def _keep_groups(self, clusters: Collection[Cluster]) -> None:
        for cluster in self._groups.keys() - set(clusters):
            self._groups.pop(cluster).close()

    def _look_for_resets(self, cluster: Cluster, shown: Shown) -> None:
        """Also of groups that stand still: a trigger with nothing to do is the one that people rewind."""
        for subscription, offsets in resets(self._groups_of(cluster), shown.values()):
            self._take_reset(subscription, offsets)

    def _take_reset(self, subscription: Subscription, offsets: Mapping[int, int]) -> None:
        """What a consumer in the group commits is no reset; while it is there, nobody can set the group."""
        if not any(each.uid == subscription.uid for each in self._shown.values()):
            return  # deleted during this round: a commit would create the group again
        try:
            self._groups_of(subscription.cluster).commit(subscription.group, subscription.topic, offsets, "reset")
        except Misconfigured as error:
            logger.warning("%s; its offsets are not taken for a reset", error.message)
        else:
            self._on_reset(subscription)

    def _take_due(self, shown: Shown) -> Partitions:
        """What is to be committed in this round, of those that are shown."""
        if self._is_all_due.is_set():
            self._is_all_due.clear()
            _add(self._moved, self._ledger.lanes())
        moved, self._moved = self._moved, {}
        turn = [which for which in moved if which in self._passed_by]
        turn += itertools.islice((which for which in self._passed_by if which not in moved), PASSED_BY)
        for which in turn:
            moved.setdefault(which, set()).update(self._passed_by.pop(which))
        return {which: partitions for which, partitions in moved.items() if which in shown}

    def _commit_moved(self, cluster: Cluster, shown: Shown, due: Partitions) -> None:
        """Takes from what is due all that was committed."""
        here = {which: each for which, each in shown.items() if which in due}
        for subscription, offsets in resets(self._groups_of(cluster), here.values()):
            self._take_reset(subscription, offsets)
            for which in [which for which in here if here[which] is subscription]:
                del here[which], due[which]
        for which in sorted(here):
            if which in self._shown:  # else deleted during this round: a commit would create the group again
                self._show(here[which], self._positions(which, due[which]))
            del due[which]

    def _positions(self, which: tuple[str, str], partitions: Iterable[int]) -> dict[int, int]:
        entries = {each: self._ledger.entry(LaneKey(*which, each)) for each in partitions}
        return {partition: entry.record.position for partition, entry in entries.items() if entry is not None}

    def _show(self, subscription: Subscription, positions: Mapping[int, int]) -> None:
        if not positions:
            return  # forgotten meanwhile
        try:
            groups = self._groups_of(subscription.cluster)
            groups.commit(subscription.group, subscription.topic, positions, MARK)
        except Misconfigured as error:  # of this group alone; its next progress tries again
            logger.warning("%s", error.message)


def _add(partitions: Partitions, lanes: Iterable[LaneKey]) -> None:
    for lane in lanes:
        partitions.setdefault((lane.subscription_uid, lane.topic_id), set()).add(lane.partition)
