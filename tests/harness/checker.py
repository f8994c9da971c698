"""Finds what was lost, made up, repeated, out of order, or wrong in the ledger. Pure: five logs in, findings out.

L  acknowledged and wanted, but neither answered with 2xx nor in the record of what was given up
P  seen, but never sent, definitely refused, altered, or not wanted by this subscription
D  answered with 2xx more than once, although nothing was cut off at that time
O  begun before its predecessor was finished; or gone back without a cause, or with a gap
G  the ledger went back within a generation, or does not say that everything is finished
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.harness.logs import Fault, Logs, Seen, Sent, Stored, Wanted

BEFORE_SECONDS = 1.5  # how long before a fault something may have been delivered that the ledger did not say yet
AFTER_SECONDS = 8.0  # and how long after it: whoever was stopped wakes up, whoever was killed is replaced


@dataclass
class Findings:
    lost: list[str] = field(default_factory=list)
    phantoms: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    disorder: list[str] = field(default_factory=list)
    ledger: list[str] = field(default_factory=list)
    repeated_by_faults: int = 0
    delays: list[float] = field(default_factory=list)  # from the acknowledgement to the first 2xx
    longest_silence: dict[str, float] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        return [
            f"{letter}: {each}"
            for letter, found in zip(
                "LPDOG", (self.lost, self.phantoms, self.repeated, self.disorder, self.ledger), strict=True
            )
            for each in found
        ]


def check(logs: Logs) -> Findings:
    findings = Findings()
    sent = {each.id: each for each in logs.sent}
    buried = {(each.subscription, each.id) for each in logs.buried}
    by_subscription: dict[str, list[Seen]] = defaultdict(list)
    for each in logs.seen:
        by_subscription[each.subscription].append(each)
    for wanted in logs.wanted:
        seen = sorted(by_subscription.pop(wanted.name, []), key=lambda each: each.began)
        taken: dict[str, list[Seen]] = defaultdict(list)
        for each in seen:
            if 200 <= each.status < 300:
                taken[each.id].append(each)
        gone = {identity for name, identity in buried if name == wanted.name}
        findings.lost += _lost(wanted, logs.sent, taken.keys() | gone)
        findings.phantoms += _phantoms(wanted, sent, seen)
        _repeated(findings, wanted, taken.values(), logs.faults)
        findings.disorder += _disorder(wanted, seen, gone, logs)
        findings.delays += [
            found[0].ended - sent[identity].at for identity, found in taken.items() if identity in sent
        ]
        findings.longest_silence[wanted.name] = _longest_silence(seen)
    findings.phantoms += [f"{name}: nobody of this name was there" for name in by_subscription]
    findings.ledger += _ledger(logs)
    return findings


def _wants(wanted: Wanted, each: Sent) -> bool:
    return each.at >= wanted.since and (not wanted.only_even or each.number % 2 == 0)


def _lost(wanted: Wanted, sent: Iterable[Sent], arrived: set[str]) -> Iterator[str]:
    for each in sent:
        if each.outcome == "ok" and _wants(wanted, each) and each.id not in arrived:
            yield f"{wanted.name} never had {each.id}"


def _phantoms(wanted: Wanted, sent: dict[str, Sent], seen: Iterable[Seen]) -> Iterator[str]:
    for each in seen:
        origin = sent.get(each.id)
        if origin is None:
            yield f"{wanted.name} got {each.id}, which nobody sent"
        elif origin.outcome == "refused":
            yield f"{wanted.name} got {each.id}, which was refused"
        elif origin.digest != each.digest:
            yield f"{wanted.name} got {each.id} with other data"
        elif wanted.only_even and origin.number % 2:
            yield f"{wanted.name} got {each.id}, which its filter excludes"


def _repeated(findings: Findings, wanted: Wanted, taken: Iterable[list[Seen]], faults: list[Fault]) -> None:
    cuts = [(f.began - BEFORE_SECONDS, f.ended + AFTER_SECONDS) for f in faults if f.cuts]
    for found in taken:
        for first, again in itertools.pairwise(found):
            if any(began <= first.ended <= ended for began, ended in cuts):
                findings.repeated_by_faults += 1
            else:
                since = max((f.ended for f in faults if f.began <= first.ended), default=first.ended)
                when = (
                    f"{first.ended - since:.1f} s after the last fault, and {again.began - first.ended:.1f} s later"
                )
                where = f"{first.id} ({first.partition}/{first.offset})"
                findings.repeated.append(f"{wanted.name} took {where} twice, and nothing had been cut off: {when}")


def _disorder(wanted: Wanted, seen: list[Seen], gone: set[str], logs: Logs) -> Iterator[str]:
    """Per key, or per partition when all is ordered: the next begins when its predecessor is finished."""
    if wanted.order == "unordered":
        return
    lines: dict[tuple[int, str], list[Seen]] = defaultdict(list)
    for each in seen:
        key = each.id.rpartition("-")[0] if wanted.order == "key" else ""
        lines[each.partition, key].append(each)
    stored: dict[tuple[int, str], list[Stored]] = defaultdict(list)
    for record in logs.topic:
        number = int(record.id.rpartition("-")[2])
        if not (wanted.only_even and number % 2):
            key = record.id.rpartition("-")[0] if wanted.order == "key" else ""
            stored[record.partition, key].append(record)
    may_rewind = any(fault.cuts for fault in logs.faults)
    for line, requests in lines.items():
        follows = {before.offset: after.offset for before, after in zip(stored[line], stored[line][1:], strict=False)}
        yield from _disorder_in(wanted.name, requests, follows, gone, may_rewind=may_rewind)


def _disorder_in(
    name: str, requests: list[Seen], follows: dict[int, int], gone: set[str], *, may_rewind: bool
) -> Iterator[str]:
    last: Seen | None = None
    for each in requests:
        if last is not None:
            where = f"{name}, partition {each.partition}: offset {each.offset} behind {last.offset}"
            is_finished = 200 <= last.status < 300 or last.id in gone
            if each.began < last.ended and last.status:
                yield f"{where} before it was answered"
            elif each.offset > last.offset:
                if follows.get(last.offset) != each.offset:
                    yield f"{where}: something was left out"
                elif not is_finished:
                    yield f"{where}, which had failed with {last.status}"
            elif each.offset < last.offset and not may_rewind:
                yield f"{where}: it went back, and nothing had been cut off"
        last = each


def _ledger(logs: Logs) -> Iterator[str]:
    highest: dict[tuple[str, int, int], int] = {}
    for each in logs.ledger:
        key = (each.subscription, each.partition, each.generation)
        if each.position < highest.get(key, 0):
            yield f"{each.subscription}/{each.partition} went back from {highest[key]} to {each.position}"
        highest[key] = max(highest.get(key, 0), each.position)
    for (subscription, partition), position in logs.finals.items():
        end = logs.ends.get(partition, 0)
        if position != end:
            yield f"{subscription}/{partition} stands at {position}, the partition ends at {end}"


def _longest_silence(seen: list[Seen]) -> float:
    return max((after.began - before.began for before, after in itertools.pairwise(seen)), default=0.0)
