"""Makes the archive for quick starts, by running a Kafka once. Called by ``penstock fetch``."""

import os
import tempfile
from pathlib import Path

from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.kafka.table import put
from penstock.kafka.topics import TopicSpec, create_missing
from penstock.ports import free_port


def is_made(cache: Path) -> bool:
    return EmbeddedKafka(ClusterSpec(cache), cache).archive.is_file()


def make(cache: Path) -> None:
    """Runs a Kafka once, in a folder that vanishes, and keeps an archive of the classes it used."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        draft = Path(scratch) / "kafka.jsa"
        kafka = EmbeddedKafka(ClusterSpec(Path(scratch) / "data", port=free_port()), cache)
        kafka.jvm_options = [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds*=off"]
        kafka.start()
        try:
            create_missing(kafka.connection.admin(), [TopicSpec("warm")])
            put(kafka.connection.producer(), "warm", "key", b"value")
        finally:
            kafka.stop()
        near = kafka.archive.with_suffix(f".{os.getpid()}")
        near.write_bytes(
            draft.read_bytes() if draft.is_file() else b""
        )  # empty: this Java makes none, do not try again
        os.replace(near, kafka.archive)
