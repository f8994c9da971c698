"""The rules of CloudEvents on attribute names and values. Raises Rejected, naming the attribute and the remedy.

Called by every form while it decodes; what encodes need not ask again.
"""

import re
from calendar import isleap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import Rejected
from penstock.event.model import CORE, REQUIRED
from penstock.settings import setting, variable_of

ATTRIBUTE_LIMIT = 256
ATTRIBUTE_LIMIT_SETTING: int = setting(
    ATTRIBUTE_LIMIT,
    "attributes of an event; one with more gets 400 or fails the reply; those that Penstock adds do not count",
)
ATTRIBUTE_LIMIT_BYTES = 64 * 1024
ATTRIBUTE_LIMIT_BYTES_SETTING: int = setting(
    ATTRIBUTE_LIMIT_BYTES,
    "longest attribute of an event; a longer one gets 400 or fails the reply; data does not count",
)
# What Penstock adds on the way. An event that has as many attributes as are allowed can have these too: it may be
# sent on, or dead-lettered, to another ingress.
ADDED = frozenset(
    (
        "knativekafkapartition",
        "knativekafkaoffset",
        "knativebrokerttl",
        "knativeerrordest",
        "knativeerrorcode",
        "knativeerrordata",
    )
)
NAME = re.compile(r"[a-z0-9]+\Z")
# Control characters, noncharacters and lone surrogates, none of which a CloudEvents string may hold.
FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
TIME = re.compile(
    r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))"
    r"[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d++)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


def _run(characters: str) -> str:
    """A run of characters or percent-encoded bytes; possessive, so that no input makes the match backtrack."""
    return rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={characters}]++|%[0-9A-Fa-f]{{2}})*+"


# RFC 3986: a URI reference and its parts.
_AUTHORITY = rf"(?:{_run(':')}@)?(?:\[[0-9A-Fa-fv:.]+\]|{_run('')})(?::[0-9]*)?"
_HIERARCHY = rf"(?://{_AUTHORITY}(?:/{_run(':@/')})?|(?!//){_run(':@/')})"
_TAIL = rf"(?:\?{_run(':@/?')})?(?:#{_run(':@/?')})?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+:"
# A relative reference must not have a colon in its first segment: it would read as a scheme.
URI_REFERENCE = re.compile(rf"(?:{_SCHEME}|(?![^/?#]*:)){_HIERARCHY}{_TAIL}\Z")
# Fragments are let pass: RFC 3986 does not count them to an absolute URI, but names of JSON schemas end in them.
ABSOLUTE_URI = re.compile(rf"{_SCHEME}{_HIERARCHY}{_TAIL}\Z")

# Type and subtype are tokens of RFC 2045. Blanks at the end would not survive a header.
MEDIA_TYPE = re.compile(r"[\w!#$%&'*+\-.^`{|}~]+/[\w!#$%&'*+\-.^`{|}~]+( *;([ -~]*[!-~])?)?\Z", re.ASCII)


def _remembering(form: re.Pattern[str]) -> Callable[[str], bool]:
    """Whether a value has this form. Sources, schemas and content types are few and come again and again."""

    @lru_cache(maxsize=1024)
    def remembered(value: str) -> bool:
        return form.match(value) is not None

    # Long values are looked at each time, so that what is remembered stays small.
    return lambda value: remembered(value) if len(value) <= 200 else form.match(value) is not None


is_uri_reference = _remembering(URI_REFERENCE)
is_absolute_uri = _remembering(ABSOLUTE_URI)
is_media_type = _remembering(MEDIA_TYPE)


def is_time(value: str) -> bool:
    return TIME.match(value) is not None and (value[5:10] != "02-29" or isleap(int(value[:4])))


@dataclass(frozen=True)
class AttributeLimits:
    """Of one event."""

    number: int = ATTRIBUTE_LIMIT
    each_bytes: int = ATTRIBUTE_LIMIT_BYTES


DEFAULT_LIMITS = AttributeLimits()


def check_name(name: str) -> None:
    if name in CORE:
        return
    if not NAME.match(name):
        raise Rejected(f"attribute name {_short(name)}: only lower-case letters a-z and digits are allowed")
    if name == "data":
        raise Rejected("'data' is not an attribute; the data goes into the body")


def check_text(name: str, value: str) -> None:
    if value.isprintable():  # the quick answer: nothing forbidden is printable
        return
    found = FORBIDDEN.search(value)
    if found:
        raise Rejected(f"attribute {name!r} holds the forbidden character U+{ord(found[0]):04X}")


def check_attributes(attributes: Mapping[str, str]) -> None:
    """The rules beyond names and characters: what must be there, and what has a form of its own."""
    for name in REQUIRED:
        if not attributes.get(name):
            raise Rejected(f"the required attribute {name!r} is missing or empty")
    if attributes["specversion"] != "1.0":
        raise Rejected(f"specversion {_short(attributes['specversion'])} is not supported; 1.0 and 0.3 are")
    source = attributes["source"]
    if not is_uri_reference(source):
        raise _misformed("source", source, "a URI reference, for instance /orders")
    time = attributes.get("time")
    if time is not None and not is_time(time):
        raise _misformed("time", time, "an RFC 3339 time, for instance 2026-01-31T12:00:00Z")
    media_type = attributes.get("datacontenttype")
    if media_type is not None and not is_media_type(media_type):
        raise _misformed("datacontenttype", media_type, "a media type, for instance application/json")
    schema = attributes.get("dataschema")
    if schema is not None and not is_absolute_uri(schema):
        raise _misformed("dataschema", schema, "an absolute URI, for instance https://example.com/order.json")
    if attributes.get("subject") == "":
        raise Rejected("attribute 'subject' must not be empty; leave it out instead")


def check_number(attributes: Mapping[str, str], most: int) -> None:
    """Checks that there are no more than this, besides those that Penstock adds."""
    if len(attributes) <= most:
        return
    number = len(attributes) - len(ADDED & attributes.keys())
    if number > most:
        raise Rejected(
            f"the event has {number:,} attributes; at most {most:,} are taken ({variable_of('attribute_limit')})",
            hint="put what is not needed for filters into the data",
        )


def check_lengths(attributes: Mapping[str, str], most_bytes: int) -> None:
    """Checks that no attribute is longer than this, in UTF-8: every filter has to read all of it."""
    for name, value in attributes.items():
        length = max(len(name), len(value))
        if length <= most_bytes and not value.isascii():
            length = len(value.encode())
        if length > most_bytes:
            raise Rejected(
                f"attribute {_short(name)} is {length:,} bytes long; at most {most_bytes:,} are taken",
                hint="put large values into the data",
            )


def upgrade(attributes: dict[str, str]) -> None:
    """An event of version 0.3 becomes one of 1.0.

    What has no place in 1.0 stays as an extension: a relative ``schemaurl``, and ``datacontentencoding`` where
    nothing was decoded by it.
    """
    attributes["specversion"] = "1.0"
    if "dataschema" not in attributes and is_absolute_uri(attributes.get("schemaurl", "")):
        attributes["dataschema"] = attributes.pop("schemaurl")


def _misformed(name: str, value: str, meaning: str) -> Rejected:
    return Rejected(f"attribute {name!r} is {_short(value)}, which is not {meaning}")


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")
