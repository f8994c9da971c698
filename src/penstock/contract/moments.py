"""Times that others wrote: limited to what a date can show, so that none of them makes a search or a list fail.

Used wherever the time of a record, of a dead letter or of a search is read or shown. Pure.
"""

from datetime import UTC, datetime

LATEST_SECONDS = 253_402_300_799  # since the epoch: the last second of the year 9999
LONGEST_STAMP = 17  # digits of microseconds: until the year 5138


def is_moment(seconds: float) -> bool:
    """Whether a date can show this time. False for NaN."""
    return 0 <= seconds <= LATEST_SECONDS


def received_us(stamp: bytes | None, record_ms: int) -> int:
    """When the receiver got an event (microseconds since the epoch): the header that it wrote, else Kafka's time.

    Any sender may write the header, and any producer the time of a record.
    """
    if stamp and len(stamp) <= LONGEST_STAMP and stamp.isdigit():
        return int(stamp)
    return min(max(record_ms, 0), LATEST_SECONDS * 1000) * 1000


def iso(seconds: float) -> str:
    """With milliseconds, in UTC. A time that no date can show becomes the nearest one that a date can."""
    shown = min(max(seconds, 0.0), LATEST_SECONDS)
    return datetime.fromtimestamp(shown, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
