"""What a content type tells: which mode a message is in, whether data is JSON, in which charset text is.

In: the content type as text. Read by the HTTP, Kafka and JSON forms, so that all of them agree.
"""

import re
from typing import Literal

from penstock.errors import Rejected

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"
ENVELOPE = "application/cloudevents"  # whatever begins like this is an event, not the data of one

CHARSET = re.compile(r"""; *charset *= *"?([^\s;"]+)""", re.IGNORECASE)
# Charsets that text may be in. Not all of Python's: some of those are no charsets, some are slow on long texts.
CHARSETS = re.compile(r"utf-?(8|16|32)([bl]e)?|us-ascii|iso-8859-\d{1,2}|windows-\d{3,4}", re.IGNORECASE | re.ASCII)


def mode_of(content_type: str) -> Literal["binary", "structured", "batched"]:
    """The content mode of a message, or Rejected: its event format or charset is not one we read."""
    if not is_envelope(content_type):
        return "binary"
    charset = charset_of(content_type)
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Rejected(f"charset {charset!r}: events in JSON must be UTF-8")
    media = _media(content_type)
    if media == STRUCTURED:
        return "structured"
    if media == BATCHED:
        return "batched"
    raise Rejected(f"content type {media!r}: the event format is not known; {STRUCTURED} is")


def is_envelope(content_type: str) -> bool:
    """Whether this announces an event; data of such a type cannot travel in binary mode."""
    return content_type[: len(ENVELOPE)].lower() == ENVELOPE


def is_json(content_type: str | None) -> bool:
    """Whether data of this type is JSON; without a type the JSON format implies it."""
    return content_type is None or _media(content_type).endswith(("/json", "+json"))


def encode_text(text: str, content_type: str) -> bytes:
    """Text as data of this type, in the charset that the type declares."""
    charset = charset_of(content_type)
    try:
        if CHARSETS.fullmatch(charset):
            return text.encode(charset)
    except (LookupError, UnicodeEncodeError):
        pass
    raise Rejected(
        f"'data' cannot be put into the charset {charset[:40]!r} of its datacontenttype",
        hint="send the encoded bytes as 'data_base64'",
    )


def charset_of(content_type: str) -> str:
    found = CHARSET.search(content_type)
    return found[1].lower() if found else "utf-8"


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip(" \t").lower()
