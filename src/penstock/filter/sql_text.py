"""Text from others in Spark's SQL: every string and every name that goes into a statement comes from here.

In: text from a filter, a contract record or a question. Out: SQL that means exactly this text. Raises Rejected for
what cannot be written. Names are checked here again, although they were checked when the resource was applied: a
contract record or a question may come from another program.
"""

import re

from penstock.errors import Rejected

NAME = re.compile(r"[a-z0-9]+\Z")  # of an attribute
ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f'\\$\u2028\u2029\ufeff]")
SURROGATE = re.compile(r"[\ud800-\udfff]")


def literal(text: str) -> str:
    """Text as a literal. The dollar too is escaped: in whole statements Spark replaces ${env:NAME}."""
    if SURROGATE.search(text):
        raise Rejected("text must not contain a lone surrogate")
    return f"'{ESCAPED.sub(_escape, text)}'"


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return f"\\{character}" if character in "'\\" else f"\\u{ord(character):04x}"


def attribute_name(name: object) -> str:
    """The name of an attribute, which may then stand in a statement as it is."""
    if not isinstance(name, str) or not NAME.match(name):
        shown = repr(name)
        raise Rejected(
            f"{shown[:60]}{'…' if len(shown) > 60 else ''} is not the name of an attribute",
            hint="names have only lower-case letters a-z and digits",
        )
    return name
