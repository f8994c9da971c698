"""Java: found where it is good enough, asked once, and wrapped where Spark's argument is unknown to it."""

import subprocess
from pathlib import Path

import pytest
from tests.tools import missing

from penstock.errors import Misconfigured
from penstock.kafka import java, truststore
from penstock.kafka.cache import cache_dir

FAKE = """#!/bin/sh
echo run >> {log}
case "$*" in *jdk.incubator.vector*) [ {vector} = yes ] || exit 1;; esac
case "$*" in *-version*) echo "    java.home = {home}"; echo "    java.specification.version = {version}"; exit;; esac
echo "$@"
"""


def fake_java(folder: Path, version: str, vector: str = "yes") -> Path:
    """A JAVA_HOME whose ``java`` says what we want it to say."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(FAKE.format(log=folder / "runs", vector=vector, home=folder, version=version))
    binary.chmod(0o755)
    return folder


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    ours, other = fake_java(tmp_path / "ours", "21"), fake_java(tmp_path / "other", "17")
    environ = {"JAVA_HOME": str(ours), "PATH": str(other / "bin")}
    assert java.find(tmp_path / "cache", environ) == ours


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, good = fake_java(tmp_path / "old", "1.8"), fake_java(tmp_path / "good", "17")
    environ = {"JAVA_HOME": str(old), "PATH": str(good / "bin")}
    assert java.find(tmp_path / "cache", environ) == good
    assert java.find(tmp_path / "cache", {"JAVA_HOME": str(old), "PATH": ""}) is None


def test_a_java_is_run_once_and_then_remembered(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17")
    for _ in range(3):
        assert java.find(tmp_path / "cache", {"PATH": str(home / "bin")}) == home
    assert (home / "runs").read_text().count("run") == 1


def test_a_java_that_does_not_run_is_none(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/nowhere\n")
    broken.chmod(0o755)
    assert java.find(tmp_path / "cache", {"PATH": str(broken.parent)}) is None


def test_the_wrapper_drops_the_one_argument_and_nothing_else(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "25", vector="no")
    home = java.find(tmp_path / "cache", {"JAVA_HOME": str(real), "PATH": ""})
    assert home == tmp_path / "cache" / "java" / "home"
    answer = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", java.VECTOR_MODULE, "a b", "", "$x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "-Xmx1g a b  $x\n"


def test_a_part_that_was_started_with_the_wrapper_keeps_it(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "25", vector="no")
    home = java.find(tmp_path / "cache", {"JAVA_HOME": str(real), "PATH": ""})
    assert java.find(tmp_path / "cache", {"JAVA_HOME": str(home), "PATH": ""}) == home


def test_no_java_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misconfigured) as failure:
        java.java_home(tmp_path / "cache")
    assert "make setup" in (failure.value.hint or "")


def test_the_trust_store_is_one_that_java_reads(tmp_path: Path) -> None:
    options = truststore.java_options(tmp_path)
    if not options:
        pytest.skip("Python knows no certificate authorities on this machine")
    source = tmp_path / "Count.java"
    source.write_text(
        "public class Count { public static void main(String[] a) throws Exception {"
        ' var s = java.security.KeyStore.getInstance("JKS");'
        ' s.load(new java.io.FileInputStream(a[0]), "changeit".toCharArray()); System.out.print(s.size()); } }'
    )
    home = java.java_home(cache_dir())
    answer = subprocess.run(
        [home / "bin" / "java", source, tmp_path / "authorities.jks"], capture_output=True, text=True, check=False
    )
    if "compiler" in answer.stderr:
        missing("this Java runtime has no compiler to make the reader with")
    assert int(answer.stdout) > 0
