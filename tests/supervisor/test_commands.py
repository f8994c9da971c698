"""The command line around the supervisor: refusals before anything starts, and how every command ends."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PENSTOCK, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("flag", ["--ingress-port", "--admin-port", "--kafka-port"])
@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_taken_port_is_refused_before_anything_starts(flag: str, detach: list[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        others = [name for name in ("--ingress-port", "--admin-port", "--kafka-port") if name != flag]
        free = [text for name in others for text in (name, str(free_port()))]
        answer = penstock("up", *detach, "--data-dir", str(tmp_path / "data"), *free, flag, str(port))
    assert answer.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken by" in answer.stderr
    assert f"hint: {flag}" in answer.stderr
    assert not (tmp_path / "data/kafka").exists()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_down_where_nothing_runs_says_so(tmp_path: Path) -> None:
    answer = penstock("down", "--data-dir", str(tmp_path))
    assert answer.returncode == 0
    assert "nothing runs in" in answer.stderr


def test_a_foreign_directory_stays_as_it_is_also_when_detached(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("keep me")
    answer = penstock("up", "--detach", "--data-dir", str(tmp_path))
    assert answer.returncode == 1
    assert "did not put there" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    ports = ["--ingress-port", str(free_port()), "--admin-port", str(free_port())]
    answer = penstock("up", "--data-dir", str(tmp_path / "data"), "--bootstrap-servers", nobody, *ports)
    assert answer.returncode == 1
    assert f"Kafka at {nobody} does not answer" in answer.stderr


def test_wrong_usage_is_2_and_near_names_are_suggested() -> None:
    answer = penstock("aply")
    assert answer.returncode == 2
    assert "Did you mean 'apply'" in answer.stderr
    assert penstock("up", "--ingress-port", "many").returncode == 2


def test_a_traceback_only_with_debug(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plain = penstock("up", "--data-dir", str(tmp_path / "file"))
    assert (plain.returncode, plain.stderr.count("Traceback")) == (1, 0)
    assert plain.stderr.startswith("error: ")
    assert "Traceback" in penstock("up", "--data-dir", str(tmp_path / "file"), "--debug").stderr


def test_help_imports_no_room() -> None:
    code = (
        "import sys; from penstock.cli import main\n"
        "try: main.run(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'confluent_kafka', 'pycurl', 'starlette', 'rich', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
