"""The pinned jars: which ones there are, and where they lie once fetched. Called by ``fetch`` and ``ivy``."""

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

Group = Literal["kafka-server", "spark-connector"]
GROUPS: tuple[Group, ...] = ("kafka-server", "spark-connector")

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Jar:
    """One jar by exact coordinate; what arrives must have this size and hash."""

    organisation: str
    name: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def coordinate(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def is_in(self, folder: Path) -> bool:
        """Whether it lies there with the right size; the hash was checked before it was put there."""
        try:
            return (folder / self.file_name).stat().st_size == self.size_bytes
        except OSError:
            return False

    def matches(self, file: Path) -> bool:
        """Whether the file's content is this jar's."""
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest() == self.sha256


@cache
def pinned(group: Group) -> tuple[Jar, ...]:
    table = tomllib.loads(files("penstock.kafka").joinpath("jars.toml").read_text())
    return tuple(_jar(entry["coordinate"], entry["bytes"], entry["sha256"]) for entry in table[group])


def _jar(coordinate: str, size_bytes: int, sha256: str) -> Jar:
    organisation, name, version = coordinate.split(":")
    return Jar(organisation, name, version, size_bytes, sha256)


def folder_of(group: Group, cache_folder: Path) -> Path:
    return cache_folder / "jars" / group
