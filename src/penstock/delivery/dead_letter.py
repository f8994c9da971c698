"""What becomes of an event that its subscriber did not take: the attributes for the dead letter sink, and the record
that ``penstock deadletters`` shows. Pure.

What is added must never be the reason why the sink refuses the event. So each attribute has a longest size, and those
without which the dead letter can be understood are left out where they do not fit.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

import msgspec

from penstock.contract.model import DeadLetter, Subscription, encode
from penstock.delivery.client import Answer
from penstock.delivery.forms import WIDE_BYTES, WIDE_LINES, binary_lines, event_of, is_structured, traces
from penstock.delivery.reply import HOPS, LoopCut, header_fields, hops_left
from penstock.delivery.row import Row
from penstock.event.http import percent_encode_header
from penstock.event.json_form import encode_event
from penstock.event.model import CORE, Event

ERROR_DATA_BYTES = 1024
LONGEST_DESTINATION = 512
LONGEST_REASON = 1024
MOST_EXTENSIONS = 16
EXTENSIONS_BYTES = 4096  # of all names and values together
MOST_LINES = WIDE_LINES + 2  # beyond this number of header lines, knativeerrordata is left out
LARGE_BYTES = 512 * 1024  # an event of this size that travels as JSON may be near the longest body of the sink
ERROR = "knativeerror"
ERROR_LINE = b"ce-" + ERROR.encode()
DESTINATION_LINE = ERROR_LINE + b"dest:"
DESTINATION = ERROR + "dest"
NEEDED = (HOPS, DESTINATION, ERROR + "code")
NO_HOP_LEFT = "; not sent to the dead letter sink: no hop is left in knativebrokerttl"
EXTENSION_PREFIX = b"kne-"  # headers of the answer that become extensions of the dead letter
EXTENSION_NAME = re.compile(rb"[a-z0-9]{1,64}")
VISIBLE = re.compile(rb"[\x20-\x7e]{1,1024}")
RESERVED = re.compile(rb"knative.*")
_PARTITION = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a subscriber is given up for one event."""

    code: int  # 0: there was no answer
    reason: str
    attempts: int
    attributes: Mapping[str, str]  # for the dead letter sink, besides the event's own; the most important ones first
    answer: str = ""  # how its body began


def verdict(subscription: Subscription, answer: Answer, attempts: int) -> Verdict:
    """From the last answer of the subscriber; without an answer its data says what went wrong."""
    is_about_status = answer.status and not (200 <= answer.status < 300)  # else: of its reply
    reason = (f"status {answer.status}" if is_about_status else answer.error)[:LONGEST_REASON]
    attributes = {DESTINATION: without_password(subscription.subscriber_url)[:LONGEST_DESTINATION]}
    if answer.status:
        attributes[ERROR + "code"] = str(answer.status)
    data = answer.body if answer.status else reason.encode()
    if data:
        attributes[ERROR + "data"] = base64.b64encode(data[:ERROR_DATA_BYTES]).decode()
    said = answer.body[:ERROR_DATA_BYTES].decode(errors="replace") if answer.status else ""
    return Verdict(answer.status, reason, attempts, {**attributes, **_extensions(answer)}, said)


def for_sink(found: Verdict, row: Row, hop_limit: int) -> Verdict:
    """The verdict on an event that goes to the sink. The sink may be a broker from which the event comes back. So a
    dead letter that fails again has one hop less, as a reply has. The first dead letter is not counted: a sink that
    is not a broker gets no count from Penstock.

    Raises LoopCut when no hop is left.
    """
    if not _is_dead_letter(row):
        return found
    left = hops_left(row, hop_limit)
    if left <= 0:
        raise LoopCut
    return replace(found, attributes={HOPS: str(left - 1), **found.attributes})


def cut(found: Verdict) -> Verdict:
    """The verdict on an event that has no hop left."""
    return replace(found, reason=found.reason[: LONGEST_REASON - len(NO_HOP_LEFT)] + NO_HOP_LEFT)


def _is_dead_letter(row: Row) -> bool:
    if is_structured(row.headers):
        return DESTINATION in event_of(row).attributes
    return any(line.startswith(DESTINATION_LINE) for line in row.headers)


def dead_letter_form(row: Row, found: Verdict, *, as_json: bool) -> tuple[list[bytes], bytes]:
    """Header lines and body of the event with the verdict; what an earlier failure left there is replaced."""
    own_bytes = sum(map(len, row.headers))
    if as_json or is_structured(row.headers):
        room = WIDE_BYTES if own_bytes + len(row.body) < LARGE_BYTES else 0
    else:
        room = WIDE_BYTES - own_bytes
    if is_structured(row.headers):
        event = event_of(row)
        kept = {name: value for name, value in event.attributes.items() if not name.startswith(ERROR)}
        lines, body = binary_lines(Event({**kept, **_fitting(found, room, len(kept), is_json=True)}, event.data))
        return lines + traces(row.headers), body
    return dead_letter_lines(row, _fitting(found, room, len(row.headers), is_json=as_json)), row.body


def dead_letter_lines(row: Row, added: Mapping[str, str]) -> list[bytes]:
    replaced = {b"ce-" + name.encode() for name in added}
    kept = [line for line in row.headers if not (line.startswith(ERROR_LINE) or _name(line) in replaced)]
    return kept + [_line(name, value) for name, value in added.items()]


def _fitting(found: Verdict, room_bytes: int, number: int, *, is_json: bool) -> dict[str, str]:
    """What is added to an event that has so many attributes: hops, destination and status always, the rest where
    there is room."""
    added = {}
    for name, value in found.attributes.items():
        length = len(_line(name, value))
        most = WIDE_LINES if not name.startswith(ERROR) else number + 1 if is_json else MOST_LINES
        if (length <= room_bytes and number < most) or name in NEEDED:
            added[name] = value
            room_bytes -= length
            number += 1
    return added


def _line(name: str, value: str) -> bytes:
    return f"ce-{name}:{percent_encode_header(value)}".encode()


def _name(line: bytes) -> bytes:
    """An empty value is written as libcurl wants it, with a semicolon."""
    name, colon, _ = line.partition(b":")
    return name if colon else line.removesuffix(b";")


def dead_letter(
    subscription: Subscription, topic_id: str, row: Row, found: Verdict, outcome: str, now: float
) -> tuple[str, bytes]:
    """Key and value of the record."""
    event, partition = _event(row)
    record = DeadLetter(
        id=event.attributes.get("id", ""),
        source=event.attributes.get("source", ""),
        type=event.attributes.get("type", ""),
        kind=subscription.kind,
        namespace=subscription.namespace,
        name=subscription.name,
        uid=subscription.uid,
        topic=subscription.topic,
        partition=partition,
        offset=row.offset,
        outcome=outcome,
        reason=found.reason,
        code=found.code,
        attempts=found.attempts,
        time=now,
        event=msgspec.Raw(encode_event(event)),
        answer=found.answer,
        topic_id=topic_id,
    )
    return record.key, encode(record)


def without_password(url: str) -> str:
    """What may be shown to others: an address can carry a user and a password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _extensions(answer: Answer) -> dict[str, str]:
    """Attributes that the subscriber wants on the dead letter; none that would change the event itself. Of too many
    the first ones count."""
    found: dict[str, str] = {}
    for name, value in header_fields(answer.head):
        short = name.removeprefix(EXTENSION_PREFIX)
        if short == name or not EXTENSION_NAME.fullmatch(short) or not VISIBLE.fullmatch(value):
            continue
        if short.decode() not in CORE and short != b"data" and not RESERVED.fullmatch(short):
            found[short.decode()] = value.decode()
    taken: dict[str, str] = {}
    room = EXTENSIONS_BYTES
    for extension, text in found.items():
        length = len(extension) + len(text)
        if length <= room and len(taken) < MOST_EXTENSIONS:
            taken[extension] = text
            room -= length
    return taken


def _event(row: Row) -> tuple[Event, int]:
    """The event as it was before delivery, and the partition it is in."""
    event = event_of(row)
    attributes = {name: value for name, value in event.attributes.items() if not name.startswith("knativekafka")}
    partition = event.attributes.get("knativekafkapartition", "0")
    return Event(attributes, event.data), int(partition) if _PARTITION.fullmatch(partition) else 0
