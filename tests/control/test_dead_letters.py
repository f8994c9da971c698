"""Dead letters in groups, and jobs that send them once more, on a real Kafka with a real controller."""

from time import time
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import TopicPartition

from penstock.contract.model import ADDRESSEE
from penstock.control import dead_letters, redrive
from penstock.control.dead_letters import Wanted, kind_of_error
from penstock.errors import Rejected
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.dead_letter_index import DeadLetterIndex
from tests.control.conftest import TOPIC, Running
from tests.control.letters import letter, the_fifty, write
from tests.control.objects import broker, trigger
from tests.waiting import until


@pytest.fixture
def uid(running: Running) -> str:
    """Of a trigger whose broker has a topic."""
    running.apply(broker())
    running.ready("Broker", "orders")
    uid = str(running.apply(trigger())["metadata"]["uid"])
    until(lambda: running.controller.world.contract.subscriptions("Trigger/default/audit"), "the subscription")
    return uid


def addressed(kafka: KafkaConnection, uid: str) -> list[str]:
    """The ids of records in the topic that are meant for one subscription alone."""
    consumer = kafka.consumer()
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
        ends = sum(consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=10)[1] for p in (0, 1))
        begins = sum(consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=10)[0] for p in (0, 1))
        messages: list[Any] = []
        while len(messages) < ends - begins:
            messages += consumer.consume(500, 0.1)
    finally:
        consumer.close()
    found = [dict(each.headers() or []) for each in messages]
    return sorted(each["ce_id"].decode() for each in found if each.get(ADDRESSEE) == uid.encode())


def ended(running: Running, job: dict[str, Any]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = running.controller.jobs.get(job["id"])
        return found if found and found["ended"] else None

    return until(look, "the end of the job")


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (503, "status 503", "answered 503"),
        (0, "timed out after 30 s", "timeout"),
        (0, "Failed to connect to 127.0.0.1 port 81 after 0 ms: Could not connect to server", "no connection"),
        (0, "Could not resolve host: nowhere.example", "host not found"),
        (0, "Recv failure: Connection reset by peer", "connection broken"),
        (200, "the reply is not a CloudEvent: it has no id", "reply not taken"),
        (0, "it ended its worker twice", "it ended its worker twice"),
        (0, "", "no answer"),
    ],
)
def test_the_kind_of_an_error_leaves_the_particulars_out(code: int, reason: str, kind: str) -> None:
    assert kind_of_error(code, reason) == kind


def test_fifty_letters_of_three_kinds_are_three_groups(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: subscription × kind of error × code, with counts, first and last, and a sample."""
    world = running.controller.world
    write(kafka, *the_fifty(uid))
    until(lambda: world.dead_letters.waiting().get(uid) and world.dead_letters.waiting()[uid].count == 50, "all")
    found = [each for each in dead_letters.groups(world, Wanted()) if each["uid"] == uid]
    assert [(each["reason_kind"], each["code"], each["count"]) for each in found] == [
        ("answered 503", 503, 40),
        ("timeout", 0, 7),
        ("answered 400", 400, 3),
    ]
    assert found[0]["sample"] == {"reason": "status 503", "body": "no"}
    assert found[0]["first"] < found[0]["last"] < found[1]["first"]
    assert not found[0]["still_failing"]
    assert [each["group"] for each in dead_letters.groups(world, Wanted(group=found[1]["group"]))] == [
        found[1]["group"]
    ]


def test_a_job_sends_a_group_once_and_marks_it(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: the plan says what will be sent, the run sends exactly that, and a second run nothing."""
    world, jobs = running.controller.world, running.controller.jobs
    write(kafka, *the_fifty(uid))
    until(lambda: len(world.dead_letters.find(lambda each: each.uid == uid)) == 50, "all are known")
    group = next(each["group"] for each in dead_letters.groups(world, Wanted()) if each["uid"] == uid)
    planned = redrive.plan(world, Wanted(group=group), 0).shown
    assert (planned["count"], planned["warning"]) == (40, None)
    assert planned["target"][0] == {
        "key": "Trigger/default/audit", "subscriber": "http://sink.example/", "count": 40, "warning": None,
    }  # fmt: skip
    job = ended(running, jobs.start(Wanted(group=group), 0))
    assert (job["state"], job["sent"], job["plan"]) == ("done", 40, planned)
    assert job["event_time"] == planned["last"]
    assert addressed(kafka, uid) == sorted(f"e{n}" for n in range(40))
    with pytest.raises(Rejected, match="no dead letter"):
        jobs.start(Wanted(group=group), 0)
    assert world.dead_letters.waiting()[uid].count == 10


def test_a_single_one_can_be_undone(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: within the delay nothing is sent, and a cancel takes it back for good."""
    world, jobs = running.controller.world, running.controller.jobs
    one = letter(uid, 7, 503, "status 503")
    write(kafka, one)
    until(lambda: world.dead_letters.is_open(one.key), "it is known")
    job = jobs.start(Wanted(keys=frozenset([one.key])), 0, delay_seconds=5)
    assert (job["state"], job["plan"]["count"]) == ("waiting", 1)
    cancelled = jobs.cancel(job["id"])
    assert cancelled is not None
    assert (cancelled["state"], cancelled["sent"]) == ("cancelled", 0)
    assert world.dead_letters.is_open(one.key)
    assert addressed(kafka, uid) == []


def test_a_slow_job_is_cancelled_and_another_goes_on(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: the rate is kept, a cancel leaves the rest, and what was sent is never sent twice."""
    world, jobs = running.controller.world, running.controller.jobs
    write(kafka, *the_fifty(uid))
    until(lambda: len(world.dead_letters.find(lambda each: each.uid == uid)) == 50, "all are known")
    of_it = Wanted(kind="Trigger", namespace="default", name="audit")
    job = jobs.start(of_it, 4)
    until(lambda: (jobs.get(job["id"]) or {})["sent"] >= 2, "the first")
    jobs.cancel(job["id"])
    first = ended(running, job)
    assert first["state"] == "cancelled"
    assert 2 <= first["sent"] < 20
    second = ended(running, jobs.start(of_it, 0))
    assert (second["state"], second["sent"]) == ("done", 50 - first["sent"])
    assert addressed(kafka, uid) == sorted(f"e{n}" for n in range(50))


def test_two_jobs_at_once_send_nothing_twice(running: Running, kafka: KafkaConnection, uid: str) -> None:
    world, jobs = running.controller.world, running.controller.jobs
    write(kafka, *the_fifty(uid))
    until(lambda: len(world.dead_letters.find(lambda each: each.uid == uid)) == 50, "all are known")
    of_it = Wanted(kind="Trigger", namespace="default", name="audit")
    both = [ended(running, each) for each in [jobs.start(of_it, 0), jobs.start(of_it, 0)]]
    assert sum(each["sent"] for each in both) == 50
    assert addressed(kafka, uid) == sorted(f"e{n}" for n in range(50))


def test_a_fresh_failure_and_a_missing_subscription_are_warned_of(
    running: Running, kafka: KafkaConnection, uid: str
) -> None:
    world = running.controller.world
    orphan = str(uuid4())
    both = letter(uid, 1, 503, "status 503", time=time()), letter(orphan, 2, 503, "status 503", name="gone")
    write(kafka, *both)
    until(lambda: len(world.dead_letters.find(lambda each: each.uid in (uid, orphan))) == 2, "both are known")
    planned = redrive.plan(world, Wanted(keys=frozenset(each.key for each in both)), 50)
    shown = planned.shown
    assert shown["count"] == 1
    assert "still fails: status 503" in shown["warning"]
    assert "1 cannot be sent" in shown["warning"]
    assert planned.problems == [{"id": "e2", "message": "its trigger default/gone is no more"}]
    assert (shown["rate"], shown["seconds"]) == (50, 0.0)


def test_the_index_keeps_the_newest_and_reads_again_for_the_rest(kafka: KafkaConnection, running: Running) -> None:
    """Kept promise: memory is bounded, and what had no room comes back when others are sent."""
    uid = str(uuid4())
    letters = [letter(uid, n, 503, "status 503", name="gone") for n in range(30)]
    write(kafka, *letters)
    index = DeadLetterIndex(kafka, most=20).start()
    try:
        index.wait_until_current()
        assert len(index.find()) == 20
        assert index.is_more
        mine = {each.key for each in index.find(lambda each: each.uid == uid)}
        assert mine == {each.key for each in letters[10:]}
        write(kafka, *(msgspec.structs.replace(each, redriven=time()) for each in letters[10:]))
        until(lambda: {each.key for each in index.find()} >= {each.key for each in letters[:10]}, "the older ones")
    finally:
        index.stop()


def test_a_group_says_that_its_subscription_is_no_more(running: Running, kafka: KafkaConnection, uid: str) -> None:
    world = running.controller.world
    orphan = str(uuid4())
    write(kafka, letter(uid, 1, 503, "status 503"), letter(orphan, 2, 503, "status 503", name="gone"))
    until(lambda: len(world.dead_letters.find(lambda each: each.uid in (uid, orphan))) == 2, "both are known")
    found = {each["uid"]: each["subscribed"] for each in dead_letters.groups(world, Wanted())}
    assert (found[uid], found[orphan]) == (True, False)
