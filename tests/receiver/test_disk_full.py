"""Kafka's disk is full: senders are told, and what was acknowledged outlives it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.kafka import fetch
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.ports import free_port
from tests.disk import leave_free, small_disk
from tests.receiver.load import Load
from tests.receiver.running import give_address, ids, records, running
from tests.waiting import until

ROOM_BYTES = 300_000_000  # an empty Kafka insists on 200 MB
LEFT_BYTES = 20_000_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    with small_disk(tmp_path / "disk", ROOM_BYTES) as folder:
        yield folder


@pytest.mark.scenario(30)
def test_the_disk_is_full(disk: Path) -> None:
    """Kept promise: without room there is no 202, and with room again every event that had one is there."""
    fetch.fetch_missing()
    cluster = EmbeddedKafka(ClusterSpec(disk, port=free_port())).start()
    try:
        path, topic = give_address(cluster.connection, "full")
        with running(cluster.connection, delivery_timeout_seconds=2.5) as receiver:
            leave_free(disk, LEFT_BYTES)
            load = Load(receiver, path, body=b"x" * 100_000).start()
            until(lambda: cluster.processes[1].poll() is not None, "Kafka gives up")
            until(lambda: load.codes[503] > 50, "refusals")
            accepted = len(load.accepted)
            refused = load.codes[503]
            until(lambda: load.codes[503] > refused + 50, "more refusals")
            assert len(load.accepted) == accepted > 0
            leave_free(disk, ROOM_BYTES)
            cluster.start()
            until(lambda: len(load.accepted) > accepted + 20, "202 again")
            assert load.stop().unanswered == []
        assert set(load.codes) == {202, 503}
        assert load.accepted - ids(records(cluster.connection, topic)) == set()
    finally:
        cluster.stop()
