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

from penstock.contract.questions import Search, Verdicts, encode_question
from penstock.control.world import World
from penstock.errors import Rejected, Unavailable

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0  # a search tells something several times a second
ANSWER_SECONDS = 60.0  # a first question compiles code
LONGEST_LINE = 4 * 1024 * 1024
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
    url = address(world)
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/verdicts", encode_question(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"the dispatcher at {url} does not answer: {error}", hint=HINT) from error
    finally:
        connection.close()
    _check(url, response.status, answer)
    return list(answer["verdicts"])


async def search(world: World, question: Search) -> AsyncGenerator[dict[str, Any], None]:
    """Lines as they come. Ends with the dispatcher's last line, or raises what it says went wrong."""
    url = address(world)
    async with aclosing(_lines(url, "/search", encode_question(question))) as lines:
        async for line in lines:
            if "error" in line:
                raise Unavailable(line["error"], hint=line.get("hint"))
            yield line


async def _lines(url: str, path: str, body: bytes) -> AsyncGenerator[dict[str, Any], None]:
    parts = urlsplit(url)
    opening = asyncio.open_connection(parts.hostname, parts.port or 80, limit=LONGEST_LINE)
    try:
        reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the dispatcher at {url} does not answer: {error}", hint=HINT) from error
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        first = await _read(reader.readuntil(b"\r\n\r\n"), url)
        status = int(first.split(b" ", 2)[1])
        while line := await _read(reader.readline(), url):
            found = json.loads(line)
            _check(url, status, found)
            yield found
    finally:
        writer.close()


async def _read(reading: Any, url: str) -> bytes:
    try:
        return bytes(await asyncio.wait_for(reading, SILENCE_SECONDS))
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
        raise Unavailable(f"the dispatcher at {url} stopped answering", hint=HINT) from error


def _check(url: str, status: int, answer: Any) -> None:
    if status == http.client.BAD_REQUEST:
        raise Rejected(str(answer.get("error")), hint=answer.get("hint"))
    if status > http.client.BAD_REQUEST:
        raise Unavailable(f"the dispatcher at {url} refused: {answer.get('error')}", hint=answer.get("hint"))
