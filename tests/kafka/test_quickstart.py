"""Quick starts: an archive is used when there is a whole one, and never stands in the way."""

import os
from pathlib import Path

from penstock.kafka import quickstart


def test_an_archive_is_used_only_when_it_has_content(tmp_path: Path) -> None:
    archive = tmp_path / "kafka.jsa"
    assert quickstart.use(archive) == []
    archive.touch()
    assert quickstart.use(archive) == [], "an empty one says that this Java makes none"
    archive.write_bytes(b"content")
    assert f"-XX:SharedArchiveFile={archive}" in quickstart.use(archive)


def test_another_java_or_another_jar_means_another_archive(tmp_path: Path) -> None:
    java, jar = tmp_path / "java", tmp_path / "one.jar"
    java.touch()
    jar.touch()
    first = quickstart.archive_of("kafka", java, [jar], tmp_path)
    assert quickstart.archive_of("kafka", java, [jar], tmp_path) == first
    os.utime(jar, (1, 1))
    assert quickstart.archive_of("kafka", java, [jar], tmp_path) != first
