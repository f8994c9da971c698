"""The embedded cluster's part of the data directory: is it ours, does it fit, is there space?

``cluster.json`` says which cluster lies there. Whatever does not fit is refused before Kafka could touch it.
Called by ``embedded``.
"""

import base64
import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.errors import Misconfigured
from penstock.kafka.jars import pinned
from penstock.kafka.server_files import ClusterSpec, data_folder

LEAST_FREE_BYTES = 200_000_000


@dataclass(frozen=True)
class Cluster:
    """What lies in the folder."""

    cluster_id: str
    brokers: int
    kafka_version: str


def claim(spec: ClusterSpec) -> Cluster:
    """The cluster of this data directory, made when there is none yet. Refuses what cannot be used."""
    folder = spec.data_dir / "kafka"
    _require_space(spec.data_dir)
    cluster = _existing(folder) or _new(folder, spec.brokers)
    if _parsed(cluster.kafka_version) > _parsed(server_version()):
        raise Misconfigured(
            f"{folder} was written by Kafka {cluster.kafka_version}; {server_version()} cannot read that",
            hint="use the newer Penstock that wrote it, or another --data-dir",
        )
    if cluster.brokers != spec.brokers:
        raise Misconfigured(
            f"{folder} holds a cluster of {cluster.brokers} broker(s), not {spec.brokers}",
            hint=f"--kafka-brokers {cluster.brokers}, or another --data-dir",
        )
    for node in range(1, spec.brokers + 1):
        _require_own(data_folder(spec.data_dir, node), cluster)
    _write(folder, Cluster(cluster.cluster_id, cluster.brokers, server_version()))
    return cluster


def is_formatted(spec: ClusterSpec, node: int) -> bool:
    return (data_folder(spec.data_dir, node) / "meta.properties").is_file()


def server_version() -> str:
    return next(jar.version for jar in pinned("kafka-server") if jar.name == "kafka_2.13")


def _existing(folder: Path) -> Cluster | None:
    description = folder / "cluster.json"
    if not description.exists():
        draft = "cluster.json.new"  # a first start that was cut off leaves this
        if folder.is_dir() and any(entry.name != draft for entry in folder.iterdir()):
            raise Misconfigured(
                f"{folder} holds files that Penstock did not put there",
                hint="name another --data-dir, or move them away",
            )
        return None
    try:
        return Cluster(**json.loads(description.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"{description} cannot be understood: {error}", hint="name another --data-dir") from error


def _new(folder: Path, brokers: int) -> Cluster:
    cluster = Cluster(_new_cluster_id(), brokers, server_version())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, cluster)
    except OSError as error:
        raise Misconfigured(
            f"{folder} cannot be written: {error.strerror}", hint="name another --data-dir"
        ) from error
    return cluster


def _write(folder: Path, cluster: Cluster) -> None:
    draft = folder / "cluster.json.new"
    draft.write_text(json.dumps(asdict(cluster), indent=1) + "\n")
    draft.replace(folder / "cluster.json")


def _new_cluster_id() -> str:
    """Kafka's form of a random id. One that begins with a dash would be an option to the format tool."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _require_own(data: Path, cluster: Cluster) -> None:
    meta = data / "meta.properties"
    if not meta.exists():
        return
    found = dict(line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
    if found.get("cluster.id") != cluster.cluster_id:
        raise Misconfigured(
            f"{data} belongs to another Kafka cluster ({found.get('cluster.id')}, not {cluster.cluster_id})",
            hint="name another --data-dir",
        )


def _require_space(data_dir: Path) -> None:
    place = data_dir
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < LEAST_FREE_BYTES:
        raise Misconfigured(
            f"the disk of {data_dir} is full: {free // 1_000_000} MB free of {LEAST_FREE_BYTES // 1_000_000} needed",
            hint="make room, or name a --data-dir on another disk",
        )


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
