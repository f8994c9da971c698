"""The HTTP client: many POSTs at once over kept-alive connections, in one thread. The only file with libcurl.

``send`` begins a POST, ``run_once`` waits for sockets or for the next timer and finishes what has been
answered by calling back. Answers are capped, never decompressed, redirects never followed, and link-local
addresses (cloud metadata services) never connected to. Made after the fork, owned by one thread.

Timeouts are ours, looked at after the sockets, and count only the time in which somebody listens. libcurl looks at
its own first, and at the wall clock: a process that was stopped or had no processor for longer than the timeout would
throw away answers that have come meanwhile, or what it has only just sent, and send all of it again.
"""

import contextlib
import io
import select
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pycurl

from penstock.access.addresses import ALWAYS, AddressPolicy

BODY_CAP_BYTES = 1024 * 1024  # of an answer; what is longer is cut off and the connection closed
KEPT_BYTES = 1024  # of an answer: what goes into a dead letter; many are in flight at once
REPLIES_BYTES = 16 * 1024 * 1024  # of all answers that may be replies and are arriving now
CONNECT_TIMEOUT_MS = 5_000
IDLE_CONNECTIONS = 1024
PAUSE_SECONDS = 1.0  # between two looks: this process was stopped, or had no processor
BUSY_SECONDS = 0.1  # longest time between two looks at the sockets that counts as listening
SO_TIMESTAMPNS = 35  # Linux: the kernel notes when it received what is read; Python has no name for it
TIMESPEC = struct.Struct("@ll")
TIMESTAMP_BYTES = socket.CMSG_SPACE(TIMESPEC.size)
READ_EVENTS = select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP


class Answer(NamedTuple):
    """What came of a POST. Status 0: no answer, and ``error`` says why."""

    status: int
    body: bytes  # its beginning, or all of it where it may be a reply
    error: str
    retry_after_seconds: float
    head: bytes = b""  # the header lines, where there is something to look for in them
    is_cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Post:
    """What to send. ``headers`` are finished lines without line ends."""

    url: str
    headers: list[bytes]
    body: bytes
    timeout_seconds: float
    wants_reply: bool = False  # a successful answer is kept whole


Done = Callable[[Any, Answer], None]


class Client:
    """A pool of handles around one multi handle and one epoll set."""

    def __init__(
        self, done: Done, *, after_pause: Callable[[], None] = lambda: None, policy: AddressPolicy = ALWAYS
    ) -> None:
        self._done = done  # called with the tag given to send, and the answer
        self._after_pause = after_pause  # called before any answer, if the sockets were not read for long
        self._policy = policy
        self._idle: list[_Handle] = []
        self._unsendable: list[tuple[Any, Answer]] = []
        self._unsent: set[_Handle] = set()  # libcurl has not been called since they were added: nothing has left
        self._by_curl: dict[pycurl.Curl, _Handle] = {}
        self._deadline: float | None = None  # when libcurl wants to be called
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}  # socket: events the kernel watches for us
        self._wanted: dict[int, int] = {}  # socket: events libcurl wants now
        self._foreign: int | None = None  # a descriptor of somebody else's that is watched too
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, IDLE_CONNECTIONS)
        self._budget = _Budget(REPLIES_BYTES)
        # By timeout: what is in flight with it, and until when on our clock; the oldest first.
        self._due: dict[float, OrderedDict[_Handle, float]] = {}
        self._listened_seconds = 0.0  # our clock: it stands still while nobody listens
        self._listened_at = time.monotonic()
        self.in_flight = 0
        # Seconds since the epoch: since when what is called back now was there, though we were busy with others, or
        # had no processor. Only what failed at once may have begun later.
        self.heard_at = 0.0

    def send(self, post: Post, tag: Any) -> None:
        """Begins a POST. What libcurl cannot send at all is answered too, by the next ``run_once``."""
        handle = self._idle.pop() if self._idle else self._new_handle()
        self.in_flight += 1
        try:
            handle.prepare(post, tag)
        except (pycurl.error, ValueError, OverflowError, TypeError) as error:
            del self._by_curl[handle.curl]
            handle.curl.close()
            self._unsendable.append((tag, Answer(0, b"", f"cannot be sent: {error}", 0.0)))
            return
        self._multi.add_handle(handle.curl)
        self._unsent.add(handle)
        due = self._due.setdefault(post.timeout_seconds, OrderedDict())
        due[handle] = self._clock(time.monotonic()) + post.timeout_seconds

    def watch(self, fd: int | None) -> None:
        """Lets ``run_once`` end when this descriptor is readable as well; None for no descriptor."""
        if fd == self._foreign:
            return
        if self._foreign is not None:
            self._epoll.unregister(self._foreign)
        if fd is not None:
            self._epoll.register(fd, select.EPOLLIN)
        self._foreign = fd

    def run_once(self, longest_wait_seconds: float) -> bool:
        """Waits for sockets and timers and finishes what is answered; whether the watched descriptor is readable."""
        wait = self._wait_seconds(longest_wait_seconds)
        events = self._epoll.poll(wait)
        now, heard_at = time.monotonic(), time.time()
        ask_every = _stride(len(events), now - self._listened_at)
        if now - self._listened_at > PAUSE_SECONDS:
            self._after_pause()
        self._listened_seconds, self._listened_at = self._clock(now, wait), now
        is_readable = self._serve_sockets(events, heard_at, ask_every)
        self.heard_at = heard_at
        if self._deadline is not None and self._deadline <= time.monotonic():
            self._deadline = None
            self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._finish_answered()
        for handle in self._overdue():
            self._finish(handle.curl, f"timed out after {handle.timeout_seconds:g} s")
        unsendable, self._unsendable = self._unsendable, []
        for tag, answer in unsendable:
            self.in_flight -= 1
            self._done(tag, answer)
        return is_readable

    def _wait_seconds(self, longest: float) -> float:
        wait = 0.0 if self._unsendable else longest
        if self._deadline is not None:
            wait = min(wait, max(0.0, self._deadline - time.monotonic()))
        due = self._next_due()
        return wait if due is None else min(wait, max(0.0, due - self._clock(time.monotonic())))

    def _serve_sockets(self, events: list[tuple[int, int]], heard_at: float, ask_every: int) -> bool:
        """Whether the watched descriptor is among them."""
        is_readable, next_ask = False, 0
        self.heard_at = heard_at
        for number, (fd, event) in enumerate(events):
            if fd == self._foreign:
                is_readable = True
                continue
            if fd not in self._wanted:
                self._forget_socket(fd)  # an idle connection that the other side has closed
                continue
            if ask_every and number >= next_ask and event == select.EPOLLIN:  # to ask for an error would take it away
                next_ask = number + ask_every
                self._finish_answered()
                self.heard_at = min(heard_at, _received_at(fd) or heard_at)
            action = (pycurl.CSELECT_IN if event & READ_EVENTS else 0) | (
                pycurl.CSELECT_OUT if event & select.EPOLLOUT else 0
            )
            self._act(fd, action)
        self._finish_answered()
        return is_readable

    def _act(self, fd: int, action: int) -> None:
        """Calls libcurl. Whatever the reason for the call, it may also send requests that were added before."""
        self._unsent.clear()
        self._multi.socket_action(fd, action)

    def abandon_unsent(self) -> list[Any]:
        """Drops what was begun and has not left yet, and returns its tags; they get no callback."""
        unsent, self._unsent = self._unsent, set()
        return self._drop(unsent, lambda _: True)

    def abandon(self, is_meant: Callable[[Any], bool]) -> list[Any]:
        """Drops what is in flight for these tags, and returns them; they get no callback."""
        return self._drop(self._by_curl.values(), is_meant)

    def _drop(self, handles: Iterable["_Handle"], is_meant: Callable[[Any], bool]) -> list[Any]:
        dropped = []
        for handle in list(handles):
            if handle.tag is None or not is_meant(handle.tag):
                continue
            dropped.append(handle.tag)
            del self._due[handle.timeout_seconds][handle]
            self.in_flight -= 1
            self._unsent.discard(handle)
            del self._by_curl[handle.curl]
            with contextlib.suppress(pycurl.error):
                self._multi.remove_handle(handle.curl)
            handle.answer("abandoned")  # gives back what it holds
            handle.curl.close()
        return dropped

    def close(self) -> None:
        """Drops everything; what is in flight gets no callback."""
        for handle in list(self._by_curl.values()):
            with contextlib.suppress(pycurl.error):
                self._multi.remove_handle(handle.curl)
            handle.curl.close()
        self._by_curl.clear()
        self._multi.close()
        self._epoll.close()

    def _finish_answered(self) -> None:
        while True:
            queued, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._finish(curl, "")
            for curl, _code, message in failed:
                self._finish(curl, message or "the connection failed")
            if not queued:
                return

    def _finish(self, curl: pycurl.Curl, error: str) -> None:
        handle = self._by_curl[curl]
        self._multi.remove_handle(curl)
        del self._due[handle.timeout_seconds][handle]
        self._unsent.discard(handle)
        self.in_flight -= 1
        answer = handle.answer(error)
        tag, handle.tag = handle.tag, None
        self._idle.append(handle)
        self._done(tag, answer)

    def _clock(self, now: float, waited_seconds: float = 0.0) -> float:
        """Seconds in which somebody listened, or was about to again."""
        passed = now - self._listened_at
        return self._listened_seconds + min(passed, waited_seconds + BUSY_SECONDS)

    def _next_due(self) -> float | None:
        """When the first of what is in flight has had its time."""
        return min((next(iter(due.values())) for due in self._due.values() if due), default=None)

    def _overdue(self) -> "list[_Handle]":
        now, found = self._listened_seconds, []
        for due in self._due.values():
            for handle, at in due.items():
                if at > now:
                    break
                found.append(handle)
        return found

    def _new_handle(self) -> "_Handle":
        handle = _Handle(self._open_socket, self._note_new_socket, self._budget)
        self._by_curl[handle.curl] = handle
        return handle

    def _watch_socket(self, what: int, fd: int, _multi: Any, _data: Any) -> None:
        """libcurl says which sockets it cares for.

        It lets go of a socket after every answer and wants it back with the next request. The kernel keeps
        watching meanwhile, which saves three calls a request.
        """
        if what == pycurl.POLL_REMOVE:
            self._wanted.pop(fd, None)
            return
        events = (select.EPOLLIN if what & pycurl.POLL_IN else 0) | (select.EPOLLOUT if what & pycurl.POLL_OUT else 0)
        self._wanted[fd] = events
        watched = self._watched.get(fd)
        if watched == events:
            return
        if watched is None:
            self._epoll.register(fd, events)
        else:
            self._epoll.modify(fd, events)
        self._watched[fd] = events

    def _forget_socket(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def _open_socket(self, _purpose: int, address: Any) -> socket.socket | int:
        """libcurl resolved a name and is about to connect: the last moment to refuse an address."""
        family, kind, protocol, where = address
        if family in (socket.AF_INET, socket.AF_INET6) and not self._may_reach(where[0]):
            return int(pycurl.SOCKET_BAD)
        opened = socket.socket(family, kind, protocol)
        with contextlib.suppress(OSError):  # where it cannot be had, an answer comes when we get to it
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return opened

    def _may_reach(self, address: str) -> bool:
        return not self._policy.refusal(address)

    def _note_new_socket(self, fd: int, _purpose: int) -> int:
        """The kernel forgets a closed socket by itself; what we know of its number ends when it is used again."""
        self._watched.pop(fd, None)
        return int(pycurl.SOCKOPT_OK)

    def _set_timer(self, timeout_ms: int) -> None:
        self._deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000.0


def _stride(answers: int, away_seconds: float) -> int:
    """Of how many answers one is asked when it came; the others are taken to have come with it. 0: none is, since
    nothing can have waited for long.

    One for each millisecond since the last look takes a three-hundredth of that time at most. A single answer may be
    off by as long as we were away; for many of them it comes out right."""
    return answers // int(away_seconds * 1000) + 1 if away_seconds >= 0.001 else 0


def _received_at(fd: int) -> float:
    """When the kernel received what is read next from a socket, in seconds since the epoch; 0: nobody knows."""
    try:
        view = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, fd)
    except OSError:
        return 0.0  # no socket, but libcurl's own: a name has been looked up
    try:
        _, told, _, _ = view.recvmsg(1, TIMESTAMP_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return 0.0
    finally:
        view.detach()  # it is libcurl's
    for _, kind, stamp in told:
        if kind == SO_TIMESTAMPNS and len(stamp) == TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack(stamp)
            return float(seconds + nanoseconds / 1e9)
    return 0.0


class _Budget:
    """Bytes that all handles may hold together."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class _Handle:
    """One curl handle, set up once and reused for POST after POST."""

    def __init__(
        self, open_socket: Callable[[int, Any], Any], note_new_socket: Callable[[int, int], int], budget: _Budget
    ) -> None:
        self.tag: Any = None
        self.timeout_seconds = 0.0
        self._head = io.BytesIO()
        self._body = bytearray()  # the beginning of the answer, or all of it
        self._answer_bytes = 0
        self._kept_bytes = 0  # how much of this answer is to be kept
        self._wants_reply = False
        self._budget = budget
        self._is_cut_off = False
        self._url = ""
        curl = self.curl = pycurl.Curl()
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.TCP_NODELAY, 1)
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS)
        curl.setopt(pycurl.USERAGENT, "penstock")
        curl.setopt(pycurl.WRITEHEADER, self._head)  # libcurl bounds it
        curl.setopt(pycurl.WRITEFUNCTION, self._take_body)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, open_socket)
        curl.setopt(pycurl.SOCKOPTFUNCTION, note_new_socket)

    def prepare(self, post: Post, tag: Any) -> None:
        self.tag = tag
        self.timeout_seconds = post.timeout_seconds
        self._wants_reply = post.wants_reply
        curl = self.curl
        if post.url != self._url:
            curl.setopt(pycurl.URL, post.url)
            self._url = post.url
        curl.setopt(pycurl.HTTPHEADER, post.headers)
        curl.setopt(pycurl.POSTFIELDS, post.body)

    def answer(self, error: str) -> Answer:
        """What came; the handle is ready for the next one after this."""
        # A cut-off answer is libcurl's write error, but the status had come and counts.
        status = 0 if error and not self._is_cut_off else int(self.curl.getinfo(pycurl.RESPONSE_CODE))
        retry_after = float(self.curl.getinfo(pycurl.RETRY_AFTER)) if status in (429, 503) else 0.0
        is_plain = 200 <= status < 300 and not self._body and not self._is_cut_off
        head = b"" if is_plain else self._head.getvalue()
        answer = Answer(status, bytes(self._body), error, retry_after, head, self._is_cut_off)
        self._head.seek(0)
        self._head.truncate()
        if self._answer_bytes:
            if self._kept_bytes == BODY_CAP_BYTES:
                self._budget.left += len(self._body)
            self._body.clear()
            self._answer_bytes = 0
            self._is_cut_off = False
        return answer

    def _take_body(self, chunk: bytes) -> int:
        if not self._answer_bytes:
            may_be_reply = self._wants_reply and is_reply_status(status_of(self._head.getvalue()))
            self._kept_bytes = BODY_CAP_BYTES if may_be_reply else KEPT_BYTES
        self._answer_bytes += len(chunk)
        kept = chunk[: max(0, self._kept_bytes - len(self._body))]
        if self._kept_bytes == BODY_CAP_BYTES:
            if len(kept) > self._budget.left:
                self._is_cut_off = True
                return -1
            self._budget.left -= len(kept)
        self._body += kept
        self._is_cut_off = self._answer_bytes > BODY_CAP_BYTES
        return -1 if self._is_cut_off else len(chunk)


def status_of(head: bytes) -> int:
    """The status in the header lines that have come; of interim answers the last. libcurl cannot be asked yet."""
    line = head[head.rfind(b"\r\n\r\nHTTP/") + 4 if b"\r\n\r\nHTTP/" in head else 0 :][:20].split(b" ")
    return int(line[1][:3]) if len(line) > 1 and line[1][:3].isdigit() else 0


def is_reply_status(status: int) -> bool:
    """Accepted (202) means that there is no answer yet, whatever comes with it."""
    return 200 <= status < 300 and status != 202
