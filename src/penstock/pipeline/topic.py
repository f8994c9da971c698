"""All queries of one topic: the shared one, and those of subscriptions whose lanes are parked.

    a lane holds up the others ─▶ its worker parks it (ledger) ─▶ a query of its own goes on with it
    a lane is far behind at a start ─▶ the same, without holding up anybody first
    a query of its own has caught up ─▶ it lets go ─▶ the shared query is replaced, with the lane in it
    a subscription is pinned to bulk gear, others are not ─▶ it has a query of its own for good

So one slow subscriber is its own problem: the others neither wait for it nor read again what it still needs. Owned by
the dispatcher, which calls ``advance`` again and again from one thread.
"""

import logging
import time
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from penstock.contract.model import Cluster, Pin, QueryReport, Subscription
from penstock.errors import Rejected
from penstock.filter.check import require_valid
from penstock.kafka.ledger import LaneKey
from penstock.pipeline.running import Environment, cluster_of
from penstock.pipeline.settling import Settling
from penstock.pipeline.start import Lane
from penstock.pipeline.topic_query import StoppedLanes, TopicQuery

logger = logging.getLogger("penstock.dispatcher")

NEAR_SHARE = 0.25  # of the rows that a worker holds: so near to the shared query, and a parked lane may come back
GATHER_SECONDS = 1.5  # when one partition of a subscription is parked, the others of it are likely to follow
SHORTEST_STAY_SECONDS = 5.0  # of a subscription in a query of its own; twice as long each time it had to go again,
LONGEST_STAY_SECONDS = 300.0
RESET_SECONDS = 35.0  # longest wait for what is in flight when a subscription is reset
ROTATE_SECONDS = 60.0  # while others wait for one of the few queries
NO_QUERY_YET = "the limit of such queries (PENSTOCK_PRIVATE_QUERIES) is reached; slow subscriptions take turns"


class Resetting(NamedTuple):
    stopped: tuple[StoppedLanes, ...]  # empty: no query served them
    until: float  # on the monotonic clock: how long to wait for answers


@lru_cache(maxsize=10_000)
def _problem(filters: bytes) -> str:
    """Why filters (as JSON) are invalid; empty: they are valid. Cached, since most stay when others change."""
    try:
        require_valid(msgspec.json.decode(filters))
    except Rejected as error:
        return error.message
    return ""


class Topic:
    def __init__(self, name: str, environment: Environment, *, is_old: bool = False) -> None:
        self.name = name  # its place: the topic's name, and its cluster if that is not home
        self.wanted: tuple[Subscription, ...] = ()
        self.serving: tuple[Subscription, ...] = ()  # those of them that are not paused
        self.warnings: tuple[str, ...] = ()  # of what retention threatens
        self._refused: dict[str, str] = {}  # by uid: why its filter is invalid
        self._checked: tuple[Subscription, ...] = ()  # the wanted subscriptions whose filters were checked last
        self._environment = environment
        self._shared = TopicQuery(name, environment, is_old=is_old)
        self._private: dict[str, TopicQuery] = {}  # by uid
        self._apart: dict[str, set[int]] = {}  # uid: its partitions that are not for the shared query; in turn
        self._returning: dict[str, set[int]] = {}  # taken back in this round
        self._gathering: dict[str, Settling] = {}  # uid: its query waits for further partitions of it
        self._stays: dict[str, float] = {}  # uid: how long at least, the next time
        self._reset_asked: set[str] = set()  # uids
        self._resetting: dict[str, Resetting] = {}  # by uid: no query serves them until they are moved
        self._waiting: frozenset[str] = frozenset()  # uids of isolated subscriptions for which there is no query now
        self._topic_id: str | None = None  # the last one that is known: the shared query has none while it is stopped

    # ── what others ask ───────────────────────────────────────────────────────────────────────────

    @property
    def topic_id(self) -> str | None:
        return self._shared.topic_id

    @property
    def partitions(self) -> int:
        return self._shared.topic_partitions

    @property
    def slots(self) -> int:
        """Tasks that run, also those of queries that have handed over and still wait for answers."""
        queries = list(self._private.values())  # a copy: threads of the HTTP port ask too, while it changes
        running = self._shared.partitions + sum(query.partitions for query in queries)
        return running + self._environment.leaving.slots(self.name)

    @property
    def report(self) -> QueryReport:
        isolated = self._private.copy()  # threads of the HTTP port ask too, as in ``slots``
        report = msgspec.structs.replace(
            self._shared.report,
            apart=tuple(sorted(isolated)),
            failures=dict.fromkeys(sorted(self._waiting), NO_QUERY_YET)
            | {
                uid: q.report.reason for uid, q in sorted(isolated.items()) if q.report.state in ("failed", "refused")
            },
            warnings=self.warnings,
            refused=self._refused,
        )
        cluster = self.cluster
        problem = "" if cluster.is_home else self._environment.clusters.problem(cluster)
        return msgspec.structs.replace(report, state="failed", reason=problem) if problem else report

    @property
    def cluster(self) -> Cluster:
        """With the credentials of the first of those who want it."""
        return cluster_of(self.wanted)

    @property
    def is_cold(self) -> bool:
        return self._shared.gear == "cold"

    @property
    def quiet_since(self) -> float:
        """On the monotonic clock."""
        return self._shared.gearbox.moved_at

    def prepare(self) -> bool:
        """Makes the start of a cold topic's query ready; whether there was something to make ready."""
        return self._shared.prepare()

    @property
    def lacks_room(self) -> int:
        return self._shared.lacks_room

    def wake(self) -> None:
        """A record has come while it was cold."""
        self._shared.gearbox.wake()

    def make_room(self) -> None:
        """Others need its slots: it goes cold at the next round, unless it has something to do."""
        self._shared.gearbox.rest_soon()

    def restart(self) -> None:
        """Partitions were added, or the topic was made anew: everything is found out again."""
        self._shared.must_restart = True
        self._take_all_back()

    def reset(self, uid: str) -> None:
        """The offsets of this subscription's group were set by a user.

        Its lanes are stopped, what is in flight is finished, and then a new start of the shared query moves them.
        """
        self._reset_asked.add(uid)

    # ── one round ─────────────────────────────────────────────────────────────────────────────────

    def advance(self, free_slots: int) -> None:
        now = time.time()
        self._refuse_invalid()
        self.serving = tuple(
            each for each in self.wanted if not each.is_paused(now) and each.uid not in self._refused
        )
        for uid in self._apart.keys() - {each.uid for each in self.serving}:
            self._take_back(uid)
            self._resetting.pop(uid, None)  # applied when it is served again
        self._stop_reset({each.uid for each in self.serving})
        moving = self._move_stopped()
        if self._shared.topic_id is not None:
            if self._topic_id not in (None, self._shared.topic_id):
                self._take_all_back()  # the topic was made anew
            self._topic_id = self._shared.topic_id
            self._serve_parked(self._parked())
            self._bring_back()
        pinned = self._pinned_apart()
        self._shared.wanted = self.serving
        self._shared.gearbox.pin = self._pin_of(each for each in self.serving if each.uid not in pinned)
        self._shared.apart = frozenset((uid, each) for uid, partitions in self._apart.items() for each in partitions)
        self._shared.pinned_apart = pinned
        self._shared.may_rest = not self._apart and not pinned
        before = self.slots
        self._shared.advance(free_slots)
        self._set_apart(self._shared.behind)
        if self._shared.is_settled:  # or what runs may still serve them
            self._set_apart((uid, each) for uid in sorted(pinned) for each in range(self._shared.topic_partitions))
        self._shared.behind = frozenset()
        if self._shared.must_restart:  # it was not replaced, and what runs leaves these lanes out
            uids = {each.uid for each in self.serving}
            self._set_apart((uid, each) for uid, lanes in self._returning.items() for each in lanes if uid in uids)
        else:
            for uid in moving:
                del self._resetting[uid]
        self._returning.clear()
        if self._topic_id is not None:
            self._advance_private(free_slots + before - self.slots - self._shared.lacks_room)
        self._waiting = frozenset(self._apart.keys() - self._private.keys() - self._resetting.keys())
        if len(self._private) < self._environment.settings.private_queries:
            self._waiting = frozenset()  # they get one in a moment

    def stop(self) -> None:
        for uid in list(self._private):
            self._private.pop(uid).stop()
        self._shared.stop()

    def _refuse_invalid(self) -> None:
        """A filter that is invalid would keep the query from starting, so the others are served without it."""
        if self.wanted is self._checked:
            return
        self._checked = self.wanted
        refused: dict[str, str] = {}
        for each in self.wanted:
            if problem := _problem(msgspec.json.encode(each.filters)):
                refused[each.uid] = problem
                if each.uid not in self._refused:
                    logger.error("%s is not served: %s", self._name_of(each.uid), problem)
        self._refused = refused

    def _parked(self) -> list[Lane]:
        uids = {each.uid for each in self.serving} - self._resetting.keys()
        parked = self._environment.ledger.parked(str(self._shared.topic_id))
        return [(lane.subscription_uid, lane.partition) for lane in parked if lane.subscription_uid in uids]

    def _serve_parked(self, lanes: Iterable[Lane]) -> None:
        """Served by a query of their own; if none is allowed, or that query has isolated them, by a new start.

        A worker also isolates unfinished lanes when a batch ends: the tasks of the same query never see it again.
        """
        for uid, partition in lanes:
            isolated = self._private.get(uid)
            if partition in self._apart.get(uid, ()):
                if isolated is not None and isolated.has_parked(uid, partition):
                    isolated.must_restart = True
            elif self._shared.may_park:
                self._set_apart([(uid, partition)])
            elif self._shared.has_parked(uid, partition):
                self._shared.must_restart = True

    def _pinned_apart(self) -> frozenset[str]:
        """Those who want bulk gear while others want milliseconds."""
        if self._environment.settings.gear != "auto" or not self._environment.settings.private_queries:
            return frozenset()
        bulk = frozenset(each.uid for each in self.serving if each.gear == "bulk")
        return bulk if len(bulk) < len(self.serving) else frozenset()

    def _pin_of(self, subscriptions: Iterable[Subscription]) -> Pin:
        """The gear of a query for these."""
        if self._environment.settings.gear != "auto":
            return self._environment.settings.gear
        pins = {each.gear for each in subscriptions}
        return "live" if "live" in pins else "bulk" if pins == {"bulk"} else "auto"

    def _set_apart(self, lanes: Iterable[Lane]) -> None:
        for uid, partition in lanes:
            partitions = self._apart.setdefault(uid, set())
            if partition not in partitions:
                partitions.add(partition)
                self._gathering.setdefault(uid, Settling(GATHER_SECONDS)).note()
                if uid in self._private:
                    self._private[uid].must_restart = True

    def _bring_back(self) -> None:
        """Those that have caught up; all at once, so that the shared query is replaced once."""
        if not self._shared.is_settled:
            return  # a query that cannot be replaced would leave them out
        pinned = self._pinned_apart()
        for uid, query in list(self._private.items()):
            since = query.running_since
            stay = self._stays.get(uid, SHORTEST_STAY_SECONDS)
            if since is None or time.time() - since < stay or uid in pinned or not self._has_caught_up(uid):
                continue
            logger.info("%s has caught up and shares the query of its topic again", self._name_of(uid))
            self._take_back(uid)
            self._stays[uid] = min(2 * stay, LONGEST_STAY_SECONDS)

    def _has_caught_up(self, uid: str) -> bool:
        topic_id, ledger = str(self._shared.topic_id), self._environment.ledger
        near = int(NEAR_SHARE * self._environment.settings.unfinished_rows)
        for partition in self._apart[uid]:
            entry = ledger.entry(LaneKey(uid, topic_id, partition))
            if entry is None or entry.record.position < ledger.floor(topic_id, partition) - near:
                return False
        return True

    def _take_back(self, uid: str) -> None:
        """Its query finishes what is in flight and writes the ledger; the shared one is to go on from there."""
        if uid in self._private:
            self._private[uid].stop()
            del self._private[uid]
        if uid in self._apart:
            self._returning[uid] = self._apart.pop(uid)
            self._gathering.pop(uid, None)
            self._shared.must_restart = True

    def _stop_reset(self, uids: Collection[str]) -> None:
        """Stops the lanes of subscriptions that are to be reset and are served now."""
        for uid in list(self._reset_asked):
            if uid in uids and uid not in self._resetting:
                stopped = [self._shared.stop_lanes(uid, self._apart.get(uid, ()))]
                if uid in self._private:
                    stopped.append(
                        self._private[uid].stop_lanes(uid, ())
                    )  # so that its workers note what is in flight
                    self._private.pop(uid).stop()  # only now: while Kafka is away, the next round tries again
                until = time.monotonic() + RESET_SECONDS
                self._resetting[uid] = Resetting(tuple(filter(None, stopped)), until)
            self._reset_asked.discard(uid)

    def _move_stopped(self) -> frozenset[str]:
        """Subscriptions to reset with nothing in flight: the next start of the shared query moves them."""
        now = time.monotonic()
        moving = frozenset(
            uid
            for uid, (stopped, until) in self._resetting.items()
            if now > until or all(map(self._shared.has_stopped, stopped))
        )
        for uid in self._resetting.keys() - moving:
            self._set_apart((uid, each) for each in range(self._shared.topic_partitions))
        for uid in moving:
            self._take_back(uid)
            self._shared.must_restart = True
        self._shared.movable = moving
        return moving

    def _take_all_back(self) -> None:
        for uid in list(self._apart):
            self._take_back(uid)
        self._returning.clear()  # another topic, or other partitions: found out again

    def _advance_private(self, free_slots: int) -> None:
        subscriptions = {each.uid: each for each in self.serving}
        self._rotate()
        for uid, partitions in list(self._apart.items()):
            if uid in self._resetting:
                continue
            is_whole = len(partitions) >= self._shared.topic_partitions
            gathering = self._gathering.get(uid)
            if gathering is not None and not (is_whole or gathering.take()):
                continue
            self._gathering.pop(uid, None)
            if uid not in self._private:
                if len(self._private) >= self._environment.settings.private_queries:
                    continue
                logger.info("%s gets a query of its own, partitions %s", self._name_of(uid), sorted(partitions))
                self._private[uid] = TopicQuery(self.name, self._environment, uid)
            query = self._private[uid]
            query.wanted, query.only = (subscriptions[uid],), frozenset(partitions)
            query.gearbox.pin = self._pin_of(query.wanted)
            before = query.partitions
            query.advance(free_slots)
            free_slots += before - query.partitions

    def _rotate(self) -> None:
        """When more are isolated than may have queries, each has one for a while."""
        waiting = self._apart.keys() - self._private.keys() - self._resetting.keys()
        if not waiting or len(self._private) < self._environment.settings.private_queries:
            return
        for uid, query in list(self._private.items()):
            if time.time() - (query.running_since or query.made_at) > ROTATE_SECONDS:
                query.stop()
                del self._private[uid]
                self._apart[uid] = self._apart.pop(uid)  # behind those who wait
                return

    def _name_of(self, uid: str) -> str:
        names = (f"{each.kind.lower()} {each.namespace}/{each.name}" for each in self.wanted if each.uid == uid)
        return next(names, uid)
