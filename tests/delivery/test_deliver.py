"""Promises of the delivering loop, against real HTTP servers: order, windows, retries, dead letters, holding."""

import base64
import json
import threading
import time
from functools import partial

import pytest

from penstock.contract.model import Delivery, decode_dead_letter
from penstock.contract.telemetry import SINK_GIVEN_UP
from penstock.delivery import deliver
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.ports import free_port
from tests.delivery.loop import MakeSink, Rows, ids, lane, row, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer, Request
from tests.waiting import until


def test_every_lane_that_matches_gets_the_event_once(sink: MakeSink) -> None:
    """Kept promise: one delivery per matching subscription, also to the same address."""
    subscriber = sink()
    lanes = [lane(subscriber.url + path) for path in ("/a", "/b", "/b")]
    with running(*lanes) as rows:
        for offset in range(50):
            rows.offer(row(offset, (0, 1, 2) if offset % 2 else (0,)))
    assert sorted(ids(subscriber.at("/a"))) == list(range(50))
    assert sorted(ids(subscriber.at("/b"))) == sorted([*range(1, 50, 2)] * 2)
    assert [each.progress.position for each in lanes] == [50, 50, 50]


def test_the_request_carries_event_and_namespace(sink: MakeSink) -> None:
    """Kept promise: headers and data arrive as they are, with Knative's namespace header and its wish for replies."""
    subscriber = sink()
    with running(lane(subscriber.url + "/a")) as rows:
        rows.offer(row(7))
    (request,) = subscriber.requests
    assert (request.method, request.body) == ("POST", b'{"n":7}')
    assert request.headers["ce-id"] == "7"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["kn-namespace"] == "shop"
    assert request.headers["prefer"] == "reply"
    assert "expect" not in request.headers


TRACED = [
    b"ce-specversion:1.0",
    b"ce-id:7",
    b"ce-source:/shop",
    b"ce-type:order",
    b"content-type:application/json",
    b"traceparent:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"tracestate:vendor=1",
    b"ce-knativekafkaoffset:7",
]


@pytest.mark.parametrize(("format_", "is_wide"), [("json", False), ("binary", True)])
def test_the_json_form_is_the_whole_event_with_its_trace(sink: MakeSink, format_: str, is_wide: bool) -> None:
    """Kept promise: who asks for JSON, or gets an event too wide for headers, has all of it and its trace."""
    subscriber = sink()
    event = Row(7, (0,), TRACED, b'{"n":7}')
    event.is_wide = is_wide
    policy = Delivery(format=format_)  # type: ignore[arg-type]
    with running(lane(subscriber.url + "/a", delivery=policy)) as rows:
        rows.offer(event)
    (request,) = subscriber.requests
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["traceparent"] == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert request.headers["tracestate"] == "vendor=1"
    assert "ce-id" not in request.headers
    body = json.loads(request.body)
    assert (body["id"], body["data"], body["knativekafkaoffset"]) == ("7", {"n": 7}, "7")


def test_an_ordered_lane_keeps_order_through_retries(sink: MakeSink) -> None:
    """Kept promise: n+1 does not begin before n is finished, however often n fails."""
    subscriber = sink()
    failed: set[int] = set()

    def fail_every_third_once(request: Request) -> Answer:
        number = int(request.headers["ce-id"])
        if number % 3 == 0 and number not in failed:
            failed.add(number)
            return Answer(503)
        return Answer(200)

    subscriber.answer("/a", with_=fail_every_third_once)
    policy = Delivery(retry=2, backoff_delay_seconds=0.01)
    with running(lane(subscriber.url + "/a", order="ordered", delivery=policy)) as rows:
        for offset in range(30):
            rows.offer(row(offset))
    expected = [each for offset in range(30) for each in ([offset, offset] if offset % 3 == 0 else [offset])]
    assert ids(subscriber.requests) == expected


def test_an_unordered_lane_goes_on_while_one_event_waits(sink: MakeSink) -> None:
    """Kept promise: a failing event does not hold up the others, and the position does not pass it."""
    subscriber = sink()
    release = threading.Event()
    subscriber.answer(
        "/a", with_=lambda r: Answer(503 if r.headers["ce-id"] == "0" and not release.is_set() else 200)
    )
    target = lane(
        subscriber.url + "/a", delivery=Delivery(retry=1000, backoff_policy="linear", backoff_delay_seconds=0.02)
    )
    with running(target) as rows:
        for offset in range(20):
            rows.offer(row(offset))
        subscriber.wait_for(25, timeout_seconds=10)
        assert target.progress.position == 0
        assert target.progress.beyond() == ((1, 19),)
        release.set()
    assert target.progress.position == 20


def test_retries_that_are_used_up_end_in_the_dead_letter_sink(sink: MakeSink) -> None:
    """Kept promise: after the full cycle the event goes to the sink with Knative's error attributes."""
    subscriber, dead = sink(), sink()
    subscriber.answer("/a", status=500, body=b"no room")
    policy = Delivery(retry=2, backoff_delay_seconds=0.01, dead_letter_url=dead.url + "/d")
    target = lane(subscriber.url + "/a", delivery=policy)
    with running(target) as rows:
        rows.offer(row(3))
    assert len(subscriber.requests) == 3
    (letter,) = dead.requests
    assert letter.headers["ce-knativeerrordest"] == subscriber.url + "/a"
    assert letter.headers["ce-knativeerrorcode"] == "500"
    assert base64.b64decode(letter.headers["ce-knativeerrordata"]) == b"no room"
    assert letter.body == b'{"n":3}'
    assert (target.counts.dead_lettered, target.counts.given_up) == (1, 0)


@pytest.mark.parametrize(
    ("came", "hops"),
    [
        ([], None),
        ([b"ce-knativebrokerttl:3"], "3"),
        ([b"ce-knativeerrordest:http://a/"], "15"),
        ([b"ce-knativeerrordest:http://a/", b"ce-knativebrokerttl:3"], "2"),
        ([b"ce-knativeerrordest:http://a/", b"ce-knativebrokerttl:255"], "15"),
        ([b"ce-knativeerrordest:http://a/", b"ce-knativebrokerttl:no number"], "15"),
    ],
)
def test_a_dead_letter_that_fails_again_has_one_hop_less(sink: MakeSink, came: list[bytes], hops: str | None) -> None:
    """Kept promise: dead letters of dead letters are counted as replies are; the first one gets no count."""
    subscriber, dead = sink(), sink()
    subscriber.answer("/a", status=400)
    target = lane(subscriber.url + "/a", delivery=Delivery(dead_letter_url=dead.url + "/d"))
    event = row(3)
    event.headers += came
    with running(target, limits=Limits(reply_hops=16)) as rows:
        rows.offer(event)
    (letter,) = dead.requests
    assert letter.headers.get("ce-knativebrokerttl") == hops
    assert letter.headers["ce-knativeerrordest"] == subscriber.url + "/a"


@pytest.mark.parametrize("retry", [0, 2])
def test_dead_letters_that_circulate_come_to_an_end(sink: MakeSink, retry: int) -> None:
    """Kept promise: an event whose dead letters come back is given up after the first and sixteen more, and recorded
    with the reason."""
    subscriber, dead, outbox = sink(), sink(), KeptOutbox()
    subscriber.answer("/a", status=503)
    delivery = Delivery(retry=retry, backoff_delay_seconds=0.01, dead_letter_url=dead.url + "/d")
    target = lane(subscriber.url + "/a", delivery=delivery)
    with running(target, outbox=outbox, limits=Limits(reply_hops=16)) as rows:
        rows.offer(row(0))
        for came in range(1, 18):  # the sink is the broker that the subscriber reads
            back = dead.wait_for(came)[-1].headers
            rows.offer(again := row(came))
            again.headers += [
                f"{name}:{back[name]}".encode()
                for name in ("ce-knativeerrordest", "ce-knativebrokerttl")
                if name in back
            ]
    assert len(dead.requests) == 17
    assert [each.ended for each in target.tally.odd.values()][-1] == SINK_GIVEN_UP
    assert (target.counts.dead_lettered, target.counts.given_up, target.counts.loops_cut) == (17, 1, 1)
    last = decode_dead_letter(outbox.stored[-1][1].value or b"")
    assert (last.outcome, last.code, last.attempts) == ("given up", 503, retry + 1)
    assert last.reason.startswith("status 503; not sent to the dead letter sink: no hop is left")


@pytest.mark.parametrize("status", [400, 302])
def test_a_refusal_is_not_retried(sink: MakeSink, status: int) -> None:
    """Kept promise: what will never be taken is given up at once, counted, redirects never followed."""
    subscriber = sink()
    subscriber.answer("/a", status=status, headers={"location": subscriber.url + "/elsewhere"})
    target = lane(subscriber.url + "/a", delivery=Delivery(retry=5, backoff_delay_seconds=0.01))
    with running(target) as rows:
        rows.offer(row(0))
        rows.offer(row(1))
    assert [each.path for each in subscriber.requests] == ["/a", "/a"]
    assert target.counts.given_up == 2
    assert target.progress.position == 2


@pytest.mark.parametrize("has_sink", [True, False])
def test_a_batch_that_is_given_up_is_given_up_event_by_event(sink: MakeSink, has_sink: bool) -> None:
    """Kept promise: of a refused batch every event goes to the sink, or into the record, by itself."""
    subscriber, dead, outbox = sink(), sink(), KeptOutbox()
    subscriber.answer("/a", status=400)
    url = dead.url + "/d" if has_sink else None
    target = lane(subscriber.url + "/a", delivery=Delivery(batch=3, batch_wait_seconds=60.0, dead_letter_url=url))
    target.topic_id = "this-topic"
    with running(target, outbox=outbox) as rows:
        for offset in range(3):
            rows.offer(row(offset))
    (request,) = subscriber.requests
    assert len(json.loads(request.body)) == 3
    assert sorted(ids(dead.requests)) == ([0, 1, 2] if has_sink else [])
    letters = [decode_dead_letter(record.value or b"") for _, record in outbox.stored]
    outcome = "dead-lettered" if has_sink else "given up"
    assert sorted((each.offset, each.outcome) for each in letters) == [(offset, outcome) for offset in range(3)]
    assert {each.topic_id for each in letters} == {"this-topic"}
    assert (target.counts.dead_lettered, target.counts.given_up) == ((3, 0) if has_sink else (0, 3))
    assert target.progress.position == 3


def test_nobody_listening_counts_as_a_failed_attempt() -> None:
    """Kept promise: a refused connection is retried, then given up; the lane goes on."""
    target = lane(f"http://127.0.0.1:{free_port()}/", delivery=Delivery(retry=1, backoff_delay_seconds=0.01))
    with running(target) as rows:
        rows.offer(row(0))
    assert (target.counts.failed_attempts, target.counts.given_up) == (2, 1)


def test_a_hanging_subscriber_is_cut_off_by_the_timeout(sink: MakeSink) -> None:
    """Kept promise: the timeout ends an attempt, and the event is tried again."""
    subscriber = sink()
    answers = iter([Answer(200, delay_seconds=30.0), Answer(200)])
    subscriber.answer("/a", with_=lambda _: next(answers))
    target = lane(subscriber.url + "/a", delivery=Delivery(retry=1, backoff_delay_seconds=0.01, timeout_seconds=2.0))
    with running(target) as rows:
        rows.offer(row(0))
    assert target.counts.delivered == 1


@pytest.mark.parametrize("limits", [Limits(unfinished_rows=10), Limits(unfinished_bytes=70)], ids=["rows", "bytes"])
def test_no_more_rows_are_taken_when_too_much_is_unfinished(sink: MakeSink, limits: Limits) -> None:
    """Kept promise: memory is bounded; rows beyond the limit stay with Spark."""
    subscriber = sink()
    release = threading.Event()
    subscriber.answer("/a", with_=lambda _: Answer(200 if release.is_set() else 503))
    target = lane(
        subscriber.url + "/a",
        delivery=Delivery(retry=10_000, backoff_policy="linear", backoff_delay_seconds=0.01),
    )
    with running(target, limits=limits) as rows:
        for offset in range(40):
            rows.offer(row(offset))
        subscriber.wait_for(100)
        assert rows.taken <= 10  # each has 7 bytes
        release.set()
        subscriber.wait_for(140)
    assert rows.taken == 40
    assert target.progress.position == 40


def test_holding_finishes_what_is_in_flight_and_begins_nothing(sink: MakeSink) -> None:
    """Kept promise: a worker that lost its partition sends nothing new, and what it sent is recorded."""
    subscriber = sink()
    subscriber.answer("/a", delay_seconds=0.3)
    target = lane(subscriber.url + "/a", window=2)
    deliveries = Deliveries([target], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    for offset in range(10):
        rows.offer(row(offset))
    subscriber.wait_for(2)
    deliveries.let_go(5.0, 5.0)
    thread.join(10.0)
    assert not thread.is_alive()
    assert len(subscriber.requests) == 2
    assert target.progress.position == 2


def test_a_source_that_is_over_from_the_start_ends_the_loop(sink: MakeSink) -> None:
    """Kept promise: a micro-batch whose rows were all there at once is finished, not waited on for ever."""
    subscriber = sink()
    target = lane(subscriber.url + "/a")
    deliveries = Deliveries([target], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    rows.is_over = True
    deliveries.take([row(offset) for offset in range(5)])
    deliveries.run(rows, patience_seconds=20.0)
    assert sorted(ids(subscriber.requests)) == list(range(5))


def test_what_was_not_taken_on_does_not_count_as_seen() -> None:
    """Kept promise: when a row breaks the loop, the ledger does not say that later lanes have had it."""
    broken = lane("http://127.0.0.1:1/")
    broken.progress.take_on = lambda _: 1 / 0  # type: ignore[method-assign,assignment]
    deliveries = Deliveries(
        [broken, lane("http://127.0.0.1:1/")], Limits(), on_tick=lambda _: None, outbox=KeptOutbox()
    )
    with pytest.raises(ZeroDivisionError):
        deliveries.take([row(5, (0, 1))])
    assert deliveries.seen_offset == -1


def test_a_lane_that_hangs_is_parked_and_the_others_go_on(sink: MakeSink) -> None:
    """Kept promise: a lane that holds up the others lets go of what it has not begun, and says where it stopped."""
    subscriber = sink()
    release = threading.Event()
    subscriber.answer("/hangs", with_=lambda _: Answer(200, delay_seconds=0.0 if release.is_set() else 3.0))
    hangs = lane(subscriber.url + "/hangs", window=4)
    others = [lane(subscriber.url + f"/{n}") for n in range(3)]
    limits = Limits(unfinished_rows=50, may_park=True)
    with running(hangs, *others, limits=limits) as rows:
        for offset in range(300):
            rows.offer(row(offset, (0, 1, 2, 3)))
        for n in range(3):
            subscriber.wait_for(300, path=f"/{n}", timeout_seconds=10)
        assert hangs.is_parked
        assert not hangs.is_drained
        assert not any(each.is_parked for each in others)
        subscriber.wait_for(4, path="/hangs", timeout_seconds=10)
    assert hangs.is_drained
    assert len(subscriber.at("/hangs")) == 4
    assert (hangs.progress.position, hangs.progress.is_open) == (4, True)
    successor = Progress(hangs.progress.position, hangs.progress.beyond())
    assert [offset for offset in range(300) if not successor.is_done(offset)] == list(range(4, 300))


def test_load_alone_parks_nobody(sink: MakeSink) -> None:
    """Kept promise: when all lanes are equally busy the loop reads more slowly, and that is all."""
    subscriber = sink()
    lanes = [lane(subscriber.url + f"/{n}", window=2) for n in range(3)]
    for n in range(3):
        subscriber.answer(f"/{n}", delay_seconds=0.02)
    with running(*lanes, limits=Limits(unfinished_rows=20, may_park=True)) as rows:
        for offset in range(250):
            rows.offer(row(offset, (0, 1, 2)))
        subscriber.wait_for(750, timeout_seconds=20)
    assert not any(each.is_parked for each in lanes)


def test_a_parked_lane_does_not_retry_but_remembers(sink: MakeSink) -> None:
    """Kept promise: whoever goes on with a parked lane knows how often each event has failed."""
    subscriber = sink()
    subscriber.answer("/fails", status=503)
    policy = Delivery(retry=50, backoff_policy="linear", backoff_delay_seconds=0.5)
    fails = lane(subscriber.url + "/fails", delivery=policy, order="ordered")
    with running(fails, lane(subscriber.url + "/good"), limits=Limits(unfinished_rows=20, may_park=True)) as rows:
        for offset in range(100):
            rows.offer(row(offset, (0, 1)))
        subscriber.wait_for(100, path="/good")
        assert fails.is_drained
        tried = len(subscriber.at("/fails"))
    assert fails.failing == {0: tried}
    assert fails.progress.position == 0


def test_what_hangs_in_a_parked_lane_is_not_waited_for_for_ever(
    sink: MakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: however long a subscriber's timeout is, somebody goes on with its lane before long."""
    monkeypatch.setattr(deliver, "DRAIN_SECONDS", 0.5)
    subscriber = sink()
    subscriber.answer("/hangs", delay_seconds=300.0)
    hangs = lane(subscriber.url + "/hangs", window=2, delivery=Delivery(timeout_seconds=3600.0))
    with running(hangs, lane(subscriber.url + "/good"), limits=Limits(unfinished_rows=20, may_park=True)) as rows:
        for offset in range(100):
            rows.offer(row(offset, (0, 1)))
        subscriber.wait_for(100, path="/good")
        until(lambda: hangs.is_drained, "it is drained")
    assert (hangs.progress.position, hangs.progress.beyond()) == (0, ())


def test_the_ledger_is_written_soon_also_when_every_answer_comes_at_once(sink: MakeSink) -> None:
    """Kept promise: at most 50 ms of deliveries are unrecorded, however quick the subscriber and thin the flow."""
    subscriber = sink()
    ticks: list[float] = []
    deliveries = Deliveries(
        [lane(subscriber.url + "/a")], Limits(), on_tick=lambda _: ticks.append(time.monotonic()), outbox=KeptOutbox()
    )
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    waits = []

    def has_ticked(count: int) -> bool:
        return len(ticks) > count

    for offset in range(12):
        rows.offer(row(offset))
        subscriber.wait_for(offset + 1)  # answered before the loop looks again
        delivered_at = time.monotonic()
        count = len(ticks)
        until(partial(has_ticked, count), "the ledger is written")
        waits.append(ticks[-1] - delivered_at)
    rows.end()
    thread.join(25.0)
    assert sorted(waits)[len(waits) // 2] < 0.2, waits  # the median: a machine may stop us now and then


@pytest.mark.scenario(26)
@pytest.mark.parametrize("hours", [2, -2])
def test_a_clock_that_jumps_moves_no_retry(sink: MakeSink, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Kept promise: when the clock is set, what waits neither comes at once nor waits for hours."""
    subscriber = sink()
    answers = iter([Answer(503)] * 2 + [Answer(200)])
    subscriber.answer("/a", with_=lambda _: next(answers))
    policy = Delivery(retry=5, backoff_policy="linear", backoff_delay_seconds=0.4)
    began = time.monotonic()
    real = time.time
    with running(lane(subscriber.url + "/a", delivery=policy)) as rows:
        rows.offer(row(0))
        subscriber.wait_for(1, "/a")
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        subscriber.wait_for(3, "/a")
    assert 0.8 <= time.monotonic() - began < 8.0


@pytest.mark.parametrize(("answers_after", "is_finished"), [(0.3, True), (60.0, False)])
def test_a_parked_lane_finishes_what_is_answered_soon(
    sink: MakeSink, answers_after: float, is_finished: bool
) -> None:
    """Kept promise: at a hand-over a slow answer still counts, and one that hangs ends the wait."""
    subscriber = sink()
    subscriber.answer("/slow", delay_seconds=answers_after)
    slow = lane(subscriber.url + "/slow")
    deliveries = Deliveries(
        [slow, lane(subscriber.url + "/b")], Limits(), on_tick=lambda _: None, outbox=KeptOutbox()
    )
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    rows.offer(row(0, (0, 1)))
    subscriber.wait_for(1, "/slow")
    slow.park()
    deliveries.let_go(0.1, 10.0 if is_finished else 2.0)
    thread.join(20)
    assert not thread.is_alive()
    assert (slow.progress.position == 1) is is_finished
