"""Valid events of every kind, for the properties: what the tests of this folder promise holds for all of them."""

import json
from typing import Any

from hypothesis import strategies as st

from penstock.event.model import CORE, Event

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}

# Assigned characters that a CloudEvents string may hold; the ones that headers and JSON treat specially come often.
characters = st.sampled_from(" \"%\\,;:='€é😀\u00a0\u2028") | st.characters(exclude_categories=("Cc", "Cs", "Cn"))
texts = st.text(characters, max_size=30)
filled_texts = st.text(characters, min_size=1, max_size=30)
names = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(lambda name: name not in CORE | {"data"})
sources = st.sampled_from(
    [
        "/orders",
        "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "https://example.com:8443/a%20b?c=d&e#f",
        "1-555-123",
    ]
)
times = st.sampled_from(
    ["2018-04-05T17:31:00Z", "2026-02-28t23:59:60.123456789z", "2024-02-29T00:00:00.000000001+05:30"]
)
schemas = st.sampled_from(["https://example.com/order.json", "urn:schema:1", "http://json-schema.org/schema#"])

json_types = st.sampled_from(["application/json", "text/json; charset=utf-8", "application/vnd.order.v1+json"])
other_types = st.sampled_from(
    ["text/plain", 'text/plain; charset="iso-8859-1"', "application/octet-stream", "IMAGE/png", "x/y; a=%41"]
)
# Data that is itself an event: in binary mode its type would announce an event.
envelope_types = st.sampled_from(["application/cloudevents+json", "application/CloudEvents+avro; x=y"])

blanks = st.text(" \t\r\n", max_size=3)
numbers = st.sampled_from(["0", "-0", "1.0", "1E+2", "0.10", "12345678901234567890123", "1e400", "-1.5e-300"])


def _spread(value: Any, space: str) -> str:
    return json.dumps(value, ensure_ascii=len(space) % 2 == 0, separators=(f"{space},{space}", f"{space}:{space}"))


json_texts = st.builds(
    lambda before, text, after: (before + text + after).encode(),
    blanks,
    numbers
    | st.sampled_from(["null", '""', '"\\u20ac\\/"', '{"a":1,"a":2}', "[1 ,\n2.50]", '{"\\u0061": NaN}', "{broken"])
    | st.builds(
        _spread,
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
            max_leaves=6,
        ),
        blanks,
    ),
    blanks,
)
bodies = st.none() | st.just(b"") | st.binary(max_size=60) | json_texts


@st.composite
def events(draw: st.DrawFn) -> Event:
    attributes = {
        "specversion": "1.0",
        "id": draw(filled_texts),
        "source": draw(sources),
        "type": draw(filled_texts),
    }
    optional = {
        "subject": filled_texts,
        "time": times,
        "dataschema": schemas,
        "datacontenttype": json_types | other_types | envelope_types,
        "partitionkey": texts,
    }
    for name, values in optional.items():
        if draw(st.booleans()):
            attributes[name] = draw(values)
    attributes.update(draw(st.dictionaries(names, texts, max_size=3)))
    return Event(attributes, draw(bodies))
