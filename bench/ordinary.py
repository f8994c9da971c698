"""An ordinary subscriber: a web framework that reads the request and parses its JSON, as most services do.

The bare sink (``sink.py``) takes a tenth of that. What batches are worth depends on what a request costs the one who
gets it, so backlogs are measured with both. Same commands, same answers. Started by ``children.py``.
"""

import asyncio
import json
import time

import uvloop
from aiohttp import web

from bench.events import ID_LENGTH, NUMBER_AT, SENT_AT
from bench.sink import Commands, Lane, Recorder, say

BATCHED = "application/cloudevents-batch+json"
LARGEST_BODY = 64 * 1024 * 1024


def take(recorder: Recorder, path: str, ids: list[str]) -> None:
    """Events by their ids, which hold number and time; those of an earlier run are strays."""
    now_ns, marker = time.monotonic_ns(), recorder.marker.decode()
    lane = recorder.lanes.setdefault(path.encode(), Lane())
    for each in ids:
        if each.startswith(marker):
            lane.record(int(each[NUMBER_AT : NUMBER_AT + 9]), int(each[SENT_AT:ID_LENGTH]), now_ns)
        else:
            recorder.strays += 1


def application(recorder: Recorder) -> web.Application:
    async def subscribed(request: web.Request) -> web.Response:
        data = json.loads(await request.read())
        ids = [each["id"] for each in data] if request.content_type == BATCHED else [request.headers["ce-id"]]
        take(recorder, request.path, ids)
        return web.Response(status=202)

    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_post("/{path:.*}", subscribed)
    return app


async def serve() -> None:
    recorder, closed = Recorder(), asyncio.Event()
    runner = web.AppRunner(application(recorder), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    asyncio.get_running_loop().add_reader(0, Commands(recorder, closed).readable)
    say({"port": runner.addresses[0][1]})
    await closed.wait()
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(serve())
