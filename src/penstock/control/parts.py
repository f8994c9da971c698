"""The health of each part of the system, as the status command, the metrics and the page show it."""

from dataclasses import asdict, dataclass
from typing import Any

from penstock.control.kinds import name_of, namespace_of, uid_of
from penstock.control.lag import LagReader, Lags
from penstock.control.stored_problems import StoredProblem, stored_problems
from penstock.control.world import World
from penstock.errors import PenstockError


@dataclass(frozen=True)
class Part:
    name: str
    state: str
    reason: str = ""
    address: str = ""

    @property
    def is_well(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class SystemStatus:
    parts: tuple[Part, ...]
    queries: tuple[dict[str, Any], ...]
    lags: Lags
    problems: tuple[StoredProblem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "parts": [asdict(part) for part in self.parts],
            "queries": list(self.queries),
            "problems": [each._asdict() for each in self.problems],
            "lag": {key: sum(lane.lag for lane in lanes) for key, lanes in self.lags.items()},
        }


def look(world: World, lag_reader: LagReader) -> SystemStatus:
    servers = world.settings.bootstrap_servers
    lags: Lags = {}
    try:
        world.connection.check(timeout_seconds=2.0)
        kafka = Part("kafka", "running", "", servers)
        lags = lag_reader.read()
    except PenstockError as error:
        kafka = Part("kafka", "not answering", error.message, servers)
    return SystemStatus(all_parts(world, kafka), queries(world), lags, stored_problems(world))


def all_parts(world: World, kafka: Part) -> tuple[Part, ...]:
    receiver = world.receiver.ready()
    dispatcher = world.reports.dispatcher()
    return (
        kafka,
        Part("controller", "running", "", world.settings.admin_url),
        Part("receiver", "running" if receiver.ok else "not answering", receiver.message, world.receiver.url),
        Part("dispatcher", dispatcher.state, dispatcher.reason, world.reports.dispatcher_url()),
    )


def queries(world: World) -> tuple[dict[str, Any], ...]:
    names = {
        uid_of(each): f"{each['kind'].lower()} {namespace_of(each)}/{name_of(each)}" for each in world.store.list()
    }
    return tuple(
        {
            "topic": q.topic,
            "state": q.state,
            "reason": q.reason,
            "gear": q.gear,
            "subscriptions": len(q.subscriptions),
            "warnings": list(q.warnings),
            "apart": [names.get(uid, uid) for uid in q.apart],
            "failures": {names.get(uid, uid): why for uid, why in q.failures.items()},
        }
        for q in world.reports.queries()
    )
