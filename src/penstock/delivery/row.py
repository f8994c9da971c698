"""A row: one event as Spark hands it over, with the lanes that want it. Made by ``pipeline``, kept until all
its deliveries are finished."""

from collections.abc import Sequence


class Row:
    """Mutable only in ``unfinished``; plain slots, since one is made per event."""

    __slots__ = ("body", "headers", "matched", "offset", "unfinished")

    def __init__(self, offset: int, matched: Sequence[int], headers: list[bytes], body: bytes) -> None:
        self.offset = offset
        self.matched = matched  # places of subscriptions in the query's list
        self.headers = headers  # finished HTTP header lines, the same for every subscriber
        self.body = body
        self.unfinished = 0  # deliveries that still hold the row
