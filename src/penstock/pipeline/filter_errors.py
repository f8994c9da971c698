"""Filters that could not be evaluated: counted by subscription and error, told once a second, logged now and then.

The JVM says with every row at which places an expression failed (``filter.matching``). Whoever reads the rows only
counts these texts; they are taken apart when it is time to tell.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence

from penstock.contract.model import Subscription
from penstock.contract.telemetry import Telemetry
from penstock.delivery.identity import fields_of
from penstock.delivery.row import Row
from penstock.filter.cesql_values import ERRORS, FIRST_ERROR
from penstock.pipeline.handover import NO_ERRORS
from penstock.telemetry.logs import about

logger = logging.getLogger("penstock.worker")

TELL_SECONDS = 1.0
SAMPLE_SECONDS = 60.0  # of one subscription and one kind of error
MOST_TEXTS = 10_000  # different ones that are kept


class FilterErrors:
    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = subscriptions
        self._counts: Counter[bytes] = Counter()
        self._samples: dict[bytes, tuple[int, Row]] = {}  # partition and event
        self._totals: dict[str, Counter[str]] = {}
        self._tell_due = 0.0
        self._logged: dict[tuple[str, str], float] = {}  # when, by uid and error

    def note(self, errors: bytes, partition: int, row: Row) -> None:
        self._counts[errors] += 1
        if self._counts[errors] == 1:
            self._samples[errors] = partition, row
            if len(self._counts) >= MOST_TEXTS:
                self._sum_up()

    def to_tell(self, *, at_once: bool = False) -> Telemetry | None:
        """What was noted since the last time, at most once a second."""
        if not (self._counts or self._totals) or (time.monotonic() < self._tell_due and not at_once):
            return None
        self._tell_due = time.monotonic() + TELL_SECONDS
        self._sum_up()
        told = Telemetry(filter_errors={uid: dict(counts) for uid, counts in self._totals.items()})
        self._totals.clear()
        return told

    def _sum_up(self) -> None:
        for text, count in self._counts.items():
            for place, error in errors_by_place(text).items():
                subscription = self._subscriptions[place]
                self._totals.setdefault(subscription.uid, Counter())[error] += count
                self._log(subscription, error, *self._samples[text])
        self._counts.clear()
        self._samples.clear()

    def _log(self, subscription: Subscription, error: str, partition: int, row: Row) -> None:
        now = time.monotonic()
        key = (subscription.uid, error)
        if key not in self._logged or now >= self._logged[key] + SAMPLE_SECONDS:
            self._logged[key] = now
            known = row if row.headers else None  # the headers of what nobody wants do not come here
            logger.warning(
                "the filter of %s %s/%s could not be evaluated (%s) for the event at %s/%d offset %d",
                subscription.kind.lower(),
                subscription.namespace,
                subscription.name,
                error,
                subscription.topic,
                partition,
                row.offset,
                extra=about(**{"partition": partition} | fields_of(subscription, row.offset, known)),
            )


def errors_by_place(text: bytes) -> dict[int, str]:
    """What stands in a row: the name of the error at each place that had one."""
    found: dict[int, str] = {}
    for part in text.decode().split(",") if text != NO_ERRORS else ():
        places, _, number = part.partition(":")
        found |= dict.fromkeys(map(int, places.split("+")), ERRORS[int(number) - FIRST_ERROR])
    return found
