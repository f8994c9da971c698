"""No word of a Secret leaves its file: not into a topic, an answer, an error, a status."""

import json
import stat
from pathlib import Path

import pytest

from penstock.contract.model import CONTRACT_TOPIC, RESOURCES_TOPIC
from penstock.control.records import Records
from penstock.control.secrets import LAST_APPLIED, Secrets, data_of
from penstock.control.store import Invalid, KafkaStore
from penstock.errors import Misconfigured, Rejected
from penstock.kafka import java_files, secret_files, topics
from penstock.kafka.connection import KafkaConnection
from tests.control.conftest import Running
from tests.control.objects import annotated, secret, sink

WORD = "hunter2"
ENCODED = "aHVudGVyMg=="  # the same in base64
APPLIED = annotated(secret(user="alice", password=WORD), **{LAST_APPLIED: f'{{"password":"{WORD}"}}', "team": "a"})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_stored_names_the_keys_and_no_value(tmp_path: Path) -> None:
    """Kept promise: neither data nor kubectl's copy of it stays in the object."""
    kept, data = Secrets(tmp_path).stripped({**APPLIED, "data": {"ca.crt": ENCODED}})
    assert WORD not in json.dumps(kept)
    assert ENCODED not in json.dumps(kept)
    assert kept["metadata"]["annotations"].keys() == {
        "team", "penstock.dev/secret-keys", "penstock.dev/secret-version",
    }  # fmt: skip
    assert kept["metadata"]["annotations"]["penstock.dev/secret-keys"] == "ca.crt,password,user"
    assert data == {"ca.crt": WORD.encode(), "password": WORD.encode(), "user": b"alice"}
    assert LAST_APPLIED in APPLIED["metadata"]["annotations"]  # what was applied is not altered


def test_text_wins_over_base64() -> None:
    assert data_of({"data": {"a": ENCODED, "b": "aHVu\n dGVyMg=="}, "stringData": {"a": "x"}}) == {
        "a": b"x", "b": WORD.encode(),
    }  # fmt: skip


def test_a_version_tells_contents_apart_and_nothing_else(tmp_path: Path) -> None:
    """Kept promise: who reads versions cannot guess a password with them, since their key stays here."""

    def version(folder: str, **data: str) -> str:
        kept, _ = Secrets(tmp_path / folder).stripped(secret(**data))
        return str(kept["metadata"]["annotations"]["penstock.dev/secret-version"])

    assert version("a", password=WORD) == version("a", password=WORD)
    assert version("a", password=WORD) != version("a", password="other")
    assert version("a", ab="c") != version("a", a="bc")
    assert version("a", password=WORD) != version("b", password=WORD)


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path / "secrets")
    secrets.write("default", "login", {"password": WORD.encode()})
    path = secrets.folder / "default" / "login.json"
    assert (mode(path), mode(path.parent), mode(secrets.folder)) == (0o600, 0o700, 0o700)
    assert secrets.read("default", "login") == {"password": WORD.encode()}
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="others may read Secret default/login") as refused:
        secrets.read("default", "login")
    assert "chmod 600" in str(refused.value.hint)


@pytest.mark.parametrize(
    "content", [f'{{"password": "{WORD}!"}}', f'["{WORD}"]', WORD, f'{{"password": {{"{WORD}": 1}}}}']
)
def test_a_broken_file_is_no_reason_to_quote_it(tmp_path: Path, content: str) -> None:
    secrets = Secrets(tmp_path)
    secrets.write("default", "login", {})
    (tmp_path / "default" / "login.json").write_text(content)
    with pytest.raises(Misconfigured) as refused:
        secrets.read("default", "login")
    assert WORD not in f"{refused.value} {refused.value.hint} {refused.value.__cause__}"


@pytest.mark.parametrize("name", ["../login", "a/b", "..", "", "Login", "a\n"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match="no name of a Secret"):
        Secrets(tmp_path).write("default", name, {})


def test_the_topics_never_see_it(running: Running, kafka: KafkaConnection) -> None:
    """Kept promise: Kafka holds no word of a Secret, and the file goes when the Secret goes."""
    stored = running.apply(APPLIED)
    running.apply(sink(bootstrapServers=["127.0.0.1:1"], auth={"secret": {"ref": {"name": "login"}}}))
    running.condition("KafkaSink", "archive", "Ready", "False")
    path = running.secrets_dir / "default" / "login.json"
    assert ENCODED in path.read_text()
    kept = [*Records(kafka, RESOURCES_TOPIC).load().values(), *Records(kafka, CONTRACT_TOPIC).load().values()]
    shown = b"".join(kept) + json.dumps([stored, running.changes]).encode()
    assert b"default/login" in shown or b'"login"' in shown
    assert WORD.encode() not in shown
    assert ENCODED.encode() not in shown
    running.delete("KafkaSink", "archive")
    running.delete("Secret", "login")
    assert not path.exists()


def test_what_get_shows_may_be_applied_again(running: Running) -> None:
    """Kept promise: a list that was exported and applied empties no Secret, and a copy cannot be made of nothing."""
    shown = running.apply(APPLIED)
    again, verdict = running.controller.store.apply(shown)
    assert (verdict, again) == ("unchanged", shown)
    assert running.controller.world.secrets.read("default", "login")["password"] == WORD.encode()
    with pytest.raises(Rejected, match="has no values"):
        running.apply({**shown, "metadata": {**shown["metadata"], "name": "copy"}})


def test_a_dry_run_writes_no_secret(running: Running) -> None:
    resource, verdict = running.controller.store.apply(APPLIED, dry_run=True)
    assert (verdict, running.get("Secret", "login")) == ("created", None)
    assert WORD not in json.dumps(resource)
    assert not (running.secrets_dir / "default").exists()


def test_a_refusal_does_not_quote_it(running: Running) -> None:
    with pytest.raises(Invalid) as refused:
        running.apply({**APPLIED, "data": {"password": f"{WORD}!"}})
    assert WORD not in f"{refused.value} {refused.value.problems}"


def test_a_secret_that_cannot_be_read_leaves_no_file(kafka: KafkaConnection, tmp_path: Path) -> None:
    """Kept promise: when the record of a Secret or a KafkaSource cannot be read, deleting it deletes its credentials,
    also the files for Java. Records whose names could be no file are deleted too."""
    keys = [
        "Secret/default/login",
        "KafkaSource/default/legacy",
        "Secret/default/../login",
        *(f"Secret/default/{'x' * length}" for length in (253, 400)),
    ]
    topics.create_missing(kafka.admin(), [topics.TopicSpec(RESOURCES_TOPIC, 1, 1, topics.COMPACTED)])
    records, secrets = Records(kafka, RESOURCES_TOPIC), Secrets(tmp_path)
    records.load()
    for key in keys:
        records.put(key, b"{")
    for namespace, name in (("default", "login"), ("kafkasources.default", "legacy"), ("default", "other")):
        secrets.write(namespace, name, {"password": b"hunter2"})
        (tmp_path / java_files.FOLDER / f"{namespace}.{name}").mkdir(parents=True)
    store = KafkaStore(kafka, secrets)
    store.load()
    assert set(keys) <= store.unreadable().keys()
    for key in keys:
        assert store.delete(*key.split("/", 2)) is not None
    assert not set(keys) & store.unreadable().keys()
    assert secret_files.names(tmp_path) == ["default/other"]
    assert [each.name for each in (tmp_path / java_files.FOLDER).iterdir()] == ["default.other"]
    assert not set(keys) & Records(kafka, RESOURCES_TOPIC).load().keys()
