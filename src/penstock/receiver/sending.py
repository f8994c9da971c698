"""The half of a connection that sends: answers in the order of the requests, as fast as the sender reads them.

    path ──▶ slot ──▶ send_answers ──▶ transport        _stop ──▶ nothing is read, site.backlog counts what is held

Backpressure: while a sender does not read its answers, or has too many requests without an answer, its socket is not
read, and what was already read is not parsed. Extended by ``connection.py``, which reads.
"""

import asyncio
from collections import deque

from penstock.receiver.answers import Answer
from penstock.receiver.inflight import SLOT_BYTES
from penstock.receiver.site import Site

MOST_PIPELINED = 32  # requests without an answer; beyond it the rest of a read waits
UNREAD_BYTES = 16 * 1024  # of answers that the sender does not read; beyond it nothing more is sent or parsed
LINGER_SECONDS = 2.0


class Slot:
    """The place of one answer in the order of a connection's answers."""

    __slots__ = ("answer", "closes", "connection", "held_bytes", "without_body")

    def __init__(self, connection: "Sender", held_bytes: int, closes: bool, without_body: bool) -> None:
        self.connection = connection
        self.held_bytes = held_bytes
        self.closes = closes
        self.without_body = without_body
        self.answer: Answer | None = None

    def fill(self, answer: Answer) -> None:
        """The reply of the path: at any time, also when the sender has gone. Only the first one counts."""
        if self.answer is not None:
            return
        self.answer = answer
        self.connection.site.inflight.bytes -= self.held_bytes
        self.connection.send_answers()


class Sender(asyncio.Protocol):
    def __init__(self, site: Site) -> None:
        self.site = site
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._slots: deque[Slot] = deque()
        self._lingering = False
        self._paused = False  # nothing is read from the socket
        self._is_unread = False  # the sender does not read its answers
        self._is_parsing = False
        self._rest = b""  # what is not parsed yet of a read
        self._close_when_answered = False
        self._touched = self._loop.time()

    def send_answers(self) -> None:
        """Sends what is answered, up to the first request that is not, and while the sender reads it."""
        slots, transport = self._slots, self.transport
        while slots and slots[0].answer is not None and not self._is_unread:
            slot = slots.popleft()
            answer = slot.answer
            if transport is None or answer is None:
                continue
            self._touched = self._loop.time()
            closes = slot.closes or self.site.is_draining
            if slot.without_body:
                transport.write(answer.encoded(close=closes, without_body=True))
            else:
                transport.write(answer.closing if closes else answer.open)
            if closes:
                self._close_when_answered = True
                slots.clear()
        if self._close_when_answered and not slots and transport is not None:
            self._linger()
        elif self._paused and len(slots) <= MOST_PIPELINED // 2:
            self._go_on()

    def pause_writing(self) -> None:
        """A sender that does not read its answers gets no further ones."""
        self._is_unread = True
        if not self._is_parsing:
            self._stop()

    def resume_writing(self) -> None:
        self._is_unread = False
        self.send_answers()

    @property
    def _is_blocked(self) -> bool:
        """Whether there is no room for further answers."""
        return self._is_unread or len(self._slots) > MOST_PIPELINED

    def _stop(self) -> None:
        """Reads nothing for now. Reports how much is held, since the sender decides for how long."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if not self._paused:
            self._paused = True
            transport.pause_reading()
        unread = transport.get_write_buffer_size()
        self.site.backlog.hold(self, unread + len(self._rest) + SLOT_BYTES * len(self._slots))

    def _read_again(self) -> None:
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            self.site.backlog.release(self)
            self.transport.resume_reading()

    def _go_on(self) -> None:
        """There may be room again: for what is kept of a read, then for the socket."""
        raise NotImplementedError

    def _linger(self) -> None:
        """Closes so that the answer arrives: a socket closed with unread bytes resets the connection instead."""
        self._lingering = True
        self._rest = b""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        self._read_again()  # and throws away what comes
        self._loop.call_later(LINGER_SECONDS, transport.abort)

    @property
    def waits_since(self) -> float | None:
        """Since when we wait for the sender; None: the sender waits for our answer."""
        return None if self._slots and not self._has_unread_answers else self._touched

    @property
    def _has_unread_answers(self) -> bool:
        return bool(self._slots) and self._slots[0].answer is not None

    def abort(self) -> None:
        """Closes at once, without an answer."""
        self._lingering = True
        if self.transport is not None:
            self.transport.abort()
