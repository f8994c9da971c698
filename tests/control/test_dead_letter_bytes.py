"""How many events the answers about dead letters hold, on a real Kafka with a real controller."""

import tracemalloc
from uuid import uuid4

import msgspec

from penstock.contract.model import DEAD_LETTERS_TOPIC, encode
from penstock.control import dead_letters
from penstock.control.dead_letters import EVENT_BYTES, Wanted
from penstock.kafka.connection import KafkaConnection
from tests.control.conftest import Running
from tests.control.letters import letter
from tests.waiting import until

MEGABYTE = 1024 * 1024
EVENT = b'{"specversion":"1.0","id":"e%d","source":"/s","type":"t","data":"%s"}'
COUNT = 120


def written(running: Running, kafka: KafkaConnection, data_bytes: int) -> Wanted:
    """Dead letters with such events, all known to the index. Returns what selects them."""
    uid = str(uuid4())
    producer = kafka.producer()
    for n in range(COUNT):
        event = msgspec.Raw(EVENT % (n, b"x" * data_bytes))
        each = letter(uid, n, 503, "status 503", name=uid, event=event)
        producer.produce(DEAD_LETTERS_TOPIC, encode(each), each.key.encode())
    assert producer.flush(30) == 0
    known = running.controller.world.dead_letters
    until(lambda: len(known.find(lambda each: each.uid == uid)) == COUNT, "all are known")
    return Wanted(name=uid)


def test_the_events_of_an_answer_have_a_limit_in_bytes(running: Running, kafka: KafkaConnection) -> None:
    """The newest letters come with their events as long as there is room; how many come without is in the answer."""
    wanted = written(running, kafka, 200_000)
    tracemalloc.start()
    try:
        found = dead_letters.listing(running.controller.world, wanted, with_events=True)
        assert tracemalloc.get_traced_memory()[1] < 3 * EVENT_BYTES + MEGABYTE
    finally:
        tracemalloc.stop()
    with_event = [item["id"] for item in found["items"] if "event" in item]
    assert len(found["items"]) == COUNT
    assert with_event == [f"e{n}" for n in range(COUNT - 1, COUNT - 1 - len(with_event), -1)]
    assert EVENT_BYTES - 2 * 200_100 < len(with_event) * 200_000 <= EVENT_BYTES
    assert found["events_left_out"] == COUNT - len(with_event)


def test_small_events_are_all_in_the_answer(running: Running, kafka: KafkaConnection) -> None:
    """The limit changes nothing for ordinary events."""
    found = dead_letters.listing(running.controller.world, written(running, kafka, 100), with_events=True)
    assert [item["event"]["id"] for item in found["items"]] == [f"e{n}" for n in range(COUNT - 1, -1, -1)]
    assert found["events_left_out"] == 0
