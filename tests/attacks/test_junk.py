"""Attacks on a running system: invalid records in Penstock's own topics. Deliveries go on, also after a
restart of the dispatcher, new triggers are served, and the status shows what was skipped."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.contract.model import (
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    DEAD_LETTERS_TOPIC,
    LEDGER_TOPIC,
    REPORT_TOPIC,
)
from penstock.contract.telemetry import DELIVERIES_TOPIC, TELEMETRY_TOPIC
from penstock.control import names
from penstock.kafka import ledger
from penstock.kafka.connection import KafkaConnection
from tests.conftest import System, running_system
from tests.signals import kill
from tests.sink import Sink
from tests.system.resources import applied, apply, broker, trigger
from tests.system.test_delivery import ids, send
from tests.waiting import until

VALUES = [
    b"",
    b"junk",
    b"\xff\xfe\x00",
    b"null",
    b"[]",
    b"7",
    b'{"a":1}',
    b'{"uid":7}',
    b'"' + b"\\ud800" * 10 + b'"',
    b"[" * 100_000,
    b"x" * 900_000,
]
ARRIVAL_SECONDS = 150.0  # a dispatcher reads all of the invalid records first, on a machine that may be busy
# These can be decoded. They name queries whose numbers are never drawn.
IMPOSSIBLE_CLAIMS = [
    b'{"query":999999999}',
    b'{"query":999999999,"is_release":true}',
    b'{"closed":100000000000000000000}',
]
IMPOSSIBLE_LANES = [b'{"position":1000000000000}', b'{"position":0,"draining":7}', b'{"position":1,"format":99}']
STRANGE_KEYS = [b"", b"\xff\xfe", b"junk", b"a/b/c/d/e", b"../../etc/passwd", b"\x00", b"k" * 60_000]


pytestmark = pytest.mark.timeout(600)  # two arrivals and more


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system of its own: the invalid records stay in its topics."""
    with running_system(tmp_path_factory.mktemp("junk")) as started:
        yield started


BROKER = "junk"
TOPIC = names.broker_topic("default", BROKER)
TOPICS = (
    LEDGER_TOPIC,
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    REPORT_TOPIC,
    TELEMETRY_TOPIC,
    DELIVERIES_TOPIC,
    DEAD_LETTERS_TOPIC,
)
NOT_COMPACTED = (TELEMETRY_TOPIC, DELIVERIES_TOPIC)


@pytest.fixture(scope="module")
def subscriber() -> Iterator[Sink]:
    made = Sink().start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def steady(system: System, subscriber: Sink) -> str:
    """The path of a trigger that is there before the invalid records."""
    apply(system, broker(BROKER), trigger("steady", BROKER, subscriber.url + "/steady"))
    arrives(system, subscriber, "/steady", "first")
    applied.clear()  # the system ends with this module
    return "/steady"


def arrives(system: System, subscriber: Sink, path: str, identity: str) -> None:
    """Events that are sent now come to the subscriber, one in each partition."""
    wanted = {f"{identity}-{number}" for number in range(8)}
    for each in sorted(wanted):
        send(system, BROKER, each)
    until(lambda: wanted <= set(ids(subscriber.at(path))), f"{identity} arrives at {path}", ARRIVAL_SECONDS)


def likely_keys(system: System, topic: str) -> list[bytes]:
    """Under which records of this topic matter."""
    known = ledger.read_ledger(KafkaConnection(system.bootstrap_servers))
    if topic == LEDGER_TOPIC:
        lanes = known.lanes() + [ledger.floor_key(lane) for lane in known.lanes()]
        return [ledger.encode_key(lane, g) for lane in lanes for g in [*known.generations(lane), 2**62]]
    if topic == CLAIMS_TOPIC:
        ids = sorted({lane.topic_id for lane in known.lanes()})
        rests = (*(str(partition) for partition in range(4)), "0/closed", "query", "up/0")
        return [f"{each}/{rest}".encode() for each in ids for rest in rests]
    return {
        CONTRACT_TOPIC: [b"Trigger/default/junk", b"Trigger/default/steady"],
        REPORT_TOPIC: [b"dispatcher", b"gone/x", f"query/{TOPIC}".encode(), b"query/"],
        DELIVERIES_TOPIC: [f"{TOPIC}/{partition}".encode() for partition in range(4)],
    }.get(topic, [])


def write_junk(system: System, topic: str) -> None:
    keys: list[bytes | None] = [*STRANGE_KEYS, *likely_keys(system, topic)]
    if topic in NOT_COMPACTED:  # elsewhere Kafka refuses it
        keys.append(None)
    producer = KafkaConnection(system.bootstrap_servers).producer()
    for number, key in enumerate(keys):
        for value in VALUES if number % 4 == 0 else VALUES[:-2]:  # large ones are large
            producer.produce(topic, key=key, value=value, partition=0)
            producer.poll(0)
    for key, value in impossible(system, topic):
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(60) == 0


def impossible(system: System, topic: str) -> list[tuple[bytes, bytes]]:
    """Records that would win against all real ones."""
    if topic == CLAIMS_TOPIC:
        return [(key, value) for key in likely_keys(system, topic) for value in IMPOSSIBLE_CLAIMS]
    if topic != LEDGER_TOPIC:
        return []
    known = ledger.read_ledger(KafkaConnection(system.bootstrap_servers)).lanes()
    lanes = known + [ledger.floor_key(lane) for lane in known]
    keys = [ledger.encode_key(lane, 2**62 + number) for number, lane in enumerate(lanes)]
    return [(key, value) for key in keys for value in IMPOSSIBLE_LANES]


@pytest.mark.parametrize("topic", TOPICS)
def test_junk_in_an_internal_topic_stops_no_deliveries(
    system: System, subscriber: Sink, steady: str, topic: str
) -> None:
    """Kept promise: whatever is written to a topic of Penstock's own, events go on to arrive, and a trigger that is
    new becomes ready and is served."""
    write_junk(system, topic)
    arrives(system, subscriber, steady, topic)
    apply(system, trigger(f"after-{topic}", BROKER, f"{subscriber.url}/{topic}"))
    applied.clear()
    arrives(system, subscriber, f"/{topic}", "new")


def test_after_a_restart_all_triggers_are_served_in_spite_of_junk(
    system: System, subscriber: Sink, steady: str
) -> None:
    """Kept promise: invalid records do not stop the next start either; status and metrics show the skipped ones."""
    write_junk(system, LEDGER_TOPIC)
    write_junk(system, CLAIMS_TOPIC)
    before = until(lambda: system.pid("dispatcher"), "the dispatcher runs")
    kill(before)
    until(lambda: system.pid("dispatcher") not in (0, before), "the dispatcher is started again")
    arrives(system, subscriber, steady, "restarted")
    until(lambda: LEDGER_TOPIC in reason(system), "the status names the ledger")
    counted = f'penstock_bad_records_total{{topic="{LEDGER_TOPIC}"}}'
    until(lambda: counted in metrics(system), "the metrics count the skipped ones")


def metrics(system: System) -> str:
    with urllib.request.urlopen(system.admin_url + "/metrics") as answer:
        return str(answer.read().decode())


def reason(system: System) -> str:
    """The dispatcher's part of the status."""
    parts = json.loads(system.run("status", "-o", "json").stdout)["parts"]
    return next(str(each["reason"]) for each in parts if each["name"] == "dispatcher")
