"""How much memory deliveries may take at most, from the settings that bound it. Pure.

A worker serves one partition for all subscriptions of a topic. What it reads it keeps once, however many want it,
until the last of them is finished; so buffers grow with partitions, not with subscriptions. A subscriber that is slow
has workers of its own while it is.

    worker   = base + buffer + subscriptions × (bookkeeping + requests in flight)
    buffer   = unfinished events × size, and of data no more than the bound in bytes
    all      = partitions × (1 + slow subscriptions) × worker

In a take-over old and new workers are side by side, and Spark keeps idle ones for a minute: the base is doubled.
"""

from dataclasses import dataclass

MEGABYTE = 1024 * 1024
BASE_MEGABYTES = 34.0  # a worker that has begun, its share of what all workers share included
ROW_BYTES = 2_000  # of an unfinished event besides its data: header lines and what Python needs for them
OPEN_BYTES = 250  # an unfinished event in the books of one subscription
REQUEST_BYTES = 30_000  # a request in flight: libcurl's handle, its buffers, its connection


@dataclass(frozen=True)
class Bounds:
    """Of one worker; settings of the dispatcher."""

    window: int
    unfinished_rows: int
    unfinished_megabytes: int


@dataclass(frozen=True)
class Sizing:
    """In megabytes; of one topic."""

    workers: int
    buffers: float  # events' data
    besides: float  # what belongs to the events besides their data, and requests in flight
    base: float

    @property
    def total(self) -> float:
        return self.buffers + self.besides + self.base


def sizing(subscriptions: int, partitions: int, event_bytes: int, slow: int, bounds: Bounds) -> Sizing:
    """``slow``: how many of the subscriptions are slow at the same time."""
    workers = partitions * (1 + slow)
    rows = bounds.unfinished_rows
    data = min(rows * event_bytes / MEGABYTE, bounds.unfinished_megabytes + event_bytes / MEGABYTE)
    rows = min(rows, int(data * MEGABYTE / max(event_bytes, 1)) + 1)
    lanes = partitions * subscriptions + partitions * slow  # a query of its own has one lane for each partition
    besides = workers * rows * ROW_BYTES + lanes * (rows * OPEN_BYTES + bounds.window * REQUEST_BYTES)
    return Sizing(workers, workers * data, besides / MEGABYTE, 2 * workers * BASE_MEGABYTES)
