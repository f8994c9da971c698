"""Fetching: once, resumable, checked, and with words when it fails."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.maven import Maven, jar_of, path_of

from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import fetch, java
from penstock.kafka.cache import cache_dir
from penstock.kafka.jars import folder_of, pinned
from penstock.kafka.progress import Silent

ONE, TWO = b"one" * 1000, b"two" * 2000
JARS = [jar_of("one", ONE), jar_of("two", TWO)]


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maven]:
    server = Maven()
    for jar, content in zip(JARS, (ONE, TWO), strict=True):
        server.publish(jar, content)
    monkeypatch.setenv("PENSTOCK_MAVEN_ROOT", server.root)
    yield server
    server.stop()


def fetch_both(cache: Path) -> Path:
    fetch.fetch_jars(JARS, "kafka-server", java.find_or_fetch(cache_dir(), Silent()), Silent(), cache)
    return folder_of("kafka-server", cache)


def test_what_is_there_is_never_fetched_again(maven: Maven, tmp_path: Path) -> None:
    home = fetch_both(tmp_path)
    assert [(home / jar.file_name).read_bytes() for jar in JARS] == [ONE, TWO]
    maven.stop()
    fetch_both(tmp_path)
    assert sorted(maven.downloads) == [path_of(jar) for jar in JARS]


def test_a_failed_download_names_jar_and_remedy_and_the_next_one_resumes(maven: Maven, tmp_path: Path) -> None:
    lost = maven.files.pop(path_of(JARS[1]))
    with pytest.raises(Unavailable, match=r"org\.example:two:1\.0 could not be downloaded: .+") as failure:
        fetch_both(tmp_path)
    assert failure.value.hint is not None
    assert "penstock fetch" in failure.value.hint
    maven.publish(JARS[1], lost)
    fetch_both(tmp_path)
    assert maven.downloads.count(path_of(JARS[0])) == 1


def test_a_jar_with_another_content_is_deleted_and_said(maven: Maven, tmp_path: Path) -> None:
    maven.publish(JARS[0], ONE[:-1] + b"!")
    with pytest.raises(Unavailable, match=r"org\.example:one:1\.0 arrived with another content"):
        fetch_both(tmp_path)
    assert not list(tmp_path.rglob("one-1.0.jar"))
    maven.publish(JARS[0], ONE)
    assert (fetch_both(tmp_path) / "one-1.0.jar").read_bytes() == ONE


def test_a_repository_that_is_away_is_named(maven: Maven, tmp_path: Path) -> None:
    maven.stop()
    with pytest.raises(Unavailable, match=r"(?i)refused") as failure:
        fetch_both(tmp_path)
    assert maven.root.rstrip("/") in failure.value.message


def test_what_a_killed_fetch_left_is_used(maven: Maven, tmp_path: Path) -> None:
    left = tmp_path / "fetching/kafka-server/arrived/org.example/one/jars/one-1.0.jar"
    left.parent.mkdir(parents=True)
    left.write_bytes(ONE)
    fetch_both(tmp_path)
    assert maven.downloads == [path_of(JARS[1])]


def test_two_fetches_at_once_download_once(maven: Maven, tmp_path: Path) -> None:
    threads = [threading.Thread(target=fetch_both, args=(tmp_path,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(maven.downloads) == [path_of(jar) for jar in JARS]


def test_looking_up_never_fetches_and_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as failure:
        fetch.spark_connector_jars(tmp_path)
    assert "make setup" in (failure.value.hint or "")
    assert not fetch.is_complete(tmp_path)


def test_a_truncated_jar_is_seen_without_reading_it(tmp_path: Path) -> None:
    shutil.copytree(folder_of("spark-connector", cache_dir()), folder_of("spark-connector", tmp_path))
    assert len(fetch.spark_connector_jars(tmp_path)) == len(pinned("spark-connector"))
    with fetch.spark_connector_jars(tmp_path)[0].open("ab") as jar:
        jar.truncate(10)
    with pytest.raises(Misconfigured, match="1 jars are missing"):
        fetch.spark_connector_jars(tmp_path)


def test_the_cache_folder_follows_the_environment() -> None:
    assert cache_dir({"PENSTOCK_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/penstock")
    assert cache_dir({"HOME": "/c"}).parts[-2:] == (".cache", "penstock")
