"""The two baselines, on the Kafka that Penstock itself uses and in the same run.

Both use the topic of a broker without triggers, so the dispatcher has nothing to do with it. The simple consumer is
fed through Penstock's receiver: the same way in, so that what differs is only how events leave Kafka. Called by
``scenarios.py``.
"""

from bench.children import Child
from bench.consumer import ConsumerPlan, ConsumerResult
from bench.kafka_alone import ConsumeResult, KafkaPlan, ProduceResult
from bench.measure import Arrangement, Bench, Offer, measure, per_event, warm_up
from bench.model import CONSUMER, KAFKA, Run
from bench.pacing import NANOSECONDS
from bench.system import SystemFailed, broker

PLAIN_BROKER = "plain"
ANSWER_SECONDS = 60.0
WARM_SECONDS = 2.0  # nothing is compiled here; the first fetch takes half a second


def plain_broker(bench: Bench) -> str:
    """The address of the broker without triggers; it is made when first asked for."""
    if not bench.plain_topic:
        bench.system.apply(broker(PLAIN_BROKER))
        bench.plain_topic = bench.system.topic(f"/default/{PLAIN_BROKER}")
    return bench.system.address(PLAIN_BROKER)


def kafka_alone(bench: Bench, offer: Offer) -> Run:
    """Produce and consume the same events with nothing in between."""
    plain_broker(bench)
    run = bench.next_run()
    plan = KafkaPlan("consume", bench.system.bootstrap_servers, bench.plain_topic, run)
    with bench.step(f"{KAFKA}, {offer.label}"), Child("kafka_alone", plan) as reader:
        reader.hear(dict[str, bool])
        before = bench.system.snapshot()
        produced = _produce(bench, run, offer)
        reader.say({"expect": produced.acknowledged})
        consumed = reader.hear(ConsumeResult, ANSWER_SECONDS)
        cpu = bench.system.snapshot().cpu_since(before)
    # Only Kafka's own share and the two clients matter here; the rest of Penstock idles beside.
    cpu = {"kafka": cpu.get("kafka", 0.0), "producer": produced.cpu_seconds, "reader": consumed.cpu_seconds}
    span = max(consumed.last_arrival_ns - produced.first_sent_ns, 1) / NANOSECONDS
    found = Run(
        scenario=KAFKA,
        triggers=1,
        load=offer.label,
        sent=produced.sent,
        acknowledged=produced.acknowledged,
        codes={"acknowledged": produced.acknowledged},
        ingress=produced.latency,
        whole_way=consumed.latency,
        acknowledged_per_second=round(produced.acknowledged / produced.seconds, 1),
        deliveries=consumed.count,
        missing=max(produced.acknowledged - consumed.count, 0),
        events_per_second=round(consumed.count / span, 1),
        deliveries_per_second=round(consumed.count / span, 1),
        cpu_us_per_event=per_event(cpu, produced.acknowledged),
    )
    bench.results.runs.append(found)
    return found


def _produce(bench: Bench, run: int, offer: Offer) -> ProduceResult:
    plan = KafkaPlan(
        "produce", bench.system.bootstrap_servers, bench.plain_topic, run, seconds=offer.seconds, rate=offer.rate
    )
    with Child("kafka_alone", plan) as producer:
        return producer.hear(ProduceResult, offer.seconds + ANSWER_SECONDS)


def simple_consumer(bench: Bench, triggers: int, offers: list[Offer]) -> None:
    """One consumer process that posts every event to as many subscribers as there would be triggers."""
    url = plain_broker(bench)
    plan = ConsumerPlan(
        bootstrap_servers=bench.system.bootstrap_servers,
        topic=bench.plain_topic,
        group=f"bench-{triggers}",
        urls=[bench.sink.url(lane) for lane in range(triggers)],
    )
    with Child("consumer", plan) as consumer:
        if not consumer.hear(dict[str, bool], ANSWER_SECONDS)["ready"]:
            raise SystemFailed("the simple consumer was given no partitions")
        arrangement = Arrangement(CONSUMER, triggers, url, {consumer.pid: "consumer"})
        warm_up(bench, arrangement, WARM_SECONDS)
        for offer in offers:
            measure(bench, arrangement, offer)
        consumer.finish()
        result = consumer.hear(ConsumerResult, ANSWER_SECONDS)
    if result.failed:
        raise SystemFailed(f"{result.failed} posts of the simple consumer failed")
