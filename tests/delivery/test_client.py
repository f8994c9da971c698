"""Promises of the HTTP client: connections are kept, dead ones are noticed, and nothing is left behind."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

import pytest

from penstock.delivery.client import PAUSE_SECONDS, Answer, Client, Post, _stride, status_of
from tests.sink import Answer as Held
from tests.sink import Sink
from tests.waiting import until


def post_all(client: Client, url: str, count: int, answers: list[Answer]) -> None:
    """Sends this many at once and runs the client until all are answered."""
    goal = len(answers) + count
    for _ in range(count):
        client.send(Post(url, [b"ce-id:1"], b"{}", 5.0), None)
    deadline = time.monotonic() + 60.0
    while len(answers) < goal:
        assert time.monotonic() < deadline
        client.run_once(0.1)


def answer_to(url: str, headers: Sequence[bytes] = (b"ce-id:1",), *, wants_reply: bool = False) -> Answer:
    """What comes of a single POST."""
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    client.send(Post(url, [*headers], b"{}", 5.0, wants_reply), None)
    while not answers:
        client.run_once(1.0)
    client.close()
    return answers[0]


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """The address of a server that gives exactly these bytes to every request, and closes the connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                received = b""
                while b"\r\n\r\n{}" not in received and (chunk := connection.recv(65536)):
                    received += chunk
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    finally:
        server.close()


def open_sockets() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += "socket:" in os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return found


def test_closing_leaves_no_socket_behind(sink: Callable[[], Sink]) -> None:
    """Kept promise: a worker that is used again does not collect sockets of former tasks."""
    subscriber = sink()
    before = None
    for _ in range(3):
        answers: list[Answer] = []
        client = Client(lambda _, answer: answers.append(answer))  # noqa: B023 - used up within the round
        post_all(client, subscriber.url, 20, answers)
        client.close()
        subscriber.forget()
        if before is None:
            before = open_sockets()
    assert before is not None
    assert open_sockets() <= before + 20  # the sink's side may still be closing its ends


def test_a_connection_closed_by_the_other_side_is_replaced() -> None:
    """Kept promise: a subscriber that closes every connection after its answer gets every event all the same."""
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as url:
        for _ in range(30):
            post_all(client, url, 1, answers)
            client.run_once(0.01)  # sees the closed connection, or does not: both must work
    client.close()
    assert [answer.status for answer in answers] == [200] * 30


def test_an_answer_that_breaks_off_is_none() -> None:
    """Kept promise: a 200 whose body does not come whole is a failed attempt, since its reply may be lost."""
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") as url:
        answer = answer_to(url)
    assert answer.status == 0
    assert answer.error


def test_hints_before_the_answer_are_not_the_answer() -> None:
    """Kept promise: the status that counts is the final one, and the reply behind it is kept whole."""
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    assert status_of(hints) == 103
    assert status_of(hints + b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n") == 200
    with saying(hints + b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000) as url:
        answer = answer_to(url, wants_reply=True)
    assert (answer.status, len(answer.body)) == (200, 5000)


IN_A_WHILE = "a date"


@pytest.mark.scenario(17)
@pytest.mark.parametrize(
    ("status", "asked", "seconds"),
    [
        (429, "7", 7),
        (503, "7", 7),
        (503, IN_A_WHILE, 100),
        (503, "soon", 0),
        (503, "", 0),
        (500, "7", 0),
        (404, "7", 0),
    ],
)
def test_retry_after_is_read_and_forgotten(sink: Callable[[], Sink], status: int, asked: str, seconds: float) -> None:
    """Kept promise: seconds or a date, with 429 and 503 only, and never what an earlier answer said."""
    subscriber = sink()
    value = formatdate(time.time() + 100, usegmt=True) if asked == IN_A_WHILE else asked
    subscriber.answer("/asks", status=status, headers={"Retry-After": value})
    subscriber.answer("/does-not", status=503)
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    for path in ("/asks", "/does-not"):  # one after the other: with the same handle
        post_all(client, subscriber.url + path, 1, answers)
    client.close()
    first, second = answers
    assert (first.status, second.status) == (status, 503)
    assert first.retry_after_seconds == pytest.approx(seconds, abs=3.0 if asked == IN_A_WHILE else 0.0)
    assert second.retry_after_seconds == 0.0


def test_a_subscriber_that_dies_in_full_flow_is_found_again() -> None:
    """Kept promise: sockets that break and whose numbers are used again never confuse the client."""
    server = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = server.getsockname()[1]
    behaviour = ["close"]

    def serve(connection: socket.socket) -> None:
        with connection:
            while True:
                received = b""
                while b"\r\n\r\n{}" not in received:
                    chunk = connection.recv(65536)
                    if not chunk or behaviour[0] == "close":
                        return
                    received += chunk
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    url = f"http://127.0.0.1:{port}/"
    for round_number in range(6):
        behaviour[0] = "close" if round_number % 2 == 0 else "answer"
        post_all(client, url, 50, answers)
    client.close()
    server.close()
    assert [answer.status for answer in answers[50:100]] == [200] * 50
    assert [answer.status for answer in answers[250:]] == [200] * 50


def test_no_content_type_is_invented(sink: Callable[[], Sink]) -> None:
    """Kept promise: an event without a content type arrives without one."""
    subscriber = sink()
    answer_to(subscriber.url, headers=[b"ce-id:1", b"Content-Type:"])
    assert "content-type" not in subscriber.requests[0].headers


def stand_still(seconds: float) -> None:
    """Longer than the timeout: nobody calls the client."""
    over_at = time.monotonic() + seconds
    until(lambda: time.monotonic() > over_at, "it goes on")


class Pauses:
    """A client, and the requests that it takes back after the pause of a test. A busy machine may pause it again."""

    def __init__(self) -> None:
        self.client = Client(lambda tag, _: self.answered.append(tag), after_pause=self._take_back)
        self.answered: list[Any] = []
        self.left: list[Any] = []
        self._is_meant = False

    def pause(self) -> None:
        """The process stands still, and looks at its sockets again."""
        stand_still(PAUSE_SECONDS + 0.2)
        self._is_meant = True
        self.client.run_once(0.05)
        self._is_meant = False

    def _take_back(self) -> None:
        if self._is_meant:
            self.left += self.client.abandon_unsent()


def test_what_had_not_left_when_the_process_was_stopped_can_be_taken_back(sink: Callable[[], Sink]) -> None:
    """Kept promise: a worker that was frozen and replaced sends no request that its last round only prepared."""
    subscriber, pauses = sink(), Pauses()
    client, answers = pauses.client, pauses.answered
    client.send(Post(subscriber.url + "/there", [b"ce-id:0"], b"{}", 5.0), 0)
    while not answers:
        client.run_once(1.0)
    for tag in range(1, 4):  # one over the existing connection, the others over new ones
        client.send(Post(subscriber.url + "/late", [b"ce-id:%d" % tag], b"{}", 5.0), tag)
    pauses.pause()
    assert sorted(pauses.left) == [1, 2, 3]
    assert client.in_flight == 0
    client.send(Post(subscriber.url + "/there", [b"ce-id:4"], b"{}", 5.0), 4)
    while answers != [0, 4]:
        client.run_once(1.0)
    assert subscriber.count("/late") == 0
    client.close()


def test_what_has_left_before_the_process_was_stopped_is_not_taken_back(sink: Callable[[], Sink]) -> None:
    """Kept promise: a request that libcurl sent while it served another socket counts as sent; its answer counts."""
    subscriber, pauses = sink(), Pauses()
    client, answers = pauses.client, pauses.answered
    subscriber.answer("/slow", delay_seconds=2.0)

    def send(path: str, tag: str) -> None:
        client.send(Post(subscriber.url + path, [b"ce-id:%s" % tag.encode()], b"{}", 20.0), tag)

    for each in ("a", "b", "c"):  # several open connections
        send("/quick", each)
    while len(answers) < 3:
        client.run_once(1.0)
    client.run_once(0.05)  # libcurl's timers have run
    send("/quick", "d")
    client.run_once(0.0)  # it leaves,
    subscriber.wait_for(4, "/quick")
    stand_still(0.05)  # and its answer waits in the socket
    send("/slow", "slow")
    while not subscriber.count("/slow"):
        client.run_once(0.05)
    pauses.pause()
    assert not pauses.left
    while "slow" not in answers:
        client.run_once(1.0)
    client.close()


def test_what_is_sent_after_the_process_stood_still_has_all_its_time(sink: Callable[[], Sink]) -> None:
    """Kept promise: begun, then stopped for longer than the timeout, then sent: it is not cut off at once."""
    subscriber = sink()
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    for connections in ("new", "there"):
        for _ in range(4):
            client.send(Post(subscriber.url + "/a", [b"ce-id:1"], b"{}", 2.0), connections)
        stand_still(2.5)
        until(lambda: client.run_once(0.01) or client.in_flight == 0, "all are finished")
    assert [each.status for each in answers] == [200] * 8
    assert subscriber.count("/a") == 8
    client.close()


def test_an_answer_that_came_while_the_process_stood_still_counts(sink: Callable[[], Sink]) -> None:
    """Kept promise: who was stopped or starved for longer than the timeout sends nothing again that is answered."""
    subscriber = sink()
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    post_all(client, subscriber.url + "/a", 5, answers)  # the connections are there
    held, released = threading.Event(), threading.Event()
    subscriber.answer("/hangs", with_=lambda _: Held(after=held))
    subscriber.answer("/a", with_=lambda _: Held(after=released))
    client.send(Post(subscriber.url + "/hangs", [b"ce-id:1"], b"{}", 2.0), None)
    for _ in range(4):
        client.send(Post(subscriber.url + "/a", [b"ce-id:1"], b"{}", 2.0), None)

    def all_came() -> bool:
        client.run_once(0.0)
        return (subscriber.count("/hangs"), subscriber.count("/a")) == (1, 9)

    until(all_came, "all are on their way")
    assert len(answers) == 5
    released.set()  # they are answered while nobody calls the client
    stand_still(2.5)
    until(lambda: client.run_once(0.01) or len(answers) == 10, "all are finished")
    held.set()
    assert [each.status for each in answers[5:]] == [200] * 4 + [0]
    assert answers[-1].error == "timed out after 2 s"
    assert subscriber.count("/a") == 9
    client.close()


def test_an_answer_came_when_the_kernel_had_it(sink: Callable[[], Sink]) -> None:
    """Kept promise: a subscriber is not said to be slow because the worker was busy, or had no processor."""
    subscriber = sink()
    delays = {"/soon": 1.0, "/later": 1.5}
    heard: dict[str, float] = {}
    client = Client(lambda path, _: heard.update({path: client.heard_at}))
    for path, seconds in delays.items():
        subscriber.answer(path, delay_seconds=seconds)
        client.send(Post(subscriber.url + path, [b"ce-id:1"], b"{}", 5.0), path)
    until(lambda: client.run_once(0.0) or all(map(subscriber.count, delays)), "both are on their way")
    assert not heard
    stand_still(4.0)
    until(lambda: client.run_once(0.01) or len(heard) == 2, "both are finished")
    late = {path: heard[path] - subscriber.answered[path] for path in delays}
    assert all(-0.02 < seconds < 1.0 for seconds in late.values()), late  # when it was looked: after 2.5 s and more
    client.close()


def test_a_name_that_has_to_be_looked_up_is_answered_too() -> None:
    """Kept promise: libcurl looks names up in a thread, whose sign is no socket and cannot be asked for times."""
    assert answer_to(f"http://{socket.gethostname()}:9/").error


def test_a_reset_is_not_taken_away_from_libcurl() -> None:
    """Kept promise: an answer without a length, cut off by a reset, is not taken for a whole one."""
    server = socket.create_server(("127.0.0.1", 0))
    answers: list[Answer] = []
    client = Client(lambda _, answer: answers.append(answer))
    client.send(Post(f"http://127.0.0.1:{server.getsockname()[1]}/", [b"ce-id:1"], b"{}", 5.0, True), None)
    server.settimeout(0.0)
    accepted: list[socket.socket] = []

    def is_connected() -> bool:
        client.run_once(0.0)
        with contextlib.suppress(BlockingIOError):
            accepted.append(server.accept()[0])
        return bool(accepted)

    def is_asked() -> bool:
        client.run_once(0.0)
        with contextlib.suppress(BlockingIOError):
            return bool(accepted[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return False

    until(is_connected, "it is connected")
    until(is_asked, "the request is there")
    accepted[0].sendall(b"HTTP/1.1 200 -\r\n\r\n{")
    client.run_once(1.0)  # its beginning has come
    accepted[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted[0].close()
    stand_still(0.05)
    until(lambda: client.run_once(0.01) or answers, "it is finished")
    assert answers[0].error
    client.close()
    server.close()


def test_few_answers_are_asked_when_they_came() -> None:
    """Kept promise: not more than one for each millisecond in which nobody looked."""
    assert [_stride(answers, 0.0009) for answers in (1, 500)] == [0, 0]
    for answers, milliseconds in ((1, 1), (7, 1), (100, 10), (500, 40), (10, 500)):
        stride = _stride(answers, milliseconds / 1000 + 1e-6)
        assert 1 <= -(-answers // stride) <= milliseconds
