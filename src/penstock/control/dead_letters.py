"""Dead letters as the API shows them: rows, and groups of those that failed in the same way.

Everything comes from the index (``kafka/dead_letter_index.py``), which follows the topic; only the events themselves
are read when somebody wants to see one. Sending them once more is in ``redrive.py`` and ``jobs.py``.
"""

import base64
import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from penstock.contract.model import DeadLetter
from penstock.contract.moments import iso
from penstock.control.json_content import parsed
from penstock.control.kinds import EGRESS, kind_of_word, uid_of
from penstock.control.world import World
from penstock.errors import Rejected
from penstock.event.json_form import decode_event
from penstock.kafka.dead_letter_index import LONGEST_ID, LONGEST_TEXT, Indexed
from penstock.kafka.dead_letters import DeadLetters

MOST = 1000  # in one answer, and sent again by one request
MOST_GROUPS = 500
EVENT_BYTES = 4 * 1024 * 1024  # of the events in one answer; parsed, they take many times as much
READ_AT_A_TIME = 50  # letters
FRESH_SECONDS = 60.0  # a failure as young as this says that the subscriber still fails
_CODE = re.compile("[0-9]{1,3}")


@dataclass(frozen=True)
class Wanted:
    """Which dead letters; what is not said does not matter."""

    namespace: str | None = None
    kind: str | None = None  # of the resource that subscribes, like name
    name: str | None = None
    ids: frozenset[str] = frozenset()  # of events
    keys: frozenset[str] = frozenset()  # of letters
    group: str | None = None
    type: str | None = None
    code: int | None = None
    since: float | None = None  # it was given up then, or later
    with_redriven: bool = False

    def __call__(self, letter: Indexed) -> bool:
        return (
            (self.with_redriven or not letter.redriven)
            and self.namespace in (None, letter.namespace)
            and self.kind in (None, letter.kind)
            and self.name in (None, letter.name)
            and self.type in (None, letter.type)
            and self.code in (None, letter.code)
            and (self.since is None or letter.time >= self.since)
            and (not self.ids or letter.id in self.ids)
            and (not self.keys or letter.key in self.keys)
            and self.group in (None, group_of(letter))
        )


def wanted_of(asked: Mapping[str, Any]) -> Wanted:
    """From the parameters of a request. ``trigger=x`` is ``kind=trigger&name=x``."""
    kind = "trigger" if asked.get("trigger") else asked.get("kind")
    code = asked.get("code")
    if code is not None and not _CODE.fullmatch(str(code)):
        raise Rejected(f"code is {str(code)[:40]!r}; a status such as 503 is expected, or 0 for no answer")
    return Wanted(
        namespace=_text(asked, "namespace"),
        kind=kind_of_word(str(kind)).name if kind else None,
        name=_text(asked, "trigger") or _text(asked, "name"),
        ids=frozenset(each[:LONGEST_ID] for each in _texts(asked, "ids")),
        keys=frozenset(_texts(asked, "keys")),
        group=_text(asked, "group"),
        type=(_text(asked, "type") or "")[:LONGEST_TEXT] or None,
        code=None if code is None else int(code),
        since=_moment(asked.get("since")),
        with_redriven=str(asked.get("redriven", "")).lower() in ("1", "true"),
    )


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────


def listing(world: World, wanted: Wanted, *, with_events: bool) -> dict[str, Any]:
    """The newest of them, and whether there are more. The newest have their events, up to EVENT_BYTES."""
    index = world.dead_letters
    index.wait_until_current()
    found = index.find(wanted, with_redriven=wanted.with_redriven)
    chosen = found[-MOST:]
    events, left_out = _events(world, chosen) if with_events else ({}, 0)
    places = {(each.subscription, each.topic): _place(world, each) for each in chosen}
    items = [
        {**_shown(each, events.get(each.key)), "place": places[each.subscription, each.topic]}
        for each in reversed(chosen)
    ]
    answer = {"items": items, "more": len(found) > len(chosen) or index.is_more}
    return {**answer, "events_left_out": left_out} if with_events else answer


def _events(world: World, letters: Sequence[Indexed]) -> tuple[dict[str, DeadLetter], int]:
    """The newest letters by key, and how many others had no room."""
    found: dict[str, DeadLetter] = {}
    room, is_full = EVENT_BYTES, False
    for end in range(len(letters), 0, -READ_AT_A_TIME):
        some: deque[DeadLetter] = deque()  # the oldest first, since a topic is read forwards
        records = [each.record for each in letters[max(0, end - READ_AT_A_TIME) : end]]
        for letter in DeadLetters(world.connection).at(records):
            some.append(letter)
            room -= len(bytes(letter.event))
            while room < 0 and len(some) + len(found) > 1:
                room += len(bytes(some.popleft().event))
                is_full = True
        found |= {each.key: each for each in some}
        if is_full:
            return found, len(letters) - len(found)
    return found, 0


def _place(world: World, letter: Indexed) -> str:
    """Which topic it is, of all clusters together."""
    agreed = world.contract.subscriptions(letter.subscription)
    return next((each.place for each in agreed if each.topic == letter.topic), letter.topic)


def _shown(letter: Indexed, full: DeadLetter | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": letter.id,
        "source": letter.source,
        "type": letter.type,
        "namespace": letter.namespace,
        "subscription": f"{letter.kind.lower()}/{letter.name}",
        "of": letter.subscription,
        "key": letter.key,
        "group": group_of(letter),
        "outcome": letter.outcome,
        "reason": letter.reason,
        "code": letter.code,
        "attempts": letter.attempts,
        "answer": letter.answer,
        "time": iso(letter.time),
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "redriven": iso(letter.redriven) if letter.redriven else None,
    }
    if full is not None:
        shown["event"] = _event_of(bytes(full.event))
    return shown


def _event_of(raw: bytes) -> Any:
    """In CloudEvents' JSON form; data that would not come through as JSON is in base64 there."""
    try:
        return parsed(raw)
    except ValueError:
        event = decode_event(raw)
        return {**event.attributes, "data_base64": base64.b64encode(event.data or b"").decode()}


# ── groups ────────────────────────────────────────────────────────────────────────────────────────────

# What libcurl and we say when there is no answer, by the words that stay the same.
_KINDS = (
    (re.compile(r"timed out", re.I), "timeout"),
    (re.compile(r"connection refused|could not connect|couldn't connect|failed to connect", re.I), "no connection"),
    (re.compile(r"resolve", re.I), "host not found"),
    (re.compile(r"ssl|tls|certificate", re.I), "TLS"),
    (re.compile(r"reset|empty reply|recv failure|closed|send failure", re.I), "connection broken"),
    (re.compile(r"the reply|reply to", re.I), "reply not taken"),
)


def kind_of_error(code: int, reason: str) -> str:
    """What failed, without the particulars that differ from event to event."""
    if code and not 200 <= code < 300:
        return f"answered {code}"
    for pattern, name in _KINDS:
        if pattern.search(reason):
            return name
    return re.sub(r"[0-9]+", "…", reason.partition(":")[0])[:80] or "no answer"


def group_of(letter: Indexed) -> str:
    """Stable: the same for the same subscription, kind of error and code, whoever asks and whenever."""
    return _group_name(letter.uid, letter.code, letter.reason)


@lru_cache(maxsize=10_000)
def _group_name(uid: str, code: int, reason: str) -> str:
    text = f"{uid}\n{kind_of_error(code, reason)}\n{code}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def groups(world: World, wanted: Wanted) -> list[dict[str, Any]]:
    """The largest first."""
    index = world.dead_letters
    index.wait_until_current()
    found: dict[str, list[Indexed]] = {}
    for letter in index.find(wanted):
        found.setdefault(group_of(letter), []).append(letter)
    largest = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))[:MOST_GROUPS]
    failing, there = failing_now(world), subscribed(world)
    return [{**_group(name, letters, failing), "subscribed": letters[0].uid in there} for name, letters in largest]


def subscribed(world: World) -> set[str]:
    """The uids of those that are there: to others nothing can be sent."""
    kinds = {each.name for each in EGRESS}
    return {uid_of(each) for each in world.store.list() if each["kind"] in kinds}


def _group(name: str, letters: list[Indexed], failing: Mapping[str, str]) -> dict[str, Any]:
    last = letters[-1]
    return {
        "group": name,
        "key": last.subscription,
        "uid": last.uid,
        "reason_kind": kind_of_error(last.code, last.reason),
        "code": last.code,
        "count": len(letters),
        "first": iso(letters[0].time),
        "last": iso(last.time),
        "sample": {"reason": last.reason, "body": last.answer},
        "still_failing": last.uid in failing,
    }


def still_failing(world: World, uid: str) -> str:
    """Why its subscriber would most likely fail again; empty: nothing says so."""
    return failing_now(world).get(uid, "")


def failing_now(world: World) -> dict[str, str]:
    """By uid, of those who failed lately and have taken nothing since; why.

    What processes told within the last half minute counts first. Who was not tried in that time is judged by his
    youngest dead letter.
    """
    now = world.clock().timestamp()
    lately = world.counts.recent(now)
    held = [(uid, each) for state in world.counts.states() for uid, each in state.holds.items()]
    found: dict[str, str] = {}
    for letter in world.dead_letters.find(lambda each: now - each.time < FRESH_SECONDS):
        found[letter.uid] = f"{letter.reason}, {max(0, round(now - letter.time))} s ago"  # the youngest comes last
    for uid, recent in lately.items():
        if recent.lately("delivered"):
            found.pop(uid, None)
        elif recent.lately("failed") and uid not in found:
            found[uid] = "its last attempts failed"
    found |= {uid: each.last_error for uid, each in held if each.last_error}
    return found


# ── values of requests ────────────────────────────────────────────────────────────────────────────────


def _text(asked: Mapping[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, str):
        raise Rejected(f"{name} must be text")
    return value or None


def _texts(asked: Mapping[str, Any], name: str) -> list[str]:
    value = asked.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    raise Rejected(f"{name} must be a list of texts")


def _moment(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise Rejected(f"since is {value!r}; a time such as 2026-11-16T14:02:11.482Z is expected") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
