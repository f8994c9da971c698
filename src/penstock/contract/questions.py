"""What the controller asks of the dispatcher, over HTTP, because only that has a Spark session.

``Search`` is the body of ``POST /search``, ``Verdicts`` that of ``POST /verdicts``. Credentials are never here: a
``Cluster`` only says where they are.
"""

from typing import Any

import msgspec

from penstock.contract.model import HOME, Cluster, place_of
from penstock.errors import Rejected

MOST_ROWS = 1000


class Searched(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic to be searched."""

    topic: str
    cluster: Cluster = HOME

    @property
    def place(self) -> str:
        return place_of(self.topic, self.cluster)


class Search(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which events. What is empty does not matter; all that is said must hold."""

    topics: tuple[Searched, ...]
    id: str = ""
    source: str = ""
    type: str = ""  # * stands for any text
    subject: str = ""
    since: float = 0.0  # seconds since the epoch, by the time that Kafka has kept
    until: float = 0.0
    text: str = ""  # anywhere in data or attributes, in upper or lower case
    latest: int = 50  # how many events, the newest
    whole: bool = False  # go on when there are as many: whoever wants all of an id does not know how many there are


class Verdicts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which of the events match which of the filters, and why."""

    filters: tuple[tuple[dict[str, Any], ...], ...]  # of each subscription, as the contract has them
    events: tuple[msgspec.Raw, ...]  # in CloudEvents' JSON form
    reasons: bool = True  # else only whether they match, which is less work


_search_decoder = msgspec.json.Decoder(Search)
_verdicts_decoder = msgspec.json.Decoder(Verdicts)
_encoder = msgspec.json.Encoder()


def encode_question(question: Search | Verdicts) -> bytes:
    return _encoder.encode(question)


def decode_search(raw: bytes) -> Search:
    try:
        asked = _search_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"this is no search: {error}") from None
    if not 1 <= asked.latest <= MOST_ROWS:
        raise Rejected(f"latest is {asked.latest}; it is a number from 1 to {MOST_ROWS}")
    return asked


def decode_verdicts(raw: bytes) -> Verdicts:
    try:
        return _verdicts_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"these are no filters and events: {error}") from None
