"""Requests of a sender: one HTTP request and its answer, and events in binary mode."""

import contextlib
import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from tests.sink import Request

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


def ask(method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    """One request on a connection of its own. A system may answer before it has read everything."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.putrequest(method, target, skip_host="Host" in (headers or {}))
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.send(body)
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


def binary(id_: str, type_: str = "test", **attributes: str) -> dict[str, str]:
    """The header fields of an event in binary mode; what HTTP cannot carry is percent-encoded."""
    everything = {"specversion": "1.0", "id": id_, "source": "/conformance", "type": type_} | attributes
    return {f"ce-{name}": quote(value, safe=SAFE) for name, value in everything.items()}


SAFE = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')


def send(url: str, id_: str, type_: str = "test", data: bytes = b'{"a": 1}', **attributes: str) -> None:
    """An event that has to be accepted."""
    headers = binary(id_, type_, **attributes) | {"content-type": "application/json"}
    answer = ask("POST", url, data, headers)
    assert 200 <= answer.status < 300, f"{id_} was answered with {answer.status}: {answer.body[:200]!r}"


def attributes_of(request: Request) -> dict[str, str]:
    """Of an event that came in binary mode; ``datacontenttype`` is the content type."""
    found = {name[3:]: unquote(value) for name, value in request.headers.items() if name.startswith("ce-")}
    if "content-type" in request.headers:
        found["datacontenttype"] = request.headers["content-type"]
    return found


def ids(requests: list[Request]) -> list[str]:
    return [attributes_of(each).get("id", "") for each in requests]
