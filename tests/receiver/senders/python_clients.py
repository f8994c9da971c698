"""Python's clients with their defaults. Arguments: name of the client, URL, file."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path


def _headers(client: str, number: int) -> dict[str, str]:
    event = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": f"/{client}", "ce-type": "test.sent"}
    return {**event, "content-type": "application/octet-stream"}


def with_requests(url: str, data: bytes) -> None:
    import requests

    bodies: list[bytes | Iterator[bytes]] = [data, iter([data[:1000], data[1000:]])]
    for number, body in enumerate(bodies, 1):
        print(number, requests.post(url, data=body, headers=_headers("requests", number)).status_code)  # noqa: T201


def with_httpx(url: str, data: bytes) -> None:
    import httpx

    bodies: list[bytes | Iterator[bytes]] = [data, iter([data[:1000], data[1000:]])]
    for number, body in enumerate(bodies, 1):
        print(number, httpx.post(url, content=body, headers=_headers("httpx", number)).status_code)  # noqa: T201


def with_aiohttp(url: str, data: bytes) -> None:
    import aiohttp

    async def pieces() -> AsyncIterator[bytes]:
        yield data[:1000]
        yield data[1000:]

    async def send() -> None:
        async with aiohttp.ClientSession() as session:
            for number, body in enumerate((data, pieces()), 1):
                async with session.post(url, data=body, headers=_headers("aiohttp", number)) as response:
                    print(number, response.status)  # noqa: T201

    asyncio.run(send())


CLIENTS = {"requests": with_requests, "httpx": with_httpx, "aiohttp": with_aiohttp}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]).read_bytes())
