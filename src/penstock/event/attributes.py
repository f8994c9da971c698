"""The rules of CloudEvents on attribute names and values. Raises Rejected, naming the attribute and the remedy."""

import re
from collections.abc import Mapping

from penstock.errors import Rejected
from penstock.event.model import REQUIRED

NAME = re.compile(r"[a-z0-9]+\Z")
# Control characters, noncharacters and lone surrogates, none of which a CloudEvents string may hold.
FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
TIME = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)\Z"
)
URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+\Z")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+\-]+/[A-Za-z0-9!#$&^_.+\-]+[ \t]*(;.*)?\Z")


def check_name(name: str) -> None:
    if not NAME.match(name):
        raise Rejected(f"attribute name {name!r}: only lower-case letters a-z and digits are allowed")
    if name in ("data", "data_base64"):
        raise Rejected(f"{name!r} is not an attribute; the data goes into the body")


def check_text(name: str, value: str) -> None:
    found = FORBIDDEN.search(value)
    if found:
        raise Rejected(f"attribute {name!r} holds the forbidden character U+{ord(found[0]):04X}")


def check_attributes(attributes: Mapping[str, str]) -> None:
    """The rules beyond names and characters: what must be there, and what has a form of its own."""
    for name in REQUIRED:
        if not attributes.get(name):
            raise Rejected(f"the required attribute {name!r} is missing or empty")
    if attributes["specversion"] != "1.0":
        raise Rejected(f"specversion {attributes['specversion']!r} is not supported; 1.0 and 0.3 are")
    _check_form(attributes, "source", URI_REFERENCE, "a URI reference, for instance /orders")
    _check_form(attributes, "time", TIME, "an RFC 3339 time, for instance 2026-01-31T12:00:00Z")
    _check_form(attributes, "datacontenttype", MEDIA_TYPE, "a media type, for instance application/json")
    schema = attributes.get("dataschema")
    if schema is not None and not (URI_REFERENCE.match(schema) and SCHEME.match(schema)):
        raise Rejected(f"attribute 'dataschema' is {_short(schema)}, which is not an absolute URI")
    if attributes.get("subject") == "":
        raise Rejected("attribute 'subject' must not be empty; leave it out instead")


def _check_form(attributes: Mapping[str, str], name: str, form: re.Pattern[str], meaning: str) -> None:
    value = attributes.get(name)
    if value is not None and not form.match(value):
        raise Rejected(f"attribute {name!r} is {_short(value)}, which is not {meaning}")


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")
