"""The settings of the controller process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.access.addresses import PRIVATE_ADDRESSES_SETTING, PrivateAddresses
from penstock.access.hosts import is_loopback
from penstock.http.limits import Limits
from penstock.ports import http_url
from penstock.settings import setting


@dataclass(frozen=True)
class ControllerSettings:
    host: str = setting("127.0.0.1", "the address the admin API listens on")
    admin_port: int = setting(8090, "the port of the admin API and the dashboard")
    allowed_hosts: str = setting("", "further host names of the admin API, with commas")
    admin_auth: Literal["auto", "always"] = setting(
        "auto", "whether the admin API requires a token; auto: if it listens on an address that is not loopback"
    )
    admin_token_file: str = setting("", "where that token is kept; empty: run/admin.token in the data directory")
    metrics_open: Literal["auto", "on", "off"] = setting(
        "auto", "whether /metrics is open without the token; auto: if no token is required"
    )
    admin_connections: int = setting(
        512,
        "open connections to the admin port; beyond it the one that has waited longest without a request is closed",
    )
    admin_connections_per_address: int = setting(
        0,
        "open connections to the admin port from one client address; beyond it 503; 0: no limit, since clients "
        "behind a load balancer share one",
    )
    ingress_host: str = setting("", "the host name in the addresses of brokers; empty: that of `host`")
    ingress_port: int = setting(8080, "the port on which the receiver takes events")
    receiver_url: str = setting("", "where the controller reaches the receiver; empty: on this machine")
    bootstrap_servers: str = setting("127.0.0.1:9092", "the Kafka cluster: host:port, several with commas")
    kafka_secret_file: str = setting("", "file with the login of that cluster, in the form of a Secret; empty: none")
    home_aliases: str = setting(
        "my-cluster-kafka-bootstrap.kafka:9092,my-cluster-kafka-bootstrap.kafka.svc:9092",
        "other names of that cluster in resources, with commas; Knative's examples use these",
    )
    data_dir: str = setting(".penstock", "where data is kept, Secrets among it")
    secrets_dir: str = setting("", "where Secrets are kept; empty: secrets in the data directory")
    private_addresses: PrivateAddresses = PRIVATE_ADDRESSES_SETTING
    default_partitions: int = setting(4, "partitions of a new broker's topic; each costs the dispatcher a worker")
    most_partitions: int = setting(
        256,
        "partitions that a resource or a broker's ConfigMap may ask for; not less than default_partitions",
    )
    most_resources_in_namespace: int = setting(2000, "resources in one namespace")
    most_resources: int = setting(10000, "resources in all namespaces together")
    most_resource_bytes: int = setting(256 * 1024 * 1024, "size of all resources together, as JSON")
    largest_resource_bytes: int = setting(768 * 1024, "largest size of a resource as JSON, without its status")
    default_replication_factor: int = setting(0, "copies of a new broker's topic; 0: three, or as many as brokers")
    default_retention_ms: int = setting(7 * 24 * 3600 * 1000, "how long a broker's topic keeps events")
    core_replication_factor: int = setting(0, "copies of Penstock's own topics; 0: three, or as many as brokers")
    resync_seconds: float = setting(5.0, "how often every resource is compared with what is there")
    dispatcher_stale_seconds: float = setting(10.0, "a dispatcher silent for this long counts as not answering")
    metrics_subscriptions: int = setting(
        500, "subscriptions with series of their own in the metrics; the rest is added up under the name others"
    )
    dispatcher_token_file: str = setting(
        "", "where the dispatcher writes the token of its port; empty: run/dispatcher.token in the data directory"
    )
    otlp_endpoint: str = setting("", "the OTLP collector that gets all metrics (protobuf over HTTP); empty: none")
    otlp_interval_seconds: float = setting(15.0, "how often it gets them")

    @property
    def limits(self) -> Limits:
        """Of the admin port."""
        return Limits(connections=self.admin_connections, connections_per_address=self.admin_connections_per_address)

    @property
    def partitions_limit(self) -> int:
        return max(self.most_partitions, self.default_partitions)

    @property
    def secrets_path(self) -> Path:
        return Path(self.secrets_dir or Path(self.data_dir, "secrets")).expanduser().absolute()

    @property
    def admin_token_path(self) -> Path:
        return admin_token_path(self.data_dir, self.admin_token_file)

    @property
    def needs_token(self) -> bool:
        return needs_token(self.host, self.admin_auth)

    @property
    def ingress_url(self) -> str:
        """Where senders reach the receiver, as brokers' addresses show it."""
        return http_url(self.ingress_host or self.host, self.ingress_port)

    @property
    def probe_url(self) -> str:
        """Where the controller itself reaches the receiver."""
        return self.receiver_url or http_url(self.host, self.ingress_port)

    @property
    def admin_url(self) -> str:
        return http_url(self.host, self.admin_port)


def admin_token_path(data_dir: str, named: str = "") -> Path:
    """Where the token of the admin API is kept."""
    return Path(named or Path(data_dir, "run", "admin.token")).expanduser().absolute()


def needs_token(host: str, admin_auth: str) -> bool:
    """Whether the admin API that listens on this address requires the token."""
    return admin_auth == "always" or not is_loopback(host.lower())
