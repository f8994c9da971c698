"""One run of the harness: a system of its own, load, a seeded mix of faults, and the check at the end."""

import contextlib
import gc
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from confluent_kafka import TopicPartition

from penstock.contract.model import DEAD_LETTERS_TOPIC, LEDGER_TOPIC, decode_dead_letter
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import LaneKey, LaneRecord, decode_key, read_ledger
from tests.conftest import System
from tests.harness import subscriber as moods
from tests.harness.checker import Findings, check
from tests.harness.faults import FAULTS, FaultKind
from tests.harness.logs import Buried, Fault, Logs, Position, Stored, Wanted
from tests.harness.senders import Senders
from tests.harness.subscriber import HostileSubscriber, Mood
from tests.system.resources import apply, broker, get, remove, trigger
from tests.waiting import until

ORDER = "kafka.eventing.knative.dev/delivery.order"
FIRST = -10  # as niceness
BROKER = "harness"
TOPIC = f"knative-broker-default-{BROKER}"
PATIENT = {
    "retry": 200,
    "backoffPolicy": "linear",
    "backoffDelay": "PT0.3S",
    "timeout": "PT1S",
    "retryAfterMax": "PT2S",
}
IMPATIENT = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT0.1S", "timeout": "PT1S"}
ENVIRONMENT = {"PENSTOCK_UNFINISHED_ROWS": "60", "PENSTOCK_PRIVATE_QUERIES": "2"}  # lanes are parked early
FLOW_EVENTS = 100
SETTLED_SECONDS = 3.0
DRAIN_SECONDS = 240.0


class Harness:
    """``with`` a system; ``run`` does the rest."""

    def __init__(self, system: System, seed: int, scale: float = 1.0, say: Callable[[str], None] = print) -> None:
        self.system = system
        self.recovers = scale > 1.0  # between two faults; else they may meet
        self.scale = scale
        self.chance = random.Random(seed)
        self.subscriber = HostileSubscriber(seed).start()
        self.logs = Logs()
        self._say = say
        self._changes = 0
        self._connection = KafkaConnection(system.bootstrap_servers, "harness")
        url = self.subscriber.url
        sink = {"deadLetterSink": {"uri": url("sink")}}
        even = [{"exact": {"type": "even"}}]
        self.resources = [
            broker(BROKER),
            trigger("plain", BROKER, url("plain"), delivery=PATIENT),
            trigger("even", BROKER, url("even"), delivery=PATIENT, filters=even),
            trigger("ordered", BROKER, url("ordered"), {ORDER: "ordered"}, delivery=PATIENT),
            trigger("key", BROKER, url("key"), {ORDER: "key"}, delivery=PATIENT),
            trigger("batched", BROKER, url("batched"), {"penstock.dev/delivery.batch": "20"}, delivery=PATIENT),
            trigger("refusing", BROKER, url("refusing"), delivery={**IMPATIENT, **sink}),
            trigger("given-up", BROKER, url("given-up"), {ORDER: "ordered"}, delivery=IMPATIENT),
        ]
        self.logs.wanted += [
            Wanted("plain"),
            Wanted("even", only_even=True),
            Wanted("ordered", "ordered"),
            Wanted("key", "key"),
            Wanted("batched"),
            Wanted("refusing"),
            Wanted("given-up", "ordered"),
        ]
        self.subscriber.moods |= {"refusing": moods.refusing, "given-up": moods.refusing, "plain": moods.slow}

    # ── what faults may do ────────────────────────────────────────────────────────────────────────

    def change_triggers(self) -> None:
        self._changes += 1
        extra = trigger(f"extra{self._changes}", BROKER, self.subscriber.url("extra"), delivery=PATIENT)
        applied = self.system.run("apply", "-f", "-", stdin=json.dumps(extra))
        if applied.returncode == 0:  # the controller, or Kafka, may be away
            remove(self.system, extra)

    def set_mood(self, mood: Mood | None) -> None:
        if mood is None:
            self.subscriber.moods |= dict.fromkeys(("even", "ordered", "key", "batched"), moods.well)
        else:
            for name in self.chance.sample(("even", "ordered", "key", "batched"), 2):
                self.subscriber.moods[name] = mood

    def pause_and_resume(self, seconds: float) -> None:
        name = self.chance.choice(("plain", "even", "ordered"))
        self.system.run("pause", "trigger", name, "--reason", "harness")
        over = time.monotonic() + seconds
        until(lambda: time.monotonic() >= over, "time", seconds + 10)
        until(lambda: self.system.run("resume", "trigger", name).returncode == 0, "the trigger is resumed", 90)

    # ── the run ───────────────────────────────────────────────────────────────────────────────────

    def run(self, seconds: float, rate: float, kinds: tuple[FaultKind, ...] = FAULTS) -> Findings:
        """The subscriber is in this process, and judges others by what it sees: it must not be late itself, or it
        rightly gets events twice. So this process goes first where that is allowed, and Python's collector is off: a
        million observations later it would stop everything for seconds."""
        gc.disable()
        try:
            return self._run(seconds, rate, kinds)
        finally:
            gc.enable()
            _prioritize(0)

    def _run(self, seconds: float, rate: float, kinds: tuple[FaultKind, ...]) -> Findings:
        apply(self.system, *self.resources)
        senders = Senders(f"{self.system.ingress_url}/default/{BROKER}", 24, rate, self.chance.randrange(1 << 30))
        senders.start()
        _prioritize(FIRST)
        until(lambda: len(self.subscriber.log) > 200, "the first events", 90)
        over = time.monotonic() + seconds
        turn: list[FaultKind] = []
        while time.monotonic() < over:
            turn = turn or self.chance.sample(kinds, len(kinds))
            self._do(turn.pop())
        senders.stop()
        self.logs.sent = senders.log
        for name in ("refusing", "given-up"):
            self.subscriber.moods[name] = moods.well
        self._settle()
        self._gather()
        return check(self.logs)

    def _do(self, kind: FaultKind) -> None:
        began = time.time()
        kind.do(self)
        ended = time.time()
        self.logs.faults.append(Fault(kind.name, began, ended, kind.cuts))
        self._say(f"{kind.name} ({ended - began:.1f} s), {len(self.subscriber.log)} seen")
        if self.recovers:
            seen = len(self.subscriber.log)
            until(lambda: len(self.subscriber.log) > seen + FLOW_EVENTS, "events flow again", 120)
        rest = time.monotonic() + self.chance.uniform(1.0, 3.0) * self.scale
        until(lambda: time.monotonic() >= rest, "the next fault")

    def _settle(self) -> None:
        """Until everybody has had everything, and for a while afterwards: what comes twice comes late."""
        uids = {name: get(self.system, "trigger", name)["metadata"]["uid"] for name in self._names()}
        (state,) = topics.describe(self._connection.admin(), [TOPIC]).values()
        quiet_since = 0.0

        def is_settled() -> bool:
            nonlocal quiet_since
            ends = topics.latest_offsets(self._connection.admin(), TOPIC, state.partitions)
            known = read_ledger(self._connection)
            finals = {}
            for name, uid in uids.items():
                for partition in ends:
                    entry = known.entry(LaneKey(uid, state.topic_id, partition))
                    finals[name, partition] = entry.record.position if entry else 0
            self.logs.ends, self.logs.finals = ends, finals
            if any(position != ends[partition] for (_, partition), position in finals.items()):
                quiet_since = 0.0
                return False
            quiet_since = quiet_since or time.monotonic()
            return time.monotonic() - quiet_since > SETTLED_SECONDS

        until(is_settled, "everything is finished", DRAIN_SECONDS)
        self._uids = {uid: name for name, uid in uids.items()}

    def _names(self) -> list[str]:
        return [wanted.name for wanted in self.logs.wanted]

    def _gather(self) -> None:
        names = set(self._names())
        self.logs.seen = [each for each in self.subscriber.log if each.subscription in names]
        self.logs.subscriber_delay = self.subscriber.worst_delay
        for partition in self.logs.ends:
            for offset, _, value, headers in self._read(TOPIC, partition):
                identity = next(value for key, value in headers if key == "ce_id").decode()
                self.logs.topic.append(Stored(partition, offset, identity, len(value or b"")))
        for _, raw_key, raw, _ in self._read(LEDGER_TOPIC, 0):
            lane, generation = decode_key(raw_key)
            if raw is not None and lane.subscription_uid in self._uids:
                name = self._uids[lane.subscription_uid]
                position = msgspec.json.decode(raw, type=LaneRecord).position
                self.logs.ledger.append(Position(name, lane.partition, generation, position))
        for _, _, raw, _ in self._read(DEAD_LETTERS_TOPIC, 0):
            if raw is not None:
                letter = decode_dead_letter(raw)
                self.logs.buried.append(Buried(letter.name, letter.id))

    def _read(self, topic: str, partition: int) -> list[tuple[int, bytes, bytes | None, list[tuple[str, bytes]]]]:
        consumer = self._connection.consumer()
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            consumer.assign([TopicPartition(topic, partition, 0)])
            found: list[tuple[int, bytes, bytes | None, list[tuple[str, bytes]]]] = []
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and (not found or found[-1][0] < end - 1) and end:
                for message in consumer.consume(5000, 1.0):
                    if message.error() is None:
                        found.append((message.offset(), message.key(), message.value(), message.headers() or []))
            return found
        finally:
            consumer.close()


def _prioritize(niceness: int) -> None:
    """All threads of this process; without the right to do so it stays as it is."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


def report(findings: Findings, logs: Logs, seed: int) -> str:
    """What a person wants to read after a run."""
    delays = sorted(findings.delays)
    outcomes = {name: sum(each.outcome == name for each in logs.sent) for name in ("ok", "unknown", "refused")}
    silence = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in findings.longest_silence.items())
    lines = [
        f"seed {seed}: {len(logs.sent)} sent ({outcomes}), {len(logs.seen)} seen, {len(logs.buried)} given up or "
        f"dead-lettered, {len(logs.faults)} faults",
        f"lost {len(findings.lost)}, phantoms {len(findings.phantoms)}, out of order {len(findings.disorder)}, "
        f"ledger {len(findings.ledger)}, twice without a cause {len(findings.repeated)}, "
        f"twice after a fault {findings.repeated_by_faults}",
        f"delay p50 {_at(delays, 0.5):.3f} s, p99 {_at(delays, 0.99):.1f} s; longest silence: {silence}",
        f"the subscriber itself stood still for {logs.subscriber_delay:.2f} s at worst",
    ]
    return "\n".join([*lines, *findings.all[:20]])


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0
