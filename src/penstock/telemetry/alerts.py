"""The rules for alerts, made from the list of metrics. Written to ``deploy/prometheus/`` by ``make dashboards``.

Each has a page in ``docs/alerts/`` that says what it means and what to do, and a trial in
``deploy/prometheus/penstock-alerts.test.yaml``: it fires on a series that shows the fault, and not on a healthy one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.telemetry import metrics as m
from penstock.telemetry.promql import highest, increase, level, rate, series

BY = m.SUBSCRIPTION
WHO = "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }}"
DEAD_LETTERS_TOPIC = "penstock-deadletters"


@dataclass(frozen=True)
class Objectives:
    """What is promised. Burn rates and ages are measured against these."""

    success: float = 0.999  # share of events that are delivered in the end
    age_seconds: int = 300  # no event waits longer
    share_of_retention: float = 0.8  # from here on what waits is in danger of being deleted


@dataclass(frozen=True)
class Alert:
    name: str
    expression: str
    hold: str  # for how long it must be so
    severity: str  # critical: somebody must look now; warning: today
    summary: str
    page: str  # in docs/alerts/


def all_alerts(objectives: Objectives | None = None) -> tuple[Alert, ...]:
    promised = objectives or Objectives()
    return (*_success(promised), *_waiting(promised), *_dead_letters(promised), *_states(), *_system())


def _success(promised: Objectives) -> Iterable[Alert]:
    """Two windows each: the long one says that it matters, the short one that it is still going on."""
    for name, page, factor, long, short, severity in (
        ("PenstockSuccessBurnsFast", "success-burns-fast", 14.4, "1h", "5m", "critical"),
        ("PenstockSuccessBurnsSlowly", "success-burns-slowly", 6.0, "6h", "30m", "warning"),
    ):
        limit = f"{factor * (1 - promised.success):.4g}"
        yield Alert(
            name,
            f"({_failed_share(long)} > {limit})\nand\n({_failed_share(short)} > {limit})",
            "1m",
            severity,
            f"{WHO} fails {{{{ $value | humanizePercentage }}}} of its events; "
            f"{100 * (1 - promised.success):.2g} % are allowed for.",
            page,
        )


def _failed_share(window: str) -> str:
    dead, given_up, delivered = (rate(x, window=window, by=BY) for x in (m.DEAD_LETTERED, m.GIVEN_UP, m.DELIVERED))
    return f"({dead} + {given_up})\n/ (({delivered} + {dead} + {given_up}) > 0)"


def _waiting(promised: Objectives) -> Iterable[Alert]:
    yield Alert(
        "PenstockEventsWaitTooLong",
        f"{highest(m.OLDEST_WAITING, by=BY)} > {promised.age_seconds}\n{_unless_paused()}",
        "2m",
        "critical",
        f"An event waits for {WHO} since {{{{ $value | humanizeDuration }}}}.",
        "events-wait-too-long",
    )
    lag = level(m.LAG_EVENTS, by=BY)
    yield Alert(
        "PenstockLagGrows",
        f"sum by ({', '.join(BY)}) (deriv({series(m.LAG_EVENTS, window='15m')})) > 0.1\n"
        f"and ({lag} > 100)\n{_unless_paused()}",
        "15m",
        "warning",
        f"{WHO} falls behind by {{{{ $value | humanize }}}} events a second.",
        "lag-grows",
    )
    yield Alert(
        "PenstockPartitionStalled",
        f"{highest(m.LAST_COMMIT, by=BY)} > 600\n{_unless_paused()}",
        "1m",
        "critical",
        f"A partition of {WHO} has events waiting and has not moved for {{{{ $value | humanizeDuration }}}}.",
        "partition-stalled",
    )
    yield Alert(
        "PenstockEventsNearRetention",
        f"{highest(m.OLDEST_WAITING, by=BY)}\n"
        f"/ ({highest(m.SUBSCRIPTION_RETENTION, by=BY)} > 0)\n> {promised.share_of_retention:g}",
        "5m",
        "critical",
        f"The oldest event that waits for {WHO} has used {{{{ $value | humanizePercentage }}}} of its topic's "
        "retention. Kafka will delete it.",
        "events-near-retention",
    )


def _dead_letters(promised: Objectives) -> Iterable[Alert]:
    yield Alert(
        "PenstockNewDeadLetters",
        f"{increase(m.DEAD_LETTERED, window='10m', by=BY)} + {increase(m.GIVEN_UP, window='10m', by=BY)} > 0",
        "0m",
        "warning",
        f'{{{{ $value | printf "%.0f" }}}} events were not delivered to {WHO} in ten minutes.',
        "new-dead-letters",
    )
    matcher = f'topic="{DEAD_LETTERS_TOPIC}"'
    yield Alert(
        "PenstockDeadLettersNearRetention",
        f"{highest(m.OLDEST_DEAD_LETTER, by=BY)}\n"
        f"/ on () group_left () ({highest(m.RETENTION, matcher)} > 0)\n> {promised.share_of_retention:g}",
        "5m",
        "warning",
        f"The oldest dead letter of {WHO} has used {{{{ $value | humanizePercentage }}}} of the retention. "
        "Kafka will delete it.",
        "dead-letters-near-retention",
    )


def _states() -> Iterable[Alert]:
    yield Alert(
        "PenstockParked",
        f"{highest(m.PARKED, by=BY)} == 1",
        "15m",
        "warning",
        f"{WHO} is so slow that it has had a query of its own for a quarter of an hour.",
        "parked",
    )
    yield Alert(
        "PenstockPausedForADay",
        f"{highest(m.PAUSED, by=BY)} == 1",
        "24h",
        "warning",
        f"{WHO} has been paused for a day, and its events wait.",
        "paused-for-a-day",
    )


def _system() -> Iterable[Alert]:
    now, last_week = (increase(m.ACCEPTED, window="1h", by=m.ADDRESS, offset=each) for each in ("", "1w"))
    yield Alert(
        "PenstockSourceSilent",
        f"{now} == 0\nand ({last_week} > 10)",
        "15m",
        "warning",
        f"Nothing has come to {WHO} for an hour; a week ago at this time it was busy.",
        "source-silent",
    )
    reasons = "|".join(reason for reason, code in m.REJECTION_CLASS.items() if code == "5xx")
    refused = rate(m.REJECTED, f'reason=~"{reasons}"', window="5m")
    yield Alert(
        "PenstockIngressErrors",
        f"{refused}\n/ (({rate(m.ACCEPTED, window='5m')} + {refused}) > 0)\n> 0.01",
        "5m",
        "critical",
        "{{ $value | humanizePercentage }} of the requests of senders are answered with 5xx.",
        "ingress-errors",
    )
    kafka = 'part="kafka"'
    yield Alert(
        "PenstockKafkaUnreachable",
        f"{highest(m.KAFKA_BROKERS)} == 0\nor max ({series(m.PART_UP, kafka)}) == 0",
        "1m",
        "critical",
        "Kafka cannot be reached: nothing is accepted, and nothing is delivered.",
        "kafka-unreachable",
    )
    yield Alert(
        "PenstockExporterAbsent",
        f"absent({series(m.PART_UP)})",
        "5m",
        "critical",
        "Prometheus gets no numbers from Penstock: whatever goes wrong now, no other alert will tell.",
        "exporter-absent",
    )


def _unless_paused() -> str:
    return f"unless {highest(m.PAUSED, by=BY)} == 1"


def rules(objectives: Objectives | None = None) -> str:
    """The file for Prometheus."""
    shown = [
        {
            "alert": each.name,
            "expr": _Block(each.expression),
            "for": each.hold,
            "labels": {"severity": each.severity},
            "annotations": {"summary": each.summary, "runbook": f"docs/alerts/{each.page}.md"},
        }
        for each in all_alerts(objectives)
    ]
    head = "# Made from the list of metrics by `make dashboards`; changes here are lost.\n"
    body = yaml.dump({"groups": [{"name": "penstock", "rules": shown}]}, Dumper=_Dumper, sort_keys=False, width=1000)
    return head + str(body)


class _Block(str):
    """Text that is written line by line."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _block(dumper: Any, text: _Block) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text) + "\n", style="|")


_Dumper.add_representer(_Block, _block)
