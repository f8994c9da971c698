"""Points in time as people write them: ISO 8601 with a time zone."""

from datetime import datetime

from penstock.contract.moments import is_moment


def epoch_of(text: str | None) -> float:
    """Seconds since the epoch; 0 for none.

    Raises ValueError for text that is not a time, has no time zone, or is not between the years 1970 and 9999.
    """
    if text is None:
        return 0.0
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a time zone is missing; Z is UTC")
    if not is_moment(found.timestamp()):
        raise ValueError("it is not between the years 1970 and 9999")
    return found.timestamp()
