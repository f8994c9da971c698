"""The events of the benchmark, as bytes that are built once.

An event's id carries all that the sink must know: the run, the number in the run and the time of sending
(CLOCK_MONOTONIC, one clock for all processes of a machine). It is found by its marker, not by the header's name,
so it does not matter who spelled the headers how.

    pnb.0007.000000123.0000012345678901234
        run  number    nanoseconds
"""

import json

NUMBER_AT, SENT_AT, ID_LENGTH = 9, 19, 38
TYPE = "dev.penstock.bench.measured"
SOURCE = "/bench/load"

DATA = json.dumps(
    {
        "order": 481516,
        "customer": {"name": "Ada Lovelace", "city": "London", "loyal": True},
        "lines": [{"sku": "PEN-0042", "count": 3, "price": 12.5}, {"sku": "INK-0007", "count": 1, "price": 4.25}],
        "note": "leave it with the neighbour at number nine, please",
    }
).encode()


def run_marker(run: int) -> bytes:
    """How every id of a run begins; who looks for it finds this run's events and no others."""
    return b"pnb.%04d." % run


def make_id(run: int, number: int, sent_ns: int) -> bytes:
    return b"%b%09d.%019d" % (run_marker(run), number, sent_ns)


def read_ids(data: bytes, marker: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Number and time of sending of every event of the run between start and end."""
    found = []
    at = data.find(marker, start, end)
    while at >= 0:
        found.append((int(data[at + NUMBER_AT : at + NUMBER_AT + 9]), int(data[at + SENT_AT : at + ID_LENGTH])))
        at = data.find(marker, at + ID_LENGTH, end)
    return found


def request_around_id(path: str, host: str, type_: str = TYPE) -> tuple[bytes, bytes]:
    """A binary-mode request as what stands before the id and what stands behind it."""
    before = f"POST {path} HTTP/1.1\r\nhost: {host}\r\nce-id: "
    behind = (
        f"\r\nce-specversion: 1.0\r\nce-type: {type_}\r\nce-source: {SOURCE}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(DATA)}\r\n\r\n"
    )
    return before.encode(), behind.encode() + DATA


def record_headers(event_id: bytes) -> list[tuple[str, bytes]]:
    """The same event as headers of a Kafka record, for the baseline that goes without a receiver."""
    return [
        ("ce_id", event_id),
        ("ce_specversion", b"1.0"),
        ("ce_type", TYPE.encode()),
        ("ce_source", SOURCE.encode()),
        ("content-type", b"application/json"),
    ]
