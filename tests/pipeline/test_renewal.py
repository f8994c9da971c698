"""A query is replaced before its real-time batch ends. Kafka and Spark are real."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.pipeline.test_dispatcher import MakeSink, World, ids, running_dispatcher
from tests.pipeline.test_handing_over import steady_stream
from tests.waiting import until

BATCH_SECONDS = 60
RENEWAL_SECONDS = 30  # before its end: time to start the next query
SLOW_SECONDS = 8.0  # longer than a worker waits at the end of a batch
RENEWALS = 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "PENSTOCK_LIVE_BATCH_MINUTES": str(BATCH_SECONDS / 60),
        "PENSTOCK_RENEWAL_SECONDS": str(RENEWAL_SECONDS),
    }
    with running_dispatcher(tmp_path_factory.mktemp("renewal"), **settings) as started:
        yield started


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_the_length_of_a_batch_is_noticed_by_nobody(world: World, sink: MakeSink) -> None:
    """Kept promise: for longer than a real-time batch, with requests in flight that take longer than the end of a
    batch waits, every event comes to each subscriber, and none comes twice."""
    quick, slow = sink(), sink()
    slow.answer("/slow", delay_seconds=SLOW_SECONDS)
    first = world.subscribe(quick.url + "/quick", partitions=1, gear="live")
    only_slow = ({"exact": {"type": "slow"}},)
    world.subscribe(slow.url + "/slow", 1, first.topic, filters=only_slow, gear="live")

    starts: list[float] = []

    def next_start() -> float:
        report = world.report(first.topic)
        is_new = report is not None and report.state == "running" and report.since not in starts
        return report.since if report is not None and is_new else 0.0

    with steady_stream(world, first.topic) as sent:
        quick.wait_for(1, "/quick")
        for _ in range(RENEWALS + 1):
            starts.append(until(next_start, "the next query serves", 120))
        count = slow.count("/slow")
        slow.wait_for(count + 1, "/slow")
    assert starts[-1] - starts[0] > BATCH_SECONDS
    until(lambda: set(sent) <= set(ids(quick.at("/quick"))), "the quick one has all")
    assert set(Counter(ids(quick.at("/quick"))).values()) == {1}
    wanted = {each for each in sent if int(each) % 25 == 0}
    until(lambda: wanted <= set(ids(slow.at("/slow"))), "the slow one has all")
    assert set(Counter(ids(slow.at("/slow"))).values()) == {1}
