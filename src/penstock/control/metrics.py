"""Everything that the controller knows, as samples of the metrics in ``telemetry.metrics``: for Prometheus and OTLP.

In: what processes told, added up, and the last look at the system. Out: samples; counters are there at 0 from the
start for everything that is known. Subscriptions and addresses beyond a number share one series with the name
``others``, so a scrape stays bounded however many there are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.contract.model import DEAD_LETTERS_TOPIC, QueryReport, place_of
from penstock.contract.telemetry import Holds
from penstock.control.folding import OTHERS, Folding, Labels
from penstock.control.kinds import EGRESS, INGRESS, WITH_STATUS, Resource, condition, key_of, uid_of
from penstock.control.live_rows import View, view_of
from penstock.control.observe import Sight
from penstock.control.standing import consumed, in_seconds, judged, limited, matched
from penstock.control.telemetry import OfAddress, OfSubscription, State, Sums
from penstock.control.world import World
from penstock.delivery.lane import Counts as LaneCounts
from penstock.telemetry import metrics as m
from penstock.telemetry.exposition import CONTENT_TYPE as CONTENT_TYPE
from penstock.telemetry.exposition import Sample, render
from penstock.telemetry.histogram import Durations

OUTCOMES = tuple(each.name for each in fields(LaneCounts))
GEARS = ("live", "bulk", "cold")
OF_RECEIVERS = (m.INGRESS_IN_FLIGHT, m.INGRESS_CONNECTIONS)  # who has nothing to tell has none
TELLING = ("receiver", "worker", "dispatcher")  # parts that tell of themselves


@dataclass(frozen=True)
class Known:
    """What the samples are made of besides a View."""

    view: View
    reports: list[QueryReport]
    states: list[State]
    consumed_by: Mapping[tuple[str, str, int], int]  # by uid, place and partition
    most: int  # series of subscriptions
    window: int = 0  # requests at once per subscription and partition; 0: not known


def text(world: World, sight: Sight, now: float) -> bytes:
    return render(samples(world, sight, now), always=m.METRICS)


def text_of_parts(sight: Sight) -> bytes:
    """While the controller is starting."""
    return render(samples_of_parts(sight))


def samples_of_parts(sight: Sight) -> list[Sample]:
    return [Sample(m.PART_UP, (part.name,), int(part.is_well)) for part in sight.parts]


def samples(world: World, sight: Sight, now: float) -> Iterator[Sample]:
    known = Known(
        view=view_of(world, sight, now),
        reports=world.reports.queries(),
        states=world.counts.states(),
        consumed_by=world.counts.consumed_by(),
        most=world.settings.metrics_subscriptions,
        window=world.reports.delivery_window(),
    )
    return of_everything(known)


def of_everything(known: Known) -> Iterator[Sample]:
    view, sums = known.view, known.view.sums
    yield from samples_of_parts(view.sight)
    yield from _resources(view.resources)
    yield from _kafka(view.sight)
    yield from _topics(view, known.reports)
    yield from _addresses(view, known.most)
    yield from _subscriptions(known)
    yield from _processes(known.states, sums)


def _resources(resources: list[Resource]) -> Iterator[Sample]:
    counts = Counter((each["kind"], condition(each, "Ready")["status"]) for each in resources if "status" in each)
    for kind in WITH_STATUS:
        for ready in ("True", "False", "Unknown"):
            yield Sample(m.RESOURCES, (kind.name, ready), counts[kind.name, ready])


def _kafka(sight: Sight) -> Iterator[Sample]:
    state = sight.kafka
    for metric, value in (
        (m.KAFKA_BROKERS, state.brokers),
        (m.KAFKA_OFFLINE, state.offline),
        (m.KAFKA_UNDER_REPLICATED, state.under_replicated),
        (m.KAFKA_DISK, state.disk_bytes),
        (m.KAFKA_DISK_FREE, state.disk_free_bytes),
    ):
        if value is not None:
            yield Sample(metric, (), value)


def _topics(view: View, reports: list[QueryReport]) -> Iterator[Sample]:
    sight, sums, agreed = view.sight, view.sums, view.agreements.values()
    places = {each.place for agreement in agreed for each in agreement.subscriptions}
    places |= {place_of(route.topic, route.cluster) for agreement in agreed for route in agreement.routes}
    if sight.kafka.dead_letters_retention_ms is not None:
        yield Sample(m.RETENTION, (DEAD_LETTERS_TOPIC,), in_seconds(sight.kafka.dead_letters_retention_ms))
    for topic in sight.kafka.topics:
        if topic.retention_ms is not None:
            yield Sample(m.RETENTION, (topic.place,), in_seconds(topic.retention_ms))
        for partition, (_, end) in sorted(topic.offsets.items()):
            yield Sample(m.TOPIC_END, (topic.place, str(partition)), end)
            if (topic.place, partition) not in sums.consumed:
                yield Sample(m.CONSUMED, (topic.place, str(partition)), 0)
    for (place, partition), count in sorted(sums.consumed.items()):
        yield Sample(m.CONSUMED, (place, str(partition)), count)
    for metric, counts in (
        (m.PRODUCED, sums.produced),
        (m.PRODUCED_FORMER, sums.produced),
        (m.BAD_RECORDS, sums.bad_records),
        (m.GAPS, sums.gaps),
        (m.QUERY_STARTS, sums.query_starts),
    ):
        for place in sorted(places | counts.keys()):
            yield Sample(metric, (place,), counts[place])
    for place in sorted(places | sums.batch_gaps.keys()):
        yield Sample(m.BATCH_GAP, (place,), sums.batch_gaps.get(place) or Durations({}))
    for report in reports:
        for gear in GEARS:
            yield Sample(m.QUERY_STATE, (report.topic, gear), int(report.state == "running" and report.gear == gear))


def _addresses(view: View, most: int) -> Iterator[Sample]:
    resources = {}
    for resource in oldest_first(view.resources, INGRESS):
        agreement = view.agreements.get(key_of(resource))
        path = agreement.routes[0].path if agreement is not None and agreement.routes else ""
        resources[path or f"/{resource['metadata']['namespace']}/{resource['metadata']['name']}"] = resource
    folding = Folding(most)
    for path, resource in resources.items():
        _of_address(folding, folding.labels(resource), view.sums.addresses.get(path) or OfAddress())
    _of_address(folding, ("", "", ""), view.sums.addresses.get("") or OfAddress())
    yield from folding.samples()


def _of_address(folding: Folding, labels: Labels, sums: OfAddress) -> None:
    folding.add(m.ACCEPTED, labels, sums.accepted)
    for reason in {**dict.fromkeys(m.REJECTIONS), **sums.rejected}:
        folding.add(m.REJECTED, (*labels, reason), sums.rejected[reason])
    folding.add(m.INGRESS_SECONDS, labels, sums.seconds)


def _subscriptions(known: Known) -> Iterator[Sample]:
    view, folding = known.view, Folding(known.most)
    apart = {uid for report in known.reports for uid in report.apart}
    groups: dict[str, str] = {}
    read, kept = consumed(known.consumed_by), {each.place: each.retention_ms for each in view.sight.kafka.topics}
    for resource in oldest_first(view.resources, EGRESS):
        key, uid, labels = key_of(resource), uid_of(resource), folding.labels(resource)
        agreed = view.agreements.get(key)
        is_paused = any(each.is_paused(view.now) for each in agreed.subscriptions) if agreed is not None else False
        _counted(folding, labels, view.sums.subscriptions.get(uid) or OfSubscription())
        holds, dead = view.holds.get(uid) or Holds(), view.sight.dead.get(uid)
        folding.add(m.IN_FLIGHT, labels, holds.in_flight)
        folding.add(m.UNFINISHED, labels, holds.unfinished)
        folding.most(m.PARKED, labels, int(uid in apart))
        folding.most(m.PAUSED, labels, int(is_paused))
        folding.add(m.DEAD_LETTERS, labels, dead.count if dead else 0)
        folding.most(m.OLDEST_DEAD_LETTER, labels, max(0.0, view.now - dead.oldest) if dead else 0)
        _behind(folding, labels, view.sight, key)
        judged(folding, labels, view, resource, kept)
        limited(folding, labels, agreed, len(view.sight.lags.get(key) or ()), known.window)
        folding.add(m.FILTERED, labels, max(0, read[uid] - matched(view, uid)))
        if agreed is not None and agreed.subscriptions:
            groups[uid] = agreed.subscriptions[0].group if labels[2] != OTHERS else OTHERS
    for (uid, place, partition), count in known.consumed_by.items():
        if uid in groups:
            folding.add(m.CONSUMED_FORMER, (groups[uid], str(partition), place), count)
    yield from folding.samples()
    yield Sample(m.SERIES_FOLDED, (), folding.folded)


def _counted(folding: Folding, labels: Labels, sums: OfSubscription) -> None:
    folding.add(m.MATCHED, labels, sums.matched)
    folding.add(m.RETRIES, labels, sums.retries)
    for metric, outcome in (
        (m.DELIVERED, "delivered"),
        (m.DEAD_LETTERED, "dead_lettered"),
        (m.GIVEN_UP, "given_up"),
        (m.REPLIES, "replies"),
        (m.LOOPS_CUT, "loops_cut"),
    ):
        folding.add(metric, labels, sums.outcomes[outcome])
    for outcome in OUTCOMES:
        folding.add(m.OUTCOMES, (*labels, outcome), sums.outcomes[outcome])
    for answer in m.CLASSES:
        folding.add(m.ATTEMPTS, (*labels, answer), sums.attempts[answer])
    for error, count in sums.filter_errors.items():
        folding.add(m.FILTER_ERRORS, (*labels, error), count)
    folding.add(m.KAFKA_TO_SUBSCRIBER, labels, sums.kafka_to_subscriber)
    folding.add(m.SUBSCRIBER_SECONDS, labels, sums.subscriber)
    folding.add(m.WHOLE_WAY, labels, sums.whole_way)


def _behind(folding: Folding, labels: Labels, sight: Sight, key: str) -> None:
    """What is not known is not shown: a number that was true once would hide that nobody answers."""
    lag, age = sight.lag(key), sight.ages.get(key)
    if lag is not None:
        folding.add(m.LAG_EVENTS, labels, lag)
    if age is not None:
        folding.most(m.LAST_COMMIT, labels, round(age.stalled, 2))
        if age.oldest is not None:
            folding.most(m.OLDEST_WAITING, labels, round(age.oldest, 3))
        if age.behind is not None:
            folding.most(m.LAG_SECONDS, labels, round(age.behind, 3))


def _processes(states: list[State], sums: Sums) -> Iterator[Sample]:
    """States of processes, added up over all of a kind."""
    gauges: dict[tuple[str, ...], float] = {(each.name,): 0.0 for each in OF_RECEIVERS}
    for state in states:
        for name, value in state.gauges.items():
            gauges[tuple(name.split(":"))] = gauges.get(tuple(name.split(":")), 0.0) + value
    for (name, *labels), value in sorted(gauges.items()):
        metric = m.BY_NAME.get(name)
        if metric is not None and metric.kind == "gauge" and len(labels) == len(metric.labels):
            yield Sample(metric, tuple(labels), value)
    for part in TELLING:
        yield Sample(m.TELEMETRY_DROPPED, (part,), sums.dropped[part])


def oldest_first(resources: list[Resource], kinds: Iterable[Any]) -> list[Resource]:
    """Who came first keeps a series of its own when others come."""
    names = {kind.name for kind in kinds}
    found = [each for each in resources if each["kind"] in names]
    return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], key_of(each)))
