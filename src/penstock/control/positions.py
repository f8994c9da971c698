"""Where a trigger stands, and moving it: to the beginning, the end, a time, or given offsets.

A move is a commit to the trigger's consumer group without our mark, as any Kafka tool could make it; the dispatcher
obeys it within seconds, or when it starts.
"""

import re
from dataclasses import dataclass
from typing import Any

from penstock.control import names, times
from penstock.control.kinds import TRIGGER
from penstock.control.lag import LagReader, LanePosition
from penstock.control.world import World
from penstock.errors import Rejected
from penstock.kafka import topics

OFFSETS = re.compile(r"\d{1,9}=\d{1,18}(,\d{1,9}=\d{1,18})*")
MARK = "set by penstock trigger reset"


@dataclass(frozen=True)
class Move:
    partition: int
    from_: int
    to: int

    def as_json(self) -> dict[str, int]:
        """``events``: so many come again; below 0, so many are passed over."""
        return {"partition": self.partition, "from": self.from_, "to": self.to, "events": self.from_ - self.to}


def reset(world: World, lag: LagReader, namespace: str, name: str, to: str, *, dry_run: bool) -> list[dict[str, Any]]:
    """What it means for each partition; and, unless it is a dry run, the move itself."""
    lanes = lag.read().get(f"{TRIGGER.name}/{namespace}/{name}")
    trigger = world.store.get(TRIGGER.name, namespace, name)
    found = lag.topics(trigger) if trigger is not None else []
    if trigger is None or not found or not lanes:
        raise Rejected(
            f'trigger "{name}" has no position in namespace {namespace}',
            hint="it gets one when it is ready: `penstock get triggers`",
        )
    [topic] = found
    asked = _asked(world.admin_of(topic.cluster), topic.name, len(lanes), to)
    moves = [Move(each.partition, each.position, _within(each, asked)) for each in lanes]
    if not dry_run:
        group = names.trigger_group(namespace, name)
        world.groups_of(topic.cluster).commit(group, topic.name, {each.partition: each.to for each in moves}, MARK)
    return [each.as_json() for each in moves]


def _asked(admin: Any, topic: str, partitions: int, to: str) -> dict[int, int]:
    if to == "earliest":
        return topics.earliest_offsets(admin, topic, partitions)
    if to == "latest":
        return topics.latest_offsets(admin, topic, partitions)
    if OFFSETS.fullmatch(to):
        offsets = {int(p): int(o) for p, o in (each.split("=") for each in to.split(","))}
        strange = sorted(offsets.keys() - set(range(partitions)))
        if strange:
            raise Rejected(f"{topic} has no partition {strange[0]}; it has 0 to {partitions - 1}")
        return offsets
    try:
        return topics.offsets_at(admin, topic, partitions, times.epoch_of(to))
    except ValueError as error:
        raise Rejected(
            f'"{to}" is no position: {error}',
            hint="earliest, latest, a time such as 2026-11-15T18:00:00Z, or offsets such as 0=1200,1=900",
        ) from None


def _within(lane: LanePosition, asked: dict[int, int]) -> int:
    """The asked position of a partition, or where it stands; never beyond the end."""
    return min(asked.get(lane.partition, lane.position), lane.end)
