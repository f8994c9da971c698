"""Stored records that cannot be read: for the status, and for the list of what needs attention."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.control.world import World


class StoredProblem(NamedTuple):
    key: str  # of the resource, or ``Topic/NAME`` where it is about records of a topic
    why: str


def stored_problems(world: World) -> tuple[StoredProblem, ...]:
    return tuple(sorted(set(_all(world))))


def _all(world: World) -> Iterator[StoredProblem]:
    for found in (world.store.problems(), world.contract.problems()):
        yield from (StoredProblem(key, why) for key, why in found.items())
    for follower in (world.reports.follower, world.counts.follower, world.dead_letters.follower):
        if follower.problem:
            yield StoredProblem(f"Topic/{follower.topic}", follower.problem)
