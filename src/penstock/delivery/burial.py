"""What was not delivered is recorded among the dead letters before it counts as finished. For ``deliver.py``."""

import time
from collections.abc import Callable

from penstock.contract.model import DEAD_LETTERS_TOPIC
from penstock.delivery.dead_letter import dead_letter
from penstock.delivery.lane import Attempt
from penstock.delivery.outbox import Outbox
from penstock.delivery.row import Row
from penstock.event.kafka import Record


def bury(outbox: Outbox, attempt: Attempt, outcome: str, finished: Callable[[Attempt], None]) -> None:
    """``finished`` is called once it is recorded, if need be without its data, or cannot be."""
    found = attempt.verdict
    assert found is not None
    lane, row = attempt.lane, attempt.rows[0]
    lane.say_outcome(outcome, attempt, found.reason)
    if lane.dress is not None:
        row = lane.dress.event(row)
    key, value = dead_letter(lane.subscription, lane.topic_id, row, found, outcome, time.time())

    def done(outcome: str, error: str | None = None) -> None:
        if attempt.trace is not None:
            attempt.trace.buried(outcome, error)
        finished(attempt)

    def stored(error: str | None) -> None:
        if error is not None:
            lane.complain("not in the record of dead letters:", row.offset, error, attempt.rows[0])
        done(outcome, error)

    def stored_whole(error: str | None) -> None:
        if error is None:
            done(outcome)
            return
        empty = Row(row.offset, row.matched, row.headers, b"")
        shortened = f"{outcome}, kept without its data"
        _, short = dead_letter(lane.subscription, lane.topic_id, empty, found, shortened, time.time())
        outbox.send(DEAD_LETTERS_TOPIC, [Record(key.encode(), short, [])], stored)

    outbox.send(DEAD_LETTERS_TOPIC, [Record(key.encode(), value, [])], stored_whole)
