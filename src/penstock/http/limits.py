"""What a port accepts at most."""

from dataclasses import dataclass

KILOBYTE = 1024
MEGABYTE = 1024 * KILOBYTE


@dataclass(frozen=True)
class Limits:
    """Of each connection, of each request, and of all together. Answers have no time limit."""

    connections: int = 512  # beyond it the one that has waited longest without a complete request is closed
    connections_per_address: int = 0  # beyond it 503; 0: no limit
    head_bytes: int = 32 * KILOBYTE  # request line and headers; beyond it 431
    headers: int = 100  # how many; beyond it 431
    body_bytes: int = MEGABYTE  # beyond it 413
    unfinished_bytes: int = 16 * MEGABYTE  # of all incomplete requests; beyond it the oldest is closed
    unread_bytes: int = 64 * MEGABYTE  # of all answers that are not read; beyond it the largest is dropped
    head_seconds: float = 10.0  # from the first byte to the end of the head; beyond it 408
    request_seconds: float = 60.0  # from the first byte to the end of the body; beyond it 408
    idle_seconds: float = 75.0  # without a request; beyond it the connection is closed
    unread_seconds: float = 30.0  # without a byte of a complete answer being read; beyond it the answer is dropped
