"""The end of a real-time batch in a whole system, while an event waits for its next attempt."""

import itertools
import re
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from penstock.telemetry.log_lines import parse_all
from tests.conftest import System, running_system
from tests.sink import Answer, Request, Sink
from tests.system.resources import applied, apply, broker, trigger
from tests.system.test_delivery import ids, send
from tests.waiting import until

BATCH_SECONDS = 12
RETRY_SECONDS = 2 * BATCH_SECONDS  # a batch ends meanwhile


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system for this test alone, with short batches."""
    environment = {
        "PENSTOCK_LIVE_BATCH_MINUTES": str(BATCH_SECONDS / 60),
        "PENSTOCK_RENEWAL_SECONDS": "0",  # so that batches end
    }
    with running_system(tmp_path_factory.mktemp("batches"), environment) as started:
        yield started


def starts(system: System, topic: str) -> int:
    """Starts of queries of this topic since the dispatcher started."""
    text = urllib.request.urlopen(f"{system.admin_url}/metrics").read().decode()
    found = re.findall(rf'penstock_query_starts_total\{{topic="{topic}"\}} (\d+)', text)
    return int(found[0]) if found else 0


@pytest.mark.timeout(480)  # a batch, a retry beyond its end, and queries that start anew
def test_no_query_fails_when_a_batch_ends_before_a_retry(system: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: while a retry is waited for beyond the end of a batch, all other events of its partition are
    delivered at both triggers, none is lost; no query fails; and then the event is tried again."""
    subscriber, topic = sink(), "knative-broker-default-ends"

    def refuse_one(request: Request) -> Answer:
        is_hard = request.headers["ce-id"] == "hard"
        return Answer(503, headers={"retry-after": str(RETRY_SECONDS)}) if is_hard else Answer()

    subscriber.answer("/a", with_=refuse_one)
    failing = trigger("ends-a", "ends", subscriber.url + "/a", delivery={"retry": 3, "retryAfterMax": "PT60S"})
    resources = [broker("ends"), failing, trigger("ends-b", "ends", subscriber.url + "/b")]
    apply(system, *resources)
    applied[:] = [each for each in applied if each not in resources]  # they end with their system
    send(system, "ends", "hard", partitionkey="same")
    subscriber.wait_for(1, "/a")
    before = until(lambda: starts(system, topic), "the start of the query is counted")
    sent = ["hard"]
    for number in itertools.count():
        sent.append(f"other-{number}")
        send(system, "ends", sent[-1], partitionkey="same")
        until(lambda: sent[-1] in ids(subscriber.at("/b")), "the other trigger goes on")
        if ids(subscriber.at("/a")).count("hard") > 1:
            break
    until(lambda: starts(system, topic) > before, "a batch has ended, and a query of its own goes on")
    until(lambda: set(sent) <= set(ids(subscriber.at("/a"))), "all come to the one that refused an event")
    assert set(ids(subscriber.at("/b"))) == set(sent)
    lines = (system.data_dir / "logs" / "dispatcher.log").read_text().splitlines()
    failures = [line for line in parse_all(lines, "dispatcher") if line.level in ("ERROR", "CRITICAL")]
    ours = [line.message for line in failures if line.logger.startswith("penstock")]
    assert [message for message in ours if topic in message] == []
