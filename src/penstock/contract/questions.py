"""What the controller asks of the dispatcher, over HTTP, because only that has a Spark session.

``Search`` is the body of ``POST /search``, ``Verdicts`` that of ``POST /verdicts``. A topic is named
by its place (``place_of``); the dispatcher takes its cluster and credentials only from the contract. The dispatcher
writes a new token into a file when it starts; every question carries it.
"""

from pathlib import Path
from typing import Any

import msgspec

from penstock.contract.moments import is_moment
from penstock.errors import Rejected

MOST_ROWS = 1000
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)  # what msgspec raises for invalid bytes


class Search(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which events. What is empty does not matter; all that is said must hold."""

    topics: tuple[str, ...]  # the place of each
    id: str = ""
    source: str = ""
    type: str = ""  # * stands for any text
    subject: str = ""
    since: float = 0.0  # seconds since the epoch, by the time that Kafka has kept
    until: float = 0.0
    text: str = ""  # anywhere in data or attributes, in upper or lower case
    latest: int = 50  # how many events, the newest
    whole: bool = False  # go on when there are as many: whoever wants all of an id does not know how many there are

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            seconds = getattr(self, name)
            if not is_moment(seconds):
                raise Rejected(f"{name} is {seconds:g}; it is a time between the years 1970 and 9999")


class Verdicts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which of the events match which of the filters, and why."""

    filters: tuple[tuple[dict[str, Any], ...], ...]  # of each subscription, as the contract has them
    events: tuple[msgspec.Raw, ...]  # in CloudEvents' JSON form
    reasons: bool = True  # else only whether they match, which is less work


_search_decoder = msgspec.json.Decoder(Search)
_verdicts_decoder = msgspec.json.Decoder(Verdicts)
_encoder = msgspec.json.Encoder()


def token_path(data_dir: str, token_file: str) -> Path:
    """The token file of a dispatcher with these settings. Only its owner can read the file."""
    return Path(token_file or Path(data_dir, "run", "dispatcher.token")).expanduser().absolute()


def encode_question(question: Search | Verdicts) -> bytes:
    return _encoder.encode(question)


def decode_search(raw: bytes) -> Search:
    try:
        asked = _search_decoder.decode(raw)
    except UNREADABLE as error:
        raise Rejected(f"this is no search: {error}") from None
    if not 1 <= asked.latest <= MOST_ROWS:
        raise Rejected(f"latest is {asked.latest}; it is a number from 1 to {MOST_ROWS}")
    return asked


def decode_verdicts(raw: bytes) -> Verdicts:
    try:
        return _verdicts_decoder.decode(raw)
    except UNREADABLE as error:
        raise Rejected(f"these are no filters and events: {error}") from None
