"""Questions to the dispatcher, which has the Spark session: whole answers, and answers line by line.

In: a question of ``contract.questions``. Out: JSON. Raises Unavailable, with the cause, while there is no dispatcher.
Whoever stops reading a stream closes its connection, and the dispatcher ends the work.
"""

import asyncio
import http.client
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from penstock.access.tokens import authorization, read_token
from penstock.contract.questions import Search, Verdicts, encode_question, token_path
from penstock.control.world import World
from penstock.errors import Misconfigured, Rejected, Unavailable

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0  # a search tells something several times a second
ANSWER_SECONDS = 60.0  # a first question compiles code
LONGEST_LINE = 4 * 1024 * 1024
LARGEST_ANSWER = 64 * 1024 * 1024  # to a question for verdicts
HINT = "`penstock logs dispatcher` tells why; `penstock up` starts it again by itself"


def address(world: World) -> str:
    url = world.reports.dispatcher_url()
    if not url:
        state = world.reports.dispatcher()
        why = f": {state.reason}" if state.reason else ""
        raise Unavailable(f"topics are searched by the dispatcher, which is {state.state}{why}", hint=HINT)
    return url


def verdicts(world: World, question: Verdicts) -> list[list[dict[str, Any]]]:
    """For each event a verdict on each of the filters."""
    url, token = address(world), _token(world)
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "Authorization": authorization(token)}
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/verdicts", encode_question(question), headers)
        response = connection.getresponse()
        raw = response.read(LARGEST_ANSWER + 1)
        if len(raw) > LARGEST_ANSWER:
            raise Unavailable(f"the dispatcher at {url} answered with more than {LARGEST_ANSWER} bytes", hint=HINT)
        answer = json.loads(raw)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise Unavailable(f"the dispatcher at {url} does not answer: {error}", hint=HINT) from error
    finally:
        connection.close()
    _check(url, response.status, answer)
    return list(answer["verdicts"])


def _token(world: World) -> str:
    """The token is read for each question, since it changes when the dispatcher starts again."""
    settings = world.settings
    try:
        return read_token(token_path(settings.data_dir, settings.dispatcher_token_file))
    except Misconfigured as error:
        raise Unavailable(f"the dispatcher cannot be asked: {error.message}", hint=error.hint) from None


async def search(world: World, question: Search) -> AsyncGenerator[dict[str, Any], None]:
    """Lines as they come. Ends with the dispatcher's last line, or raises what it says went wrong."""
    url, token = address(world), _token(world)
    async with aclosing(_lines(url, "/search", token, encode_question(question))) as lines:
        async for line in lines:
            if "error" in line:
                raise Unavailable(line["error"], hint=line.get("hint"))
            yield line


async def _lines(url: str, path: str, token: str, body: bytes) -> AsyncGenerator[dict[str, Any], None]:
    parts = urlsplit(url)
    opening = asyncio.open_connection(parts.hostname, parts.port or 80, limit=LONGEST_LINE)
    try:
        reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the dispatcher at {url} does not answer: {error}", hint=HINT) from error
    try:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: {authorization(token)}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        status, length = _status_and_length(await _read(reader.readuntil(b"\r\n\r\n"), url))
        if length is not None:
            _check(url, status, json.loads(await _read(reader.readexactly(length), url)))
            return
        async for line in _in_chunks(reader, url):
            found = json.loads(line)
            _check(url, status, found)
            yield found
    except ValueError as error:
        raise Unavailable(f"the dispatcher at {url} sent an invalid answer: {error}", hint=HINT) from error
    finally:
        writer.close()


def _status_and_length(head: bytes) -> tuple[int, int | None]:
    """The status and length of an answer; None: its body comes in chunks."""
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    length = headers.get("content-length")
    if length is not None and int(length) > LONGEST_LINE:
        raise ValueError(f"an answer of {length} bytes")
    return int(first.split(" ", 2)[1]), None if length is None else int(length)


async def _in_chunks(reader: asyncio.StreamReader, url: str) -> AsyncGenerator[bytes, None]:
    """The lines of a chunked body."""
    kept = b""
    while size := int(await _read(reader.readline(), url), 16):
        if len(kept) + size > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        kept += (await _read(reader.readexactly(size + 2), url))[:-2]
        *lines, kept = kept.split(b"\n")
        for line in lines:
            yield line


async def _read(reading: Any, url: str) -> bytes:
    try:
        return bytes(await asyncio.wait_for(reading, SILENCE_SECONDS))
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
        raise Unavailable(f"the dispatcher at {url} stopped answering", hint=HINT) from error


def _check(url: str, status: int, answer: Any) -> None:
    if status == http.client.UNAUTHORIZED:
        hint = "the controller and the dispatcher need the same data directory, or the same dispatcher_token_file"
        raise Unavailable(f"the dispatcher at {url} does not know the token of this controller", hint=hint)
    if status == http.client.BAD_REQUEST:
        raise Rejected(str(answer.get("error")), hint=answer.get("hint"))
    if status > http.client.BAD_REQUEST:
        raise Unavailable(f"the dispatcher at {url} refused: {answer.get('error')}", hint=answer.get("hint"))
