"""The generator and the sink against each other: what one sends, the other one has."""

from collections.abc import Iterator

import pytest
from bench.children import ChildFailed, Circle, Sink, run_load
from bench.events import make_id, read_ids, request_around_id, run_marker
from bench.framing import INCOMPLETE, Malformed, message_end
from bench.load import LoadPlan
from bench.sink import ANSWER, Recorder, SinkProtocol

from tests.waiting import until


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with Sink() as running:
        yield running


class Wire:
    """The transport end of a protocol under test: keeps what was written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def connected(recorder: Recorder) -> tuple[SinkProtocol, Wire]:
    protocol, wire = SinkProtocol(recorder), Wire()
    protocol.transport = wire  # type: ignore[assignment]
    return protocol, wire


def request(number: int, path: str = "/t/0") -> bytes:
    before, behind = request_around_id(path, "localhost")
    return before + make_id(1, number, 42) + behind


def test_the_id_carries_run_number_and_time() -> None:
    data = b'[{"id":"' + make_id(7, 123, 456_789) + b'"},{"id":"' + make_id(7, 124, 456_790) + b'"}]'
    assert read_ids(data, run_marker(7), 0, len(data)) == [(123, 456_789), (124, 456_790)]
    assert read_ids(data, run_marker(8), 0, len(data)) == []


@pytest.mark.parametrize("cut", [1, 20, 150, 400, -1])
def test_a_request_may_be_cut_anywhere(cut: int) -> None:
    recorder = Recorder()
    recorder.reset(1)
    protocol, wire = connected(recorder)
    whole = request(0)
    protocol.data_received(whole[:cut])
    assert wire.written == b""
    protocol.data_received(whole[cut:])
    assert wire.written == ANSWER
    assert recorder.count() == 1


def test_pipelined_requests_are_all_answered_and_told_apart_by_path() -> None:
    recorder = Recorder()
    recorder.reset(1)
    protocol, wire = connected(recorder)
    protocol.data_received(request(0) + request(1) + request(1, "/t/1") + request(2)[:50])
    assert wire.written == ANSWER * 3
    assert recorder.stats().distinct_per_lane == {"/t/0": 2, "/t/1": 1}


def test_chunked_bodies_end_where_they_end() -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
    assert message_end(head + body + b"POST") == len(head + body)
    assert all(message_end((head + body)[:cut]) == INCOMPLETE for cut in range(1, len(head + body)))
    with pytest.raises(Malformed):
        message_end(head + b"five\r\nhello\r\n")


def test_rubbish_closes_the_connection() -> None:
    protocol, wire = connected(Recorder())
    protocol.data_received(b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n")
    assert wire.closed


def test_the_open_loop_keeps_its_rate_and_loses_nothing(sink: Sink) -> None:
    sink.reset(2)
    load = run_load(LoadPlan(sink.url(3), run=2, seconds=0.5, rate=400, connections=4))
    stats = sink.stats()
    assert load.codes == {"202": 200}
    assert 350 < load.rate < 450
    assert (stats.distinct, stats.duplicates, stats.strays) == (200, 0, 0)
    assert stats.distinct_per_lane == {"/t/3": 200}


def test_the_closed_loop_stops_at_its_number(sink: Sink) -> None:
    sink.reset(3)
    load = run_load(LoadPlan(sink.url(0), run=3, seconds=10, events=1000, connections=8))
    assert (load.sent, load.acknowledged, sink.stats().distinct) == (1000, 1000, 1000)


def test_events_of_an_earlier_run_are_strays(sink: Sink) -> None:
    sink.reset(5)
    run_load(LoadPlan(sink.url(0), run=4, seconds=10, events=10, connections=2))
    assert (sink.stats().distinct, sink.stats().strays) == (0, 10)


def test_nobody_listening_is_a_clear_failure() -> None:
    with pytest.raises(ChildFailed, match="ConnectionRefused"):
        run_load(LoadPlan("http://127.0.0.1:9/", run=1, seconds=1))


def test_an_ordinary_service_sees_what_the_bare_sink_sees() -> None:
    with Sink("ordinary") as service:
        service.reset(3)
        load = run_load(LoadPlan(service.url(0), 3, 5.0, 0.0, 200, 4))
        stats = service.stats()
    assert (load.acknowledged, stats.distinct, stats.duplicates, stats.strays) == (200, 200, 0, 0)


def test_a_circle_sends_as_much_as_arrives(sink: Sink) -> None:
    """With one lane everything that arrives lets the next one go; with two, of which one gets nothing, half of it
    does, until nothing is allowed any more."""
    with Circle() as circle:
        circle.start(circle.url(0), run=1, lanes=1, under_way=5)
        until(lambda: circle.look().arrived > 1000, "it goes round and round")
    with Circle() as circle:
        circle.start(circle.url(0), run=1, lanes=2, under_way=8)
        until(lambda: circle.look().arrived == 15, "8 were allowed at first, 4 and 2 and 1 by what arrived")
        assert circle.look().refused == 0
    with Circle() as circle:
        sink.reset(1)
        circle.start(sink.url(0), run=1, lanes=1, under_way=5)
        until(lambda: sink.count() == 5, "all that is allowed is sent")
        assert (circle.look().arrived, sink.count()) == (0, 5)
