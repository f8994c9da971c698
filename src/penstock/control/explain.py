"""Where is my event: received when and where, who wanted it, why the others did not, and what became of it.

    GET /api/penstock/explain?id=ID[&source=S][&subject=U][&place=…&partition=…&offset=…]

    search (dispatcher) ─▶ record ─▶ verdicts (dispatcher) ─▶ positions (ledger) ─▶ log of deliveries ─▶ dead letters
                                     why and why not          finished or not        each attempt

Lines of progress, then ``{"found": […], "searched": {…}}``. What is not known any more is said to be so.
"""

import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.contract.model import Subscription
from penstock.contract.questions import Verdicts
from penstock.control import dispatcher, starts
from penstock.control.controller import Controller
from penstock.control.events import Line, Stored, found_lines, question, stored, streamed, where
from penstock.control.outcomes import Facts, is_final, shown
from penstock.control.world import World
from penstock.errors import Rejected
from penstock.event.json_form import encode_event
from penstock.kafka import topics
from penstock.kafka.dead_letter_index import LONGEST_ID, Indexed
from penstock.kafka.delivery_log import SLACK_SECONDS, Logged, Patience, Place, Tried, read_log
from penstock.kafka.ledger import FollowedLedger, LaneKey

MOST = 20  # events in an answer
UNWANTED_SECONDS = 1.0  # for the log of an event that no filter lets through
GONE = "its subscriber answered 410 and gets nothing any more; `penstock resume` goes on"


class Position(msgspec.Struct, frozen=True):
    """How far a subscription has come in the partition of an event."""

    is_finished: bool | None = None  # None: not known
    is_reached: bool = False
    failures: int = 0
    begins_at: int | None = None  # when it began behind the event


class Explainer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledger: FollowedLedger | None = None

    async def lines(self, world: World, asked: Mapping[str, Any]) -> AsyncGenerator[Line, None]:
        if asked.get("place"):
            yield {"found": [await run_in_threadpool(self._explained, world, *where(asked))], "searched": None}
            return
        if not any(asked.get(name) for name in ("id", "source", "subject")):
            raise Rejected("say which event: its id, or its source or subject", hint="?id=ID&source=S&subject=U")
        rows, done = [], None
        search = question(world, {"latest": MOST, **asked})
        async with aclosing(found_lines(world, search)) as lines:
            async for line in lines:
                if "event" in line:
                    rows.append(line["event"])
                elif "done" in line:
                    done = line["done"]
                else:
                    yield line
        found = []
        for row in rows[:MOST]:
            at = (row["place"], row["partition"], row["offset"])
            try:
                found.append(await run_in_threadpool(self._explained, world, *at))
            except Rejected as error:  # retention has taken it meanwhile, or it is not quite an event
                found.append({**row, "subscriptions": [], "notes": [error.message]})
        yield {"found": found, "searched": done}

    def _explained(self, world: World, place: str, partition: int, offset: int) -> Line:
        event = stored(world, place, partition, offset)
        topic_id = _topic_id(world, event)
        subscriptions = _subscriptions(world, place)
        verdicts = _verdicts(world, event, subscriptions)
        ledger = self._read_ledger(world)
        positions = [_position(world, ledger, each, event, topic_id) for each in subscriptions]
        logged = _log(world, event, topic_id, tuple(zip(subscriptions, verdicts, positions, strict=True)))
        letters = _letters(world, event, topic_id)
        rows = []
        for subscription, verdict, position in zip(subscriptions, verdicts, positions, strict=True):
            facts = _facts(world, subscription, (verdict, position, logged, letters.get(subscription.uid)))
            rows.append(shown(subscription, facts))
        rows += _of_others({each.uid for each in subscriptions}, logged, letters)
        rows.sort(key=lambda each: (not each["matched"], each["key"]))
        return {**event.row(), "subscriptions": rows, "notes": _notes(logged)}

    def _read_ledger(self, world: World) -> FollowedLedger:
        with self._lock:
            if self._ledger is None or self._ledger.connection is not world.connection:
                self._ledger = FollowedLedger(world.connection, rests=True)
            self._ledger.read_to_end()
            return self._ledger


def _subscriptions(world: World, place: str) -> list[Subscription]:
    everybody = (each for key in world.contract.keys() for each in world.contract.subscriptions(key))  # noqa: SIM118
    return [each for each in everybody if each.place == place]


def _position(
    world: World, ledger: FollowedLedger, subscription: Subscription, event: Stored, topic_id: str
) -> Position:
    """By the ledger, which knows more than the group: what was finished above the position."""
    resource = world.store.get(subscription.kind, subscription.namespace, subscription.name)
    start = starts.noted_starts(resource).get(subscription.topic) if resource else None
    if start is None or not start.topic_id or start.topic_id != topic_id:
        return Position()
    partition, offset = event.found.partition, event.found.offset
    begins_at = start.positions.get(partition, 0)
    entry = ledger.entry(LaneKey(subscription.uid, start.topic_id, partition))
    if entry is None:
        return Position(begins_at=begins_at if begins_at > offset else None)
    record = entry.record
    is_beyond = any(first <= offset <= last for first, last in record.beyond)
    report = world.reports.query(subscription.place)
    is_apart = record.is_parked or (report is not None and subscription.uid in report.apart)
    own = max([record.position, *(last for _, last in record.beyond)])  # as far as its own query has come
    return Position(
        is_finished=offset < record.position or is_beyond,
        is_reached=offset <= own if is_apart else offset < ledger.floor(start.topic_id, partition),
        failures=dict(record.attempts).get(offset, 0),
        begins_at=begins_at if begins_at > offset else None,
    )


Verdict = tuple[bool, str]  # whether it matches, and why or why not


def _verdicts(world: World, event: Stored, subscriptions: Sequence[Subscription]) -> list[Verdict]:
    if event.addressee:
        own = "it was sent once more to this subscription alone"
        other = "it is a dead letter that was sent once more, to another subscription alone"
        return [
            (each.uid == event.addressee, own if each.uid == event.addressee else other) for each in subscriptions
        ]
    if not subscriptions:
        return []
    asked = Verdicts(
        filters=tuple(each.filters for each in subscriptions), events=(msgspec.Raw(encode_event(event.event)),)
    )
    (verdicts,) = dispatcher.verdicts(world, asked)
    return [(bool(each["matched"]), str(each["because"])) for each in verdicts]


def _log(
    world: World, event: Stored, topic_id: str, pairs: Sequence[tuple[Subscription, Verdict, Position]]
) -> Logged:
    """Read until the outcome is known for all subscriptions that wanted the event, or up to its end."""
    wanted = {each.uid for each, verdict, position in pairs if verdict[0] and position.begins_at is None}
    finished = {each.uid for each, verdict, position in pairs if verdict[0] and position.is_finished}

    def without_end(uids: set[str], attempts: Sequence[Tried]) -> bool:
        return any(not is_final([each for each in attempts if each.uid == uid]) for uid in uids)

    place = Place(event.place.place, event.found.partition, event.found.offset, topic_id)
    is_old = time.time() - event.found.time_ms / 1000 > 3600  # its log is not just being written
    patience = Patience(
        is_enough=lambda attempts: bool(wanted) and not without_end(wanted, attempts),
        waits=lambda attempts: not is_old and without_end(finished & wanted, attempts),
    )
    if wanted:
        return read_log(world.connection, place, event.found.time_ms / 1000, patience)
    # Nobody wants it now; who did when it came may have got it soon after.
    logged = read_log(
        world.connection, place, event.found.time_ms / 1000, replace(patience, seconds=UNWANTED_SECONDS)
    )
    logged.is_read = True
    return logged


def _topic_id(world: World, event: Stored) -> str:
    """Of the topic that the event is in; empty if the topic has just been deleted."""
    topic = event.place.topic
    state = topics.describe(world.admin_of(event.place.cluster), [topic]).get(topic)
    return state.topic_id if state is not None else ""


def _letters(world: World, event: Stored, topic_id: str) -> dict[str, Indexed]:
    """Its dead letters by subscription."""
    found = world.dead_letters.find(lambda each: is_about(each, event, topic_id), with_redriven=True)
    return {each.uid: each for each in found}


def is_about(letter: Indexed, event: Stored, topic_id: str) -> bool:
    """Partition and offset are not enough: a topic that was made again begins with the same ones."""
    at = (event.place.topic, event.found.partition, event.found.offset)
    if (letter.topic, letter.partition, letter.offset) != at:
        return False
    if letter.topic_id and topic_id:
        return letter.topic_id == topic_id
    # Written by an earlier version: at least it must not be older than the event, or belong to another event.
    is_same = letter.id == event.event.attributes.get("id", "")[:LONGEST_ID]
    return is_same and letter.time >= event.found.time_ms / 1000 - SLACK_SECONDS


def _facts(
    world: World, subscription: Subscription, known: tuple[Verdict, Position, Logged, Indexed | None]
) -> Facts:
    (matched, because), position, logged, letter = known
    attempts = [each for each in logged.attempts if each.uid == subscription.uid]
    if (attempts or letter) and not matched:
        matched, because = True, f"its filter let it through when it came; the present one does not: {because}"
    gone = world.reports.gone(subscription.uid)
    held = f"paused: {subscription.paused}" if subscription.is_paused(time.time()) else ""
    if not held and gone is not None and gone.is_about(subscription):
        held = GONE
    return Facts(
        matched=matched,
        because=because,
        attempts=attempts,
        letter=letter,
        begins_at=position.begins_at,
        is_finished=position.is_finished,
        is_reached=position.is_reached,
        failures=position.failures,
        held=held,
    )


def _of_others(known: set[str], logged: Logged, letters: Mapping[str, Indexed]) -> list[Line]:
    """Those that are no more; a dead letter may still know their names."""
    rows = []
    for uid in dict.fromkeys([*(each.uid for each in logged.attempts), *letters]):
        if uid in known:
            continue
        letter = letters.get(uid)
        kind, namespace, name = (letter.kind, letter.namespace, letter.name) if letter else ("Subscription", "", uid)
        subscription = Subscription(
            uid=uid, kind=kind, namespace=namespace, name=name, topic="", group="", subscriber_url=""
        )
        attempts = [each for each in logged.attempts if each.uid == uid]
        rows.append(shown(subscription, Facts(True, "it has been deleted since", attempts, letter, is_gone=True)))
    return rows


def _notes(logged: Logged) -> list[str]:
    notes = []
    if not logged.reaches_back:
        notes.append("the log of deliveries no longer reaches back to this event: attempts are no longer known")
    if not logged.is_read:
        notes.append("the log of deliveries was not read to its end: later attempts may be missing")
    return notes


def routes(controller: Controller) -> list[Route]:
    explainer = Explainer()

    async def explain(request: Request) -> Response:
        return await streamed(explainer.lines(controller.world, dict(request.query_params)))

    return [Route("/api/penstock/explain", explain)]
