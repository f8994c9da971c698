"""Of every attempt it is known when, with which answer, and what followed; and numbers agree with that."""

from types import SimpleNamespace

import pytest

from penstock.contract.model import Delivery
from penstock.contract.telemetry import (
    DEAD_LETTERED,
    DELIVERED,
    GIVEN_UP,
    OFFSETS,
    RETRIED,
    SECONDS,
    SHORT_SECONDS,
    STATUSES,
    DeliveryLog,
    Odd,
    decode_log,
    encode_log,
    unpacked,
)
from penstock.delivery.tally import Tally, logged, summed_up
from tests.delivery.loop import MakeSink, lane, row, running
from tests.sink import Answer


def attempt(
    offset: int, status: int, failures: int = 0, received: float = 0.0, began: float = 100.0
) -> SimpleNamespace:
    of = SimpleNamespace(offset=offset, received=received, written=99.998)
    return SimpleNamespace(rows=[of], failures=failures, status=status, began=began, answered=began + 0.25)


def test_what_was_noted_is_counted_by_class_with_its_durations() -> None:
    tally = Tally()
    tally.matched = 3
    tally.note(attempt(1, 200, received=99.0))
    tally.note(attempt(2, 503, failures=1), RETRIED, "status 503")
    tally.note(attempt(2, 0, failures=2), RETRIED, "timed out after 1 s")
    tally.note(attempt(2, 204, failures=2))
    served = summed_up(tally.take())
    assert served.matched == 3
    assert served.attempts == {"2xx": 2, "5xx": 1, "timeout": 1}
    assert served.retries == 2
    assert served.whole_way is not None
    assert served.whole_way.sum == pytest.approx(1.25 + 0.252)
    assert served.subscriber is not None
    assert (served.subscriber.count, served.subscriber.sum) == (4, 1.0)
    assert (tally.matched, tally.attempts, tally.odd) == (0, 0, {})


def test_a_request_to_the_dead_letter_sink_is_none_to_the_subscriber() -> None:
    tally = Tally()
    tally.note(attempt(1, 400, failures=1), RETRIED, "status 400")
    tally.note(attempt(1, 202), DEAD_LETTERED)
    served = summed_up(tally.take())
    assert served.attempts == {"4xx": 1}
    assert served.whole_way is None


def test_a_clock_that_is_set_back_makes_no_negative_durations() -> None:
    tally = Tally()
    tally.note(attempt(1, 200, received=7000.0))
    served = summed_up(tally.take())
    assert served.whole_way is not None
    assert served.whole_way.sum == 0.0


def test_an_event_of_unknown_receipt_was_received_when_it_was_written() -> None:
    tally = Tally()
    tally.note(attempt(1, 200))
    tally.note(attempt(2, 200, received=99.0))
    served = summed_up(tally.take())
    assert served.whole_way is not None
    assert served.whole_way.sum == pytest.approx(0.252 + 1.25)


def test_only_what_was_delivered_has_a_whole_way() -> None:
    """Wherever in between it was noted."""
    tally = Tally()
    tally.note(attempt(1, 503, failures=1), RETRIED, "status 503")
    tally.note(attempt(2, 200, received=90.0))
    tally.note(attempt(1, 202), DEAD_LETTERED)
    tally.note(attempt(3, 200, failures=1, received=80.0))
    served = summed_up(tally.take())
    assert served.attempts == {"5xx": 1, "2xx": 2}
    assert served.retries == 1
    assert served.whole_way is not None
    assert served.whole_way.sum == pytest.approx(10.25 + 20.25)
    assert served.kafka_to_subscriber is not None
    assert served.kafka_to_subscriber.count == 2


def test_the_log_says_when_each_attempt_was_and_how_it_ended() -> None:
    tally = Tally()
    tally.note(attempt(6, 204, began=99.5))
    tally.note(attempt(7, 500, failures=1), RETRIED, "status 500")
    tally.note(attempt(7, 200, failures=1, began=101.0))
    log = decode_log(encode_log(DeliveryLog("orders", 3, [logged("a", tally.take())])))
    (of,) = log.lanes
    assert (log.topic, log.partition, of.uid) == ("orders", 3, "a")
    assert list(unpacked(OFFSETS, of.offsets)) == [6, 7, 7]
    assert list(unpacked(SECONDS, of.began)) == [99.5, 100.0, 101.0]
    assert list(unpacked(SHORT_SECONDS, of.took)) == [0.25, 0.25, 0.25]
    assert list(unpacked(STATUSES, of.statuses)) == [204, 500, 200]
    assert of.odd == {1: Odd(RETRIED, 1, "status 500"), 2: Odd(DELIVERED, 1)}


def test_a_log_of_failures_leaves_out_what_went_well() -> None:
    tally = Tally()
    tally.note(attempt(6, 204))
    tally.note(attempt(7, 500, failures=1), RETRIED, "status 500")
    of = logged("a", tally.take().where(lambda each: each != Odd()))
    assert list(unpacked(OFFSETS, of.offsets)) == [7]
    assert of.odd == {0: Odd(RETRIED, 1, "status 500")}


def test_the_loop_notes_every_attempt(sink: MakeSink) -> None:
    """500, 500, 200 are three attempts, two of them retries; what is refused for good was given up."""
    subscriber = sink()
    statuses = iter((500, 500, 200, 400))
    subscriber.answer("/a", with_=lambda _: Answer(next(statuses)))
    served = lane(subscriber.url + "/a", order="ordered", delivery=Delivery(retry=5, backoff_delay_seconds=0.01))
    with running(served) as rows:
        rows.offer(row(0))
        rows.offer(row(1))
    noted = served.tally.take()
    assert noted.matched == 2
    ended = [noted.odd[number].ended for number in range(4)]
    assert list(zip(noted.offsets, noted.statuses, ended, strict=True)) == [
        (0, 500, RETRIED),
        (0, 500, RETRIED),
        (0, 200, DELIVERED),
        (1, 400, GIVEN_UP),
    ]
