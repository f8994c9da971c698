"""Readers of streams that do not read: what waits for them is bounded in bytes, and only what they asked for."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.contract.model import HOME
from penstock.contract.questions import Verdicts
from penstock.control import tail, watch
from penstock.control.events import Place, Stored
from penstock.control.json_content import as_bytes
from penstock.control.tail import Tail, Waiting, Wanted
from penstock.control.watch import Watchers
from penstock.event.model import Event
from penstock.kafka.latest import Found

MEGABYTE = 1024 * 1024
PLACE = Place("Broker/default/orders", "orders", HOME)
EMPTY: Any = SimpleNamespace(list=lambda _kind, _namespace: [])


def resource(kind: str, n: int, namespace: str = "default", note: str = "") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": f"r{n}", "namespace": namespace}, "spec": {"note": note}}


def event(**attributes: str) -> Stored:
    known = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    return Stored(PLACE, Found(0, 7, 1_700_000_000_000, b"hi", ()), Event(known, b"hi"))


async def begun(watchers: Watchers, kind: str, namespace: str | None = None) -> "tuple[AsyncIterator[bytes], Any]":
    """A stream that waits for its first line, and that line once it is there."""
    stream = watchers.stream(kind, namespace, EMPTY)
    first = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    return stream, first


async def spread(watchers: Watchers, *changes: dict[str, Any]) -> None:
    for each in changes:
        watchers.on_change("MODIFIED", each)
    await asyncio.sleep(0)


def test_changes_of_others_do_not_end_a_watch() -> None:
    """Only changes of the kind and the namespace that a watcher asked for wait for it."""

    async def watching() -> None:
        watchers = Watchers()
        watchers.attach(asyncio.get_running_loop())
        stream, first = await begun(watchers, "Broker", "default")
        await spread(watchers, resource("Broker", 0))
        assert b'"r0"' in await first
        for n in range(watch.LONGEST_QUEUE + 1):  # and it does not read
            await spread(watchers, resource("Secret", n), resource("Broker", n, "other"))
        await spread(watchers, resource("Broker", 1))
        assert b'"r1"' in await anext(stream)

    asyncio.run(watching())


def test_a_slow_watcher_is_ended_by_bytes() -> None:
    """However large the resources are, a watcher that does not read holds a bounded number of bytes, then ends."""

    async def watching() -> int:
        watchers = Watchers()
        watchers.attach(asyncio.get_running_loop())
        streams = [await begun(watchers, "Broker") for _ in range(5)]
        await spread(watchers, resource("Broker", 0))
        for _, first in streams:
            await first
        tracemalloc.start()
        for n in range(100):
            await spread(watchers, resource("Broker", n, note=f"{n}" * (MEGABYTE // 2)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for stream, _ in streams:
            assert [line async for line in stream] == []
        return peak

    assert asyncio.run(watching()) < watch.QUEUE_BYTES + 8 * MEGABYTE


def test_a_tail_shows_only_the_beginning_of_attributes() -> None:
    """A row of a tail is small, whatever the sender put into attributes, their names and the record."""
    wide = event(id="i" * 500_000, subject="s" * 300_000, **{f"{n}" + "x" * 5_000: "v" * 5_000 for n in range(200)})
    shown = tail._shown(wide)
    assert len(as_bytes(shown)) < 200_000
    assert shown["id"] == "i" * (tail.LONGEST_VALUE - 1) + "…"
    assert tail._shown(event())["attributes"] == event().event.attributes


def test_what_waits_for_a_reader_of_a_tail_is_bounded_in_bytes() -> None:
    """A slow reader misses rows, which are counted, and still gets the reason why a tail ends."""

    async def reading() -> None:
        waiting = Waiting()
        row = {"data": "x" * 100_000}
        taken = sum(waiting.put("event", row) for _ in range(100))
        assert taken == tail.QUEUE_BYTES // 100_100
        assert waiting.put("problem", {"error": "the tail ended"})
        await waiting.take()
        await waiting.take()
        assert waiting.put("event", row)

    asyncio.run(reading())


def test_a_tail_asks_for_verdicts_in_bounded_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filtered tail sends the dispatcher a few megabytes at a time and counts the other events as skipped."""
    asked: list[Verdicts] = []

    def verdicts(_world: Any, question: Verdicts) -> list[Any]:
        asked.append(question)
        return [[{"matched": True}] for _ in question.events]

    monkeypatch.setattr("penstock.control.dispatcher.verdicts", verdicts)
    told: list[Any] = []

    def tell(name: str, value: Any) -> bool:
        told.append((name, value))
        return True

    following = Tail(EMPTY, PLACE, Wanted(filters=({"cesql": "TRUE"},)), tell)
    headers = tuple((f"ce_{name}", value.encode()) for name, value in event().event.attributes.items())
    found = Found(0, 1, 1000, b"x" * 900_000, headers)
    following._take([found] * 20)
    following._next_second()
    assert len(asked[0].events) == tail.JUDGED_BYTES // 900_000
    assert [name for name, _ in told].count("event") == len(asked[0].events)
    assert sum(value["count"] for name, value in told if name == "skipped") == 20 - len(asked[0].events)
