"""What is run, in this order: the table of scenarios is at the end.

Each scenario takes a Bench and adds runs to its results. The baselines come before any trigger exists, so that the
dispatcher idles beside them, and after the ingress, so that Kafka is warm.
"""

from collections.abc import Callable

from msgspec.structs import replace

from bench.backlog import backlog, ordered
from bench.baselines import kafka_alone, plain_broker, simple_consumer
from bench.children import Sink, run_load
from bench.costs import traces
from bench.explaining import explain
from bench.filters import cesql_100, exact_1000, ten_terms
from bench.hour import hour
from bench.kinds import kinds, many
from bench.load import LoadPlan
from bench.measure import Arrangement, Bench, Offer, combine, measure, measure_idle, per_event, warm_up
from bench.model import FULL, GENERATOR, INGRESS, PENSTOCK, Run
from bench.neighbours import hanging, idle_brokers
from bench.profile import Profile
from bench.seeing import telemetry
from bench.system import broker, trigger
from bench.truth import truth

BROKER = "bench"


def generator(sink: Sink, profile: Profile) -> Run:
    """What generator and sink can do with nothing between them: they must not be what limits the rest."""
    run = 9999
    sink.reset(run)
    load = run_load(LoadPlan(sink.url(0), run, profile.generator_seconds))
    stats = sink.stats()
    cpu = per_event({"generator": load.cpu_seconds, "sink": stats.cpu_seconds}, load.acknowledged)
    return replace(combine(Arrangement(GENERATOR, 1, sink.url(0)), FULL, load, stats), cpu_us_per_event=cpu)


def idle(bench: Bench) -> None:
    measure_idle(bench, "just started")


def ingress(bench: Bench) -> None:
    """HTTP to Kafka's acknowledgement, with nobody waiting for the events."""
    arrangement = Arrangement(INGRESS, 0, plain_broker(bench))
    warm_up(bench, arrangement, bench.profile.warm_seconds / 3)
    for rate in bench.profile.rates:
        measure(bench, arrangement, Offer(rate, bench.profile.baseline_seconds))
    measure(bench, arrangement, Offer(seconds=bench.profile.baseline_seconds))


def kafka(bench: Bench) -> None:
    for rate in bench.profile.rates:
        kafka_alone(bench, Offer(rate, bench.profile.baseline_seconds))
    kafka_alone(bench, Offer(seconds=bench.profile.baseline_seconds / 2))


def consumer(bench: Bench) -> None:
    profile = bench.profile
    steady = [Offer(rate, profile.baseline_seconds) for rate in profile.rates]
    simple_consumer(bench, 1, [*steady, Offer(seconds=profile.full_seconds, events=profile.consumer_events_one)])
    # A thousand events a second to ten subscribers is a multiple of what this loop can do.
    bearable = [offer for offer in steady if offer.rate <= 200]
    simple_consumer(bench, 10, [*bearable, Offer(seconds=profile.full_seconds, events=profile.consumer_events_ten)])


def idle_trigger(bench: Bench) -> None:
    with_triggers(bench, 1)
    measure_idle(bench, "one trigger")


def one(bench: Bench) -> None:
    through_penstock(bench, 1, bench.profile.full_events_one)


def ten(bench: Bench) -> None:
    through_penstock(bench, 10, bench.profile.full_events_ten)


def idle_after(bench: Bench) -> None:
    if not bench.results.quick:
        measure_idle(bench, "after the load")


def through_penstock(bench: Bench, triggers: int, full_events: int) -> None:
    profile = bench.profile
    arrangement = Arrangement(PENSTOCK, triggers, with_triggers(bench, triggers))
    warm_up(bench, arrangement, profile.warm_seconds)
    for rate in profile.rates:
        measure(bench, arrangement, Offer(rate, profile.steady_seconds))
    measure(bench, arrangement, Offer(seconds=profile.full_seconds, events=full_events))


def with_triggers(bench: Bench, count: int) -> str:
    """The address of a broker with so many triggers, each with its own path of the sink."""
    if not bench.triggers_applied:
        bench.system.apply(broker(BROKER))
    missing = range(bench.triggers_applied, count)
    if missing:
        with bench.step(f"apply {len(missing)} trigger{'s' if len(missing) > 1 else ''}"):
            bench.system.apply(*(trigger(f"bench-{n}", BROKER, bench.sink.url(n)) for n in missing))
        bench.triggers_applied = count
    return bench.system.address(BROKER)


SCENARIOS: dict[str, Callable[[Bench], None]] = {
    "idle": idle,
    "ingress": ingress,
    "kafka": kafka,
    "consumer": consumer,
    "idle-trigger": idle_trigger,
    "one": one,
    "ten": ten,
    "idle-after": idle_after,
    "hanging": hanging,
    "hour": hour,
    "backlog": backlog,
    "ordered": ordered,
    "ten-terms": ten_terms,
    "cesql-100": cesql_100,
    "exact-1000": exact_1000,
    "idle-brokers": idle_brokers,
    "kinds": kinds,
    "many": many,
    "explain": explain,
    "telemetry": telemetry,
    "truth": truth,
    "traces": traces,
}
