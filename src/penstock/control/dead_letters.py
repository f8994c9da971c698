"""Dead letters as the API shows them, and the sending of them once more."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.contract.model import HOME, Cluster, DeadLetter
from penstock.control.kinds import EGRESS, kind_of_word, uid_of
from penstock.control.world import World
from penstock.errors import Rejected
from penstock.kafka.dead_letters import DeadLetters

MOST = 1000  # in one answer, and sent again by one request


@dataclass(frozen=True)
class Wanted:
    """Which dead letters; what is not said does not matter."""

    namespace: str | None = None
    kind: str | None = None  # of the resource that subscribes, like name
    name: str | None = None
    ids: frozenset[str] = frozenset()  # of events
    type: str | None = None
    code: int | None = None
    with_redriven: bool = False

    def __call__(self, letter: DeadLetter) -> bool:
        return (
            (self.with_redriven or not letter.redriven)
            and self.namespace in (None, letter.namespace)
            and self.kind in (None, letter.kind)
            and self.name in (None, letter.name)
            and self.type in (None, letter.type)
            and self.code in (None, letter.code)
            and (not self.ids or letter.id in self.ids)
        )


def wanted_of(asked: Mapping[str, Any]) -> Wanted:
    """From the parameters of a request. ``trigger=x`` is ``kind=trigger&name=x``."""
    kind = "trigger" if asked.get("trigger") else asked.get("kind")
    code = asked.get("code")
    if code is not None and not str(code).isdigit():
        raise Rejected(f"code is {code!r}; a status such as 503 is expected, or 0 for no answer")
    return Wanted(
        namespace=asked.get("namespace") or None,
        kind=kind_of_word(str(kind)).name if kind else None,
        name=asked.get("trigger") or asked.get("name") or None,
        ids=frozenset(_ids(asked.get("ids"))),
        type=asked.get("type") or None,
        code=None if code is None else int(code),
        with_redriven=str(asked.get("redriven", "")).lower() in ("1", "true"),
    )


def listing(letters: DeadLetters, wanted: Wanted, *, with_events: bool) -> dict[str, Any]:
    found, is_more = letters.read(wanted, MOST, with_events=with_events)
    return {"items": [_shown(each, with_events) for each in reversed(found)], "more": is_more}


def redrive(world: World, wanted: Wanted) -> dict[str, Any]:
    """Sends the oldest of them once more; ``more``: there are others. Raises Rejected when there are none."""
    letters = DeadLetters(world.connection)
    found, is_more = letters.read(wanted, MOST, newest=False, with_events=True)
    kinds = {each.name for each in EGRESS}
    there = {uid_of(each) for each in world.store.list() if each["kind"] in kinds}
    orphans = [each for each in found if each.uid not in there]
    sendable = [each for each in found if each.uid in there]
    if not found:
        raise Rejected("no dead letter is like that", hint="`penstock deadletters list` shows them")
    by_cluster: dict[Cluster, list[DeadLetter]] = {}
    for each in sendable:
        by_cluster.setdefault(_cluster_of(world, each), []).append(each)
    sent = sum(letters.redrive(some, world.clusters.connection(cluster)) for cluster, some in by_cluster.items())
    problems = [
        {"id": each.id, "message": f"its {each.kind.lower()} {each.namespace}/{each.name} is no more"}
        for each in orphans
    ]
    return {"redriven": sent, "problems": problems, "more": is_more and bool(sent)}


def _cluster_of(world: World, letter: DeadLetter) -> Cluster:
    """Where its topic is."""
    agreed = world.contract.subscriptions(f"{letter.kind}/{letter.namespace}/{letter.name}")
    return next((each.cluster for each in agreed if each.topic == letter.topic), HOME)


def _ids(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    raise Rejected("ids must be a list of texts")


def _shown(letter: DeadLetter, with_event: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": letter.id,
        "source": letter.source,
        "type": letter.type,
        "namespace": letter.namespace,
        "subscription": f"{letter.kind.lower()}/{letter.name}",
        "outcome": letter.outcome,
        "reason": letter.reason,
        "code": letter.code,
        "attempts": letter.attempts,
        "time": _time(letter.time),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "redriven": _time(letter.redriven) if letter.redriven else None,
    }
    if with_event:
        shown["event"] = msgspec.json.decode(letter.event)
    return shown


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
