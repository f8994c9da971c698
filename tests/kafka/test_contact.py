"""Asking whether Kafka answers harms nobody, whatever state Kafka is in."""

import subprocess
import sys
from pathlib import Path

from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.ports import free_port

ASKING = """
import select, sys
from penstock.errors import PenstockError
from penstock.kafka.connection import Contact, KafkaConnection

contact = Contact(KafkaConnection(sys.argv[1]))
contact._admin.poll = lambda _: None  # as often as can be
print("asking", flush=True)
heard, away = 0, 0
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        contact.check(0.3)
        heard += 1
    except PenstockError:
        away += 1
print(heard, away)
"""


def test_who_asks_lives_on_while_kafka_starts_and_stops(tmp_path: Path) -> None:
    """Kept promise: a cluster that is not whole yet, or no longer, ends no process that looks after it."""
    port = free_port()
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, f"127.0.0.1:{port}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "asking\n"
        for _ in range(3):
            kafka = EmbeddedKafka(ClusterSpec(tmp_path, port=port)).start()
            kafka.stop()
        said, errors = asking.communicate("enough\n", timeout=60)
    assert asking.returncode == 0, errors
    heard, away = map(int, said.split())
    assert heard
    assert away
