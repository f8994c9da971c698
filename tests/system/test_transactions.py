"""Events that a producer writes into the topic in transactions: the gaps in their offsets cause no warning."""

import re
import urllib.request
import uuid
from collections.abc import Callable

from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.kafka.connection import KafkaConnection
from penstock.telemetry.log_lines import parse_all
from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, trigger
from tests.system.test_delivery import ids
from tests.waiting import until

TRANSACTIONS = 60


def test_sixty_transactions_leave_no_warning(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: events of transactions arrive, their gaps are counted in the metrics, and the dispatcher's log
    has not one warning about them."""
    subscriber, topic = sink(), "knative-broker-default-transacted"
    apply(penstock_up, broker("transacted"), trigger("transacted", "transacted", subscriber.url + "/"))
    log = penstock_up.data_dir / "logs" / "dispatcher.log"
    logged_before = len(log.read_bytes())
    producer = KafkaConnection(penstock_up.bootstrap_servers).producer(**{"transactional.id": str(uuid.uuid4())})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        event = Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, b"{}")
        record = encode_record(event)
        producer.begin_transaction()
        producer.produce(topic, record.value, headers=record.headers, partition=0)
        producer.commit_transaction(30)
    sent = {str(number) for number in range(TRANSACTIONS)}
    until(lambda: set(ids(list(subscriber.requests))) == sent, "all events have come")

    def counted() -> int:
        text = urllib.request.urlopen(f"{penstock_up.admin_url}/metrics").read().decode()
        found = re.findall(rf'penstock_offset_gaps_total\{{topic="{topic}"\}} (\d+)', text)
        return int(found[0]) if found else 0

    # Not all of them: a query that was replaced meanwhile does not know of the gap before its first row.
    until(lambda: counted() >= TRANSACTIONS / 2, "the gaps are counted")
    lines = log.read_bytes()[logged_before:].decode().splitlines()
    worries = [line for line in parse_all(lines, "dispatcher") if line.level in ("WARNING", "ERROR", "CRITICAL")]
    ours = [line.message for line in worries if topic in line.message or topic in line.fields.values()]
    assert [message for message in ours if re.search("offset|gap|lost|missing", message, re.IGNORECASE)] == []
