"""Promises towards the outside: where nothing is ever sent, who is not bothered any more, and what is signed."""

import threading

import pytest

from penstock.access.addresses import AddressPolicy
from penstock.contract.model import REPORT_TOPIC, Delivery
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.row import Row
from penstock.delivery.sign import signature_lines
from tests.delivery.loop import MakeSink, Rows, ids, lane, row, running
from tests.delivery.outbox import KeptOutbox


@pytest.mark.scenario(18)
def test_link_local_addresses_are_never_connected_to() -> None:
    """Kept promise: a subscriber address cannot reach a cloud's metadata service."""
    target = lane("http://169.254.169.254/latest", delivery=Delivery(timeout_seconds=2.0))
    with running(target) as rows:
        rows.offer(row(0))
    assert target.counts.given_up == 1


@pytest.mark.scenario(19)
def test_an_endless_answer_is_cut_off(sink: MakeSink) -> None:
    """Kept promise: a huge answer costs bounded memory, and its status still counts."""
    subscriber = sink()
    subscriber.answer("/a", body=b"x" * (8 * 1024 * 1024))
    target = lane(subscriber.url + "/a")
    with running(target) as rows:
        rows.offer(row(0))
    assert target.counts.delivered == 1


def test_an_address_that_cannot_be_sent_to_harms_nobody_else(sink: MakeSink) -> None:
    """Kept promise: one lane's trouble is its own, whatever got past validation."""
    subscriber = sink()
    lanes = [lane("http://h/ä"), lane(subscriber.url + "/good"), lane("http://127.0.0.1:1/\x00")]
    with running(*lanes) as rows:
        for offset in range(3000):
            rows.offer(row(offset, (0, 1, 2)))
    assert sorted(ids(subscriber.at("/good"))) == list(range(3000))
    assert [each.counts.given_up for each in lanes] == [3000, 0, 3000]
    assert [each.progress.position for each in lanes] == [3000, 3000, 3000]


def test_a_dead_letter_tells_no_password_and_no_old_errors(sink: MakeSink) -> None:
    """Kept promise: the dead letter says where it was refused, once, and keeps the secret in the address."""
    subscriber = sink()
    subscriber.answer("/a", status=400)
    address = subscriber.url.replace("://", "://user:secret@") + "/a"
    policy = Delivery(dead_letter_url=subscriber.url + "/dead")
    old = Row(7, (0,), [b"ce-id:7", b"ce-knativeerrorcode:500", b"content-type:a/b"], b"")
    with running(lane(address, delivery=policy)) as rows:
        rows.offer(old)
    (letter,) = subscriber.at("/dead")
    assert letter.headers["ce-knativeerrorcode"] == "400"
    assert letter.headers["ce-knativeerrordest"] == subscriber.url + "/a"


def test_who_answers_410_gets_nothing_more_and_loses_nothing(sink: MakeSink) -> None:
    """Kept promise: a subscriber that is gone is disabled; the rest stays unfinished for whoever resumes it."""
    subscriber, outbox = sink(), KeptOutbox()
    subscriber.answer("/gone", status=410)
    gone = lane(subscriber.url + "/gone", window=1)
    deliveries = Deliveries([gone], Limits(), on_tick=lambda _: None, outbox=outbox)
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 0.5), daemon=True)
    thread.start()
    for offset in range(5):
        rows.offer(row(offset))
    rows.end()
    thread.join(20)
    assert [request.headers["ce-id"] for request in subscriber.at("/gone")] == ["0"]
    assert gone.progress.position == 1  # it was given up, which is recorded
    assert gone.progress.open_count == 4
    (key,) = [record.key for topic, record in outbox.stored if topic == REPORT_TOPIC]
    assert key == b"gone/u"


def test_deliveries_are_signed(sink: MakeSink) -> None:
    """Kept promise: with a key every request carries its signature; without one nothing is sent unsigned."""
    subscriber = sink()
    signed = lane(subscriber.url + "/signed", delivery=Delivery(signing_secret="stripe"))
    signed.signing_keys = (b"0123456789abcdef",)
    later = lane(subscriber.url + "/later", delivery=Delivery(signing_secret="stripe"))
    later.signing_problem = "the signing secret stripe cannot be read"
    with running(signed, later) as rows:
        for offset in range(200):
            rows.offer(row(offset, (0, 1)))
        subscriber.wait_for(200, "/signed")
        assert subscriber.at("/later") == []
        later.signing_keys, later.signing_problem = signed.signing_keys, ""
        subscriber.wait_for(200, "/later")
    (first, *_) = requests = subscriber.at("/signed")
    assert len(requests) == 200
    lines = [f"ce-id:{first.headers['ce-id']}".encode()]
    timestamp = float(first.headers["webhook-timestamp"])
    *_, expected = signature_lines(signed.signing_keys, lines, first.body, timestamp)
    assert expected == b"webhook-signature:" + first.headers["webhook-signature"].encode()
    assert later.counts.given_up == 0


def test_private_addresses_by_policy(sink: MakeSink) -> None:
    """Kept promise: where private networks are closed, a subscriber on this host is never connected to."""
    subscriber = sink()
    closed = lane(subscriber.url + "/closed")
    with running(closed, limits=Limits(policy=AddressPolicy("refuse"))) as rows:
        rows.offer(row(0))
    assert subscriber.requests == []
    assert closed.counts.given_up == 1


@pytest.mark.scenario(18)
def test_a_redirect_is_not_followed(sink: MakeSink) -> None:
    """Kept promise: an answer that points elsewhere, be it a metadata service or this host, leads nowhere."""
    subscriber, elsewhere = sink(), sink()
    subscriber.answer("/moved", status=307, headers={"Location": elsewhere.url + "/secret"})
    moved = lane(subscriber.url + "/moved")
    with running(moved) as rows:
        rows.offer(row(0))
    assert elsewhere.requests == []
    assert moved.counts.given_up == 1
