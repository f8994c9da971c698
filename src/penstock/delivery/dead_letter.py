"""What becomes of an event that its subscriber did not take: the attributes for the dead letter sink, and the record
that ``penstock deadletters`` shows. Pure.
"""

import base64
import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import msgspec

from penstock.contract.model import DeadLetter, Subscription, encode
from penstock.delivery.client import Answer
from penstock.delivery.forms import binary_lines, event_of, is_structured, traces
from penstock.delivery.reply import header_fields
from penstock.delivery.row import Row
from penstock.event.json_form import encode_event
from penstock.event.model import CORE, Event

ERROR_DATA_BYTES = 1024
ERROR = b"ce-knativeerror"
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
    headers: tuple[bytes, ...]  # what the dead letter sink gets besides the event's own
    answer: str = ""  # how its body began


def verdict(subscription: Subscription, answer: Answer, attempts: int) -> Verdict:
    """From the last answer of the subscriber; without an answer its data says what went wrong."""
    is_about_status = answer.status and not (200 <= answer.status < 300)  # else: of its reply
    reason = f"status {answer.status}" if is_about_status else answer.error
    headers = [ERROR + b"dest:" + without_password(subscription.subscriber_url).encode()]
    if answer.status:
        headers.append(ERROR + b"code:%d" % answer.status)
    data = answer.body if answer.status else reason.encode()
    if data:
        headers.append(ERROR + b"data:" + base64.b64encode(data[:ERROR_DATA_BYTES]))
    said = answer.body[:ERROR_DATA_BYTES].decode(errors="replace") if answer.status else ""
    return Verdict(answer.status, reason, attempts, (*headers, *_extensions(answer)), said)


def dead_letter_form(row: Row, found: Verdict) -> tuple[list[bytes], bytes]:
    """Header lines and body of the event with the verdict; what an earlier failure left there is replaced."""
    if is_structured(row.headers):
        event = event_of(row)
        kept = {name: value for name, value in event.attributes.items() if not name.startswith("knativeerror")}
        told = (line.decode("latin-1").removeprefix("ce-").partition(":") for line in found.headers)
        lines, body = binary_lines(Event({**kept, **{name: value for name, _, value in told}}, event.data))
        return lines + traces(row.headers), body
    return dead_letter_lines(row, found), row.body


def dead_letter_lines(row: Row, found: Verdict) -> list[bytes]:
    replaced = {_name(line) for line in found.headers}
    kept = [line for line in row.headers if not (line.startswith(ERROR) or _name(line) in replaced)]
    return [*kept, *found.headers]


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


def _extensions(answer: Answer) -> list[bytes]:
    """Attributes that the subscriber wants on the dead letter; none that would change the event itself."""
    found: dict[bytes, bytes] = {}
    for name, value in header_fields(answer.head):
        short = name.removeprefix(EXTENSION_PREFIX)
        if short == name or not EXTENSION_NAME.fullmatch(short) or not VISIBLE.fullmatch(value):
            continue
        if short.decode() not in CORE and short != b"data" and not RESERVED.fullmatch(short):
            found[short] = value
    return [b"ce-" + name + b":" + value for name, value in found.items()]


def _event(row: Row) -> tuple[Event, int]:
    """The event as it was before delivery, and the partition it is in."""
    event = event_of(row)
    attributes = {name: value for name, value in event.attributes.items() if not name.startswith("knativekafka")}
    partition = event.attributes.get("knativekafkapartition", "0")
    return Event(attributes, event.data), int(partition) if _PARTITION.fullmatch(partition) else 0
