"""The settings of the receiver process."""

from dataclasses import dataclass
from typing import Literal

from penstock.access.addresses import PRIVATE_ADDRESSES_SETTING, PrivateAddresses
from penstock.event.attributes import ATTRIBUTE_LIMIT_BYTES_SETTING, ATTRIBUTE_LIMIT_SETTING
from penstock.settings import setting
from penstock.telemetry.traces import ENDPOINT_SETTING, EXPORTER_SETTING, SAMPLING_SETTING, ExporterName


@dataclass(frozen=True)
class ReceiverSettings:
    host: str = setting("127.0.0.1", "the address to listen on")
    ingress_port: int = setting(8080, "the port on which events are taken")
    bootstrap_servers: str = setting("127.0.0.1:9092", "the Kafka cluster: host:port, several with commas")
    kafka_secret_file: str = setting("", "file with the login of that cluster, in the form of a Secret; empty: none")
    data_dir: str = setting(".penstock", "where the secrets are, unless they are elsewhere")
    secrets_dir: str = setting("", "where Secrets for other clusters are; empty: secrets in the data directory")
    private_addresses: PrivateAddresses = PRIVATE_ADDRESSES_SETTING
    receiver_processes: int = setting(1, "processes that take events on the same port")
    body_limit_bytes: int = setting(1024 * 1024, "the largest body of a request; beyond it 413")
    head_limit_bytes: int = setting(64 * 1024, "the largest head of a request (line and headers); beyond it 431")
    header_limit: int = setting(256, "headers of a request; beyond it 431")
    attribute_limit: int = ATTRIBUTE_LIMIT_SETTING
    attribute_limit_bytes: int = ATTRIBUTE_LIMIT_BYTES_SETTING
    inflight_events: int = setting(20_000, "events that may wait for Kafka at once, per process; beyond it 503")
    inflight_bytes: int = setting(32 * 1024 * 1024, "bytes of requests held at once, per process; beyond it 503")
    unfinished_bytes: int = setting(
        16 * 1024 * 1024, "bytes held for requests that are not complete, per process; beyond it the oldest gets 503"
    )
    unread_bytes: int = setting(
        32 * 1024 * 1024,
        "bytes of answers that are not read and of requests that wait behind them, per process; "
        "beyond it the connection that has waited longest is closed",
    )
    connection_limit: int = setting(
        4096,
        "open connections per process, never more than its limit of open files minus 128; "
        "beyond it the one that waits longest is closed",
    )
    connections_per_address: int = setting(
        0,
        "open connections per process from one client address; beyond it 503; 0: no limit, since a load balancer has "
        "few addresses",
    )
    read_timeout_seconds: float = setting(15.0, "a request must be complete this long after its first byte")
    idle_timeout_seconds: float = setting(
        75.0, "a connection without requests, or with unread answers, is closed after this time"
    )
    delivery_timeout_seconds: float = setting(2.5, "how long Kafka may take to acknowledge; then the answer is 503")
    telemetry: Literal["on", "off"] = setting("on", "off: nothing is counted")
    drain_seconds: float = setting(10.0, "how long an ending receiver waits for what it has accepted")
    trace_sampling: float = SAMPLING_SETTING
    trace_exporter: ExporterName = EXPORTER_SETTING
    trace_endpoint: str = ENDPOINT_SETTING
