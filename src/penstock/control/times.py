"""Points in time as people write them: ISO 8601 with a time zone."""

from datetime import datetime


def epoch_of(text: str | None) -> float:
    """Seconds since the epoch; 0 for none. Raises ValueError for what is no time, or has no time zone."""
    if text is None:
        return 0.0
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a time zone is missing; Z is UTC")
    return found.timestamp()
