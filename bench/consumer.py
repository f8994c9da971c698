"""Baseline: the loop that a Python user would write instead of Penstock.

A consumer of librdkafka in a group, aiohttp to POST each event to its subscribers, offsets committed once a second
for what is done. No filters, no retries, no dead letters, no order, and nothing that isolates one subscriber from
the next. Comes in: a ConsumerPlan as JSON argument; ends when stdin closes. Goes out: ``{"ready": …}`` once it has
partitions, a ConsumerResult at the end. Started by ``baselines.py``.
"""

import asyncio
import resource
import sys
import threading

import aiohttp
import msgspec
import uvloop
from confluent_kafka import Consumer, Message, TopicPartition

READY_SECONDS = 20.0


class ConsumerPlan(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    topic: str
    group: str
    urls: list[str]
    concurrency: int = 64
    batch: int = 256


class ConsumerResult(msgspec.Struct, frozen=True):
    delivered: int
    failed: int
    cpu_seconds: float


class Loop:
    """Read a batch, post it, remember its offsets; again."""

    def __init__(self, plan: ConsumerPlan) -> None:
        self.plan = plan
        self.stopping = threading.Event()
        self.assigned = threading.Event()
        self.delivered = self.failed = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": plan.bootstrap_servers,
                "group.id": plan.group,
                "auto.offset.reset": "latest",
                "enable.auto.offset.store": False,  # stored when delivered, committed by the client every second
                "auto.commit.interval.ms": 1000,
                "socket.nagle.disable": True,
            }
        )

    async def run(self) -> None:
        self.consumer.subscribe([self.plan.topic], on_assign=self.begin_at_the_end)
        connector = aiohttp.TCPConnector(limit=self.plan.concurrency)
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self.stopping.is_set():
                messages = await asyncio.to_thread(self.read)
                await asyncio.gather(*(self.post(session, m, url) for m in messages for url in self.plan.urls))
                for message in messages:
                    self.consumer.store_offsets(message)
        self.consumer.close()

    def begin_at_the_end(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The end as it is now: left to itself, the client looks it up later and would miss what came meanwhile."""
        for partition in partitions:
            partition.offset = consumer.get_watermark_offsets(partition, timeout=10.0)[1]
        consumer.assign(partitions)
        self.assigned.set()

    def read(self) -> list[Message]:
        """Whatever is there, and at least one: waiting for a full batch would cost latency."""
        first = self.consumer.poll(0.1)
        if first is None:
            return []
        messages = [first, *self.consumer.consume(self.plan.batch - 1, 0)]
        return [m for m in messages if m.error() is None]

    async def post(self, session: aiohttp.ClientSession, message: Message, url: str) -> None:
        headers = {}
        for name, value in message.headers() or []:
            headers["ce-" + name[3:] if name.startswith("ce_") else name] = value.decode()
        try:
            async with session.post(url, data=message.value(), headers=headers) as answer:
                good = answer.status < 300
        except aiohttp.ClientError:
            good = False
        self.delivered += good
        self.failed += not good


def announce_and_wait(loop: Loop) -> None:
    """Beside the loop: says when it is ready, and stops it when stdin closes."""
    ready = loop.assigned.wait(READY_SECONDS)
    print(msgspec.json.encode({"ready": ready}).decode(), flush=True)
    sys.stdin.read()
    loop.stopping.set()


def main(argument: str) -> None:
    loop = Loop(msgspec.json.decode(argument, type=ConsumerPlan))
    threading.Thread(target=announce_and_wait, args=(loop,), daemon=True).start()
    uvloop.run(loop.run())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result = ConsumerResult(loop.delivered, loop.failed, usage.ru_utime + usage.ru_stime)
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main(sys.argv[1])
