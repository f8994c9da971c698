"""ISO 8601 durations, as ``delivery`` writes them: PT0.2S, PT5M, P1D."""

import re

_FORM = re.compile(
    r"P(?:(?P<weeks>\d+(?:\.\d+)?)W)?(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?\Z",
    re.ASCII,
)
_SECONDS = {"weeks": 7 * 86400, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def seconds_of(text: str) -> float:
    """The length in seconds; ValueError for anything else, and for years and months, which have no fixed length."""
    found = _FORM.match(text)
    if found is None or text.endswith("T") or not any(found.groupdict().values()):
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit] for unit, number in found.groupdict().items() if number)
