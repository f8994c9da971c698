"""Signals to processes that tests may end: never to a group of processes, nor to all of them."""

import os
import signal


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """To ``os.kill``, 0 and -1 are this group and every process; here they are the fault of a test."""
    assert pid > 1, f"{pid} is no process to send a signal to"
    os.kill(pid, number)
