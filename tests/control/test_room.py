"""The limits in bytes of what the controller keeps: all resources together, and all request bodies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.model import RESOURCES_TOPIC
from penstock.control import limits
from penstock.control.guard.bodies import Bodies
from penstock.control.kinds import key_of
from penstock.control.limits import LimitReached, Limits
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.control.store import Invalid, KafkaStore
from penstock.errors import Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.topics import COMPACTED, TopicSpec
from tests.control.objects import config_map, source, trigger

SMALL = Limits(bytes_in_all=20_000)


@pytest.fixture
def clean(kafka: KafkaConnection) -> Iterator[KafkaConnection]:
    """Kafka without resources, before and after."""
    topics.create_missing(kafka.admin(), [TopicSpec(RESOURCES_TOPIC, 1, 1, COMPACTED)])
    _empty(kafka)
    yield kafka
    _empty(kafka)


def _empty(kafka: KafkaConnection) -> None:
    store = KafkaStore(kafka, Secrets(Path("unused")))
    store.load()
    for each in store.list():
        store.remove(each)


def loaded(kafka: KafkaConnection, directory: Path, limits: Limits) -> KafkaStore:
    store = KafkaStore(kafka, Secrets(directory), limits)
    store.load()
    return store


def large(name: str, size: int = 6_000) -> dict[str, Any]:
    return {**config_map(), "metadata": {"name": name, "namespace": "default"}, "data": {"key": "x" * size}}


def test_all_resources_together_have_a_largest_size(clean: KafkaConnection, tmp_path: Path) -> None:
    """A change beyond the limit is refused with the setting's name; shrinking and deleting make room."""
    store = loaded(clean, tmp_path, SMALL)
    for name in ("a", "b", "c"):
        store.apply(large(name))
    for refused in (large("d"), large("a", 9_000)):
        for dry_run in (True, False):
            with pytest.raises(LimitReached) as found:
                store.apply(refused, dry_run=dry_run)
            assert "most_resource_bytes" in (found.value.hint or "")
    assert store.apply(large("a", 3_000))[1] == "configured"
    assert store.apply(large("a", 4_000))[1] == "configured"
    store.remove(store.list("ConfigMap")[0])
    assert store.apply(large("d"))[1] == "created"


def test_stored_resources_stay_readable_under_a_lower_limit(clean: KafkaConnection, tmp_path: Path) -> None:
    """With a lower limit everything is read, can be changed without growing, paused, and deleted."""
    first = loaded(clean, tmp_path, Limits())
    for name in ("a", "b", "c"):
        first.apply(large(name))
    first.apply(trigger())
    stored = sum(first._sizes.values())
    store = loaded(clean, tmp_path, Limits(bytes_in_all=stored))
    assert store.list() == first.list()
    assert store._sizes == first._sizes
    with pytest.raises(LimitReached):
        store.apply(large("d", 1))
    assert store.apply(large("a"))[1] == "unchanged"
    [paused] = store.list("Trigger")
    assert store.annotate("Trigger", "default", paused["metadata"]["name"], {"penstock.dev/paused": "tea"})
    assert store.write_status(store.list("Trigger")[0], {"annotations": {"note": "x" * 100}})
    assert store.delete("ConfigMap", "default", "a")
    assert key_of(store.list("ConfigMap")[0]) == "ConfigMap/default/a"


def test_a_source_reads_a_bounded_number_of_topics(
    clean: KafkaConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: no source has more topics than a status can hold. One that was stored with more can be paused,
    changed and made smaller, but gets no further topics."""
    store = loaded(clean, tmp_path, Limits())

    def reading(number: int, **spec: Any) -> dict[str, Any]:
        return source(topics=[f"t{each}" for each in range(number)], **spec)

    with pytest.raises(Invalid, match=r"spec\.topics: 101 topics are too many: a source reads at most 100"):
        store.apply(reading(101))
    with monkeypatch.context() as earlier:
        earlier.setattr(limits, "MOST_TOPICS", 1_000)
        store.apply(reading(150))
    store = loaded(clean, tmp_path, Limits())
    assert store.annotate("KafkaSource", "default", "legacy", {"penstock.dev/paused": "tea"})
    assert store.apply(reading(150, consumers=2))[1] == "configured"
    with pytest.raises(Invalid, match="151 topics"):
        store.apply(reading(151))
    for fewer in (120, 100):
        assert store.apply(reading(fewer))[1] == "configured"
    with pytest.raises(Invalid, match="120 topics"):
        store.apply(reading(120))


def test_the_limit_is_a_setting() -> None:
    """The store keeps to ``most_resource_bytes``."""
    assert Limits.of(ControllerSettings(most_resource_bytes=7)).bytes_in_all == 7
    assert Limits().bytes_in_all == ControllerSettings().most_resource_bytes


def test_bodies_that_wait_have_a_limit_in_bytes() -> None:
    """Requests that wait for a thread hold so many bytes together; the next gets 503, until some are answered."""

    async def run() -> None:
        bodies, answered, read = Bodies(1_000), asyncio.Event(), []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x" * 400, "more_body": False}

        async def send(_message: Any) -> None:
            pass

        async def handler(_scope: Any, receive: Any, _send: Any) -> None:
            read.append(len((await receive())["body"]))
            await answered.wait()

        waiting = [asyncio.create_task(bodies.held(handler, {}, receive, send)) for _ in range(3)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert read == [400, 400]
        refused = [each.exception() for each in waiting if each.done()]
        assert [type(each) for each in refused] == [Unavailable]
        answered.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*[bodies.held(handler, {}, receive, send) for _ in range(2)])
        assert read == [400] * 4

    asyncio.run(run())
