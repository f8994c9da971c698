"""The settings of ``penstock up``, and how they are handed on to the parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.control.settings import admin_token_path, needs_token
from penstock.kafka.login import secret_file
from penstock.kafka.server_files import ClusterSpec
from penstock.settings import setting


@dataclass(frozen=True)
class UpSettings:
    data_dir: str = setting(".penstock", "where data, logs and what runs are kept")
    host: str = setting("127.0.0.1", "the address that ingress and admin listen on, and nothing else")
    advertise: str | None = setting(
        None, "the address that Kafka, Spark and the dispatcher's port listen on; none: 127.0.0.1"
    )
    kafka_auth: Literal["none", "scram"] = setting(
        "none", "scram: the embedded Kafka asks for a login; none: it does not"
    )
    kafka_secret_file: str = setting("", "file with the login of a Kafka of your own, in the form of a Secret")
    spark_secret_file: str = setting("", "file with the secret that a Spark cluster shares; a local Spark makes one")
    ingress_port: int = setting(8080, "the port on which the receiver takes events")
    admin_port: int = setting(8090, "the port of the admin API and the dashboard")
    allowed_hosts: str = setting("", "further host names of the admin API, with commas")
    admin_auth: Literal["auto", "always"] = setting(
        "auto", "whether the admin API requires a token; auto: if it listens on an address that is not loopback"
    )
    admin_token_file: str = setting("", "where that token is kept; empty: run/admin.token in the data directory")
    kafka_port: int = setting(9092, "the port of the embedded Kafka; further brokers take the next ones")
    kafka_brokers: int = setting(1, "brokers of the embedded Kafka, 1 to 3")
    bootstrap_servers: str | None = setting(None, "a Kafka cluster of your own, instead of the embedded one")
    master: str = setting("local[*]", "Spark master")
    gear: str = setting(
        "auto", "auto: by what flows; live: milliseconds, always; bulk: micro-batches, throughput first"
    )
    default_partitions: int = setting(4, "partitions of a new broker's topic; each costs a worker")
    receiver_processes: int = setting(1, "processes that take events")

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser().absolute()

    @property
    def admin_token_path(self) -> Path:
        return admin_token_path(self.data_dir, self.admin_token_file)

    @property
    def needs_token(self) -> bool:
        return needs_token(self.host, self.admin_auth)

    @property
    def cluster(self) -> ClusterSpec:
        """The embedded cluster, if there is to be one."""
        return ClusterSpec(
            self.data_path, self.inner_host, self.kafka_port, self.kafka_brokers, self.default_partitions,
            auth=self.kafka_auth,
        )  # fmt: skip

    @property
    def inner_host(self) -> str:
        """Where the parts of Penstock reach each other."""
        return self.advertise or "127.0.0.1"

    @property
    def kafka_secret(self) -> str:
        """The file with the login of the home cluster; empty: it asks for none."""
        if self.bootstrap_servers:
            return str(Path(self.kafka_secret_file).expanduser().absolute()) if self.kafka_secret_file else ""
        return str(secret_file(self.data_path)) if self.kafka_auth == "scram" else ""

    @property
    def kafka_address(self) -> str:
        return self.bootstrap_servers or self.cluster.bootstrap_servers


def environment_of_parts(settings: UpSettings, java_home: Path) -> Mapping[str, str]:
    """What every part gets, as variables."""
    return {
        "PENSTOCK_DATA_DIR": str(settings.data_path),
        "PENSTOCK_HOST": settings.host,
        "PENSTOCK_ADVERTISE": settings.inner_host,
        "PENSTOCK_KAFKA_SECRET_FILE": settings.kafka_secret,
        "PENSTOCK_SPARK_SECRET_FILE": settings.spark_secret_file,
        "PENSTOCK_INGRESS_PORT": str(settings.ingress_port),
        "PENSTOCK_ADMIN_PORT": str(settings.admin_port),
        "PENSTOCK_ALLOWED_HOSTS": settings.allowed_hosts,
        "PENSTOCK_ADMIN_AUTH": settings.admin_auth,
        "PENSTOCK_ADMIN_TOKEN_FILE": str(settings.admin_token_path),
        "PENSTOCK_BOOTSTRAP_SERVERS": settings.kafka_address,
        "PENSTOCK_MASTER": settings.master,
        "PENSTOCK_GEAR": settings.gear,
        "PENSTOCK_DEFAULT_PARTITIONS": str(settings.default_partitions),
        "PENSTOCK_RECEIVER_PROCESSES": str(settings.receiver_processes),
        "JAVA_HOME": str(java_home),
        "PYTHONUNBUFFERED": "1",
    }
