"""Baseline: Kafka without us. One process produces the same events, another one consumes them.

Comes in: a KafkaPlan as JSON argument, which names the role. Goes out, as JSON lines:

    produce   a ProduceResult when the time is over and all is acknowledged (acks=all, idempotent, as in the receiver)
    consume   ``{"ready": true}``, then, after ``{"expect": N}`` came in, a ConsumeResult once N events were seen
              or none came for SILENCE_SECONDS

Latencies count from the time at which an event was due. Started by ``baselines.py``.
"""

import resource
import sys
import threading
import time
from array import array
from typing import Any, Literal

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.events import DATA, make_id, read_ids, record_headers, run_marker
from bench.latency import Latency, summarize
from bench.pacing import NANOSECONDS
from penstock.kafka.connection import KafkaConnection

SILENCE_SECONDS = 5.0
FLUSH_SECONDS = 15.0
NO_RUN = 0
WARM_EVENTS = 100


class KafkaPlan(msgspec.Struct, frozen=True):
    role: Literal["produce", "consume"]
    bootstrap_servers: str
    topic: str
    run: int
    seconds: float = 0.0
    rate: float = 0.0  # events per second; 0 is as fast as in_flight allows
    in_flight: int = 1000


class ProduceResult(msgspec.Struct, frozen=True):
    sent: int
    acknowledged: int
    seconds: float
    latency: Latency  # to the acknowledgement
    first_sent_ns: int
    cpu_seconds: float


class ConsumeResult(msgspec.Struct, frozen=True):
    count: int
    last_arrival_ns: int
    latency: Latency  # from produce to consume
    cpu_seconds: float


class Producing:
    """The sending side: this thread sends, a second one takes the acknowledgements."""

    def __init__(self, plan: KafkaPlan) -> None:
        self.plan = plan
        self.producer: Producer = KafkaConnection(plan.bootstrap_servers, "bench").producer()
        self.latencies = array("q")
        self.sent = self.answered = 0
        self.last_answer_ns = 0
        self.stopping = False

    def run(self) -> ProduceResult:
        poller = threading.Thread(target=self.poll, daemon=True)
        poller.start()
        self.warm_up()
        cpu_before = _cpu_seconds()
        start_ns = time.monotonic_ns() + 5_000_000
        if self.plan.rate:
            self.send_at_rate(start_ns)
        else:
            self.send_all_out(start_ns)
        deadline = time.monotonic() + FLUSH_SECONDS
        while self.answered < self.sent and time.monotonic() < deadline:
            time.sleep(0.005)
        self.stopping = True
        poller.join()
        return ProduceResult(
            sent=self.sent,
            acknowledged=len(self.latencies),
            seconds=max(self.last_answer_ns - start_ns, 1) / NANOSECONDS,
            latency=summarize(self.latencies),
            first_sent_ns=start_ns,
            cpu_seconds=_cpu_seconds() - cpu_before,
        )

    def warm_up(self) -> None:
        """Both ends are connected and the reader's first fetch is over before the clock runs; nobody counts these."""
        for number in range(WARM_EVENTS):
            headers = record_headers(make_id(NO_RUN, number, 0))
            self.producer.produce(self.plan.topic, value=DATA, headers=headers)
            time.sleep(0.01)

    def send_at_rate(self, start_ns: int) -> None:
        for number in range(round(self.plan.seconds * self.plan.rate)):
            due_ns = start_ns + int(number * NANOSECONDS / self.plan.rate)
            wait_ns = due_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / NANOSECONDS)
            self.send(number, due_ns)

    def send_all_out(self, start_ns: int) -> None:
        end_ns = start_ns + int(self.plan.seconds * NANOSECONDS)
        while (now_ns := time.monotonic_ns()) < end_ns:
            if self.sent - self.answered >= self.plan.in_flight:
                time.sleep(0.0002)
            else:
                self.send(self.sent, now_ns)

    def send(self, number: int, due_ns: int) -> None:
        def acknowledged(error: Any, _: Any) -> None:
            self.last_answer_ns = time.monotonic_ns()
            self.answered += 1
            if error is None:
                self.latencies.append(self.last_answer_ns - due_ns)

        headers = record_headers(make_id(self.plan.run, number, due_ns))
        self.producer.produce(self.plan.topic, value=DATA, headers=headers, on_delivery=acknowledged)
        self.sent += 1

    def poll(self) -> None:
        while not self.stopping:
            self.producer.poll(0.05)


class Consuming:
    """The reading side: all partitions from their ends on, without a group."""

    def __init__(self, plan: KafkaPlan) -> None:
        self.marker = run_marker(plan.run)
        self.latencies = array("q")
        self.last_arrival_ns = 0
        self.expected = sys.maxsize
        connection = KafkaConnection(plan.bootstrap_servers, "bench")
        self.consumer: Consumer = connection.consumer(**{"enable.partition.eof": False})
        partitions = self.consumer.list_topics(plan.topic, timeout=10.0).topics[plan.topic].partitions
        self.consumer.assign([self.end_of(TopicPartition(plan.topic, number)) for number in partitions])

    def end_of(self, partition: TopicPartition) -> TopicPartition:
        partition.offset = self.consumer.get_watermark_offsets(partition, timeout=10.0)[1]
        return partition

    def run(self) -> ConsumeResult:
        threading.Thread(target=self.learn_expected, daemon=True).start()
        last_sign = time.monotonic()
        while len(self.latencies) < self.expected:
            if self.take():
                last_sign = time.monotonic()
            elif self.expected < sys.maxsize and time.monotonic() - last_sign > SILENCE_SECONDS:
                break
        self.consumer.close()
        return ConsumeResult(
            len(self.latencies), self.last_arrival_ns, summarize(self.latencies), cpu_seconds=_cpu_seconds()
        )

    def take(self) -> bool:
        message = self.consumer.poll(0.1)
        if message is None or message.error() is not None:
            return False
        now_ns = time.monotonic_ns()
        event_id: bytes = message.headers()[0][1]
        for _, sent_ns in read_ids(event_id, self.marker, 0, len(event_id)):
            self.latencies.append(now_ns - sent_ns)
            self.last_arrival_ns = now_ns
        return True

    def learn_expected(self) -> None:
        print(msgspec.json.encode({"ready": True}).decode(), flush=True)
        line = sys.stdin.readline()
        self.expected = msgspec.json.decode(line, type=dict[str, int])["expect"] if line else 0


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(argument: str) -> None:
    plan = msgspec.json.decode(argument, type=KafkaPlan)
    side = Producing(plan) if plan.role == "produce" else Consuming(plan)
    print(msgspec.json.encode(side.run()).decode())


if __name__ == "__main__":
    main(sys.argv[1])
