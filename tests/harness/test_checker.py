"""Promises of the checker: a clean run is clean, and each kind of wrong is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.harness.checker import check
from tests.harness.logs import Buried, Fault, Logs, Position, Seen, Sent, Stored, Wanted


def clean() -> Logs:
    """Ten events of two keys in one partition, seen by everybody once and in order; one of them failed at first."""
    logs = Logs(
        wanted=[Wanted("plain"), Wanted("even", only_even=True), Wanted("ordered", "ordered"), Wanted("key", "key")]
    )
    for offset in range(10):
        key, number = f"key{offset % 2}", offset // 2
        identity, at = f"{key}-{number}", 100.0 + offset
        logs.sent.append(Sent(identity, key, number, offset, "ok", at))
        logs.topic.append(Stored(0, offset, identity, offset))
        for wanted in logs.wanted:
            if wanted.only_even and number % 2:
                continue
            if offset == 4:
                logs.seen.append(Seen(wanted.name, identity, 0, offset, offset, 503, at + 0.1, at + 0.2))
            logs.seen.append(Seen(wanted.name, identity, 0, offset, offset, 200, at + 0.3, at + 0.4))
    for wanted in logs.wanted:
        logs.ledger += [Position(wanted.name, 0, 7, 3), Position(wanted.name, 0, 7, 10)]
        logs.finals[wanted.name, 0] = 10
    logs.ends[0] = 10
    return logs


def test_a_clean_run() -> None:
    """Kept promise: nothing is found where nothing is wrong, and delays are told."""
    findings = check(clean())
    assert findings.all == []
    assert findings.delays
    assert findings.longest_silence["plain"] > 0


def edit(name: str, identity: str, **changes: object) -> Callable[[Logs], None]:
    def do(logs: Logs) -> None:
        logs.seen = [
            each._replace(**changes) if (each.subscription, each.id) == (name, identity) else each  # type: ignore[arg-type]
            for each in logs.seen
        ]

    return do


def lose(logs: Logs) -> None:
    logs.seen = [each for each in logs.seen if (each.subscription, each.id) != ("plain", "key1-3")]


def make_up(logs: Logs) -> None:
    logs.seen.append(Seen("plain", "key9-1", 0, 99, 1, 200, 300.0, 300.1))


def refuse(logs: Logs) -> None:
    logs.sent[3] = logs.sent[3]._replace(outcome="refused")


def deliver_unwanted(logs: Logs) -> None:
    logs.seen.append(Seen("even", "key0-1", 0, 2, 2, 200, 300.0, 300.1))


def repeat(logs: Logs) -> None:
    logs.seen.append(Seen("plain", "key0-0", 0, 0, 0, 200, 300.0, 300.1))


def go_back(logs: Logs) -> None:
    logs.seen.append(Seen("ordered", "key0-2", 0, 4, 4, 503, 300.0, 300.1))


def overtake(logs: Logs) -> None:
    edit("key", "key0-2", began=101.0, ended=101.1)(logs)  # long before key0-1


def overlap(logs: Logs) -> None:
    edit("ordered", "key1-2", began=104.35)(logs)  # while its predecessor is being answered


def leave_out(logs: Logs) -> None:
    logs.seen = [each for each in logs.seen if (each.subscription, each.id) != ("ordered", "key1-3")]
    logs.buried = [Buried("plain", "key1-3")]


def skip_a_failed_one(logs: Logs) -> None:
    logs.seen = [e for e in logs.seen if (e.subscription, e.id, e.status) != ("ordered", "key0-2", 200)]


def ledger_back(logs: Logs) -> None:
    logs.ledger.append(Position("plain", 0, 7, 9))


def ledger_behind(logs: Logs) -> None:
    logs.finals["plain", 0] = 9


@pytest.mark.parametrize(
    ("spoil", "letter"),
    [
        (lose, "L"),
        (make_up, "P"),
        (refuse, "P"),
        (deliver_unwanted, "P"),
        (edit("plain", "key0-1", digest=77), "P"),
        (repeat, "D"),
        (go_back, "O"),
        (overtake, "O"),
        (overlap, "O"),
        (leave_out, "O"),
        (skip_a_failed_one, "O"),
        (ledger_back, "G"),
        (ledger_behind, "G"),
    ],
)
def test_each_kind_of_wrong_is_found(spoil: Callable[[Logs], None], letter: str) -> None:
    """Kept promise: the checker can fail."""
    logs = clean()
    spoil(logs)
    assert letter in {each[0] for each in check(logs).all}


def test_what_is_given_up_is_not_lost_and_what_a_kill_cuts_off_may_come_twice() -> None:
    """Kept promise: the checker does not blame the system for what it is allowed to do."""
    logs = clean()
    lose(logs)
    logs.buried.append(Buried("plain", "key1-3"))
    logs.seen.append(Seen("ordered", "key1-4", 0, 9, 9, 200, 112.0, 112.1))
    logs.faults.append(Fault("2 kill", 110.0, 111.0, cuts=True))
    findings = check(logs)
    assert findings.all == []
    assert findings.repeated_by_faults == 1
    logs.faults = [replace(each, cuts=False) for each in logs.faults]
    assert check(logs).repeated


def test_a_phantom_subscription() -> None:
    """Kept promise: events at an address that nobody subscribed are found."""
    logs = clean()
    logs.seen.append(Seen("nobody", "key0-0", 0, 0, 0, 200, 1.0, 1.1))
    assert check(logs).phantoms
