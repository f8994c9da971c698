"""A metronome for open-loop load: the kernel's timer as a readable file.

uvloop's own timers have a grain of a millisecond, which would be most of what there is to measure. A Linux timerfd
on CLOCK_MONOTONIC beats at absolute times, so nothing drifts, and late beats are made up for by whoever reads it,
since what is due follows from the clock and not from the number of wake-ups.
"""

import contextlib
import ctypes
import os

CLOCK_MONOTONIC = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_TIMER_ABSTIME = 1
NANOSECONDS = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("first", _Timespec))


class Metronome:
    """Readable from ``start_ns`` on, once every ``interval_ns``. Call ``beat`` to make it unreadable again."""

    def __init__(self, start_ns: int, interval_ns: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        spec = _Itimerspec(_timespec(interval_ns), _timespec(start_ns))
        if libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def beat(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)


def _timespec(nanoseconds: int) -> _Timespec:
    return _Timespec(nanoseconds // NANOSECONDS, nanoseconds % NANOSECONDS)
