"""Settings of the dispatcher process."""

import re
from dataclasses import dataclass
from typing import Literal

from penstock.access.addresses import PRIVATE_ADDRESSES_SETTING, AddressPolicy, PrivateAddresses
from penstock.access.hosts import is_loopback
from penstock.errors import Misconfigured
from penstock.event.attributes import ATTRIBUTE_LIMIT_BYTES_SETTING, ATTRIBUTE_LIMIT_SETTING
from penstock.settings import setting
from penstock.telemetry.traces import (
    ENDPOINT_SETTING,
    EXPORTER_SETTING,
    SAMPLING_SETTING,
    ExporterName,
    TraceSettings,
    trace_settings,
)

_SIZE = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


@dataclass(frozen=True)
class DispatcherSettings:
    bootstrap_servers: str = setting("127.0.0.1:9092", "Kafka brokers, host:port, separated by commas")
    kafka_secret_file: str = setting("", "file with the login of that cluster, in the form of a Secret; empty: none")
    advertise: str = setting("127.0.0.1", "the address that Spark's own ports and the dispatcher's port listen on")
    dispatcher_port: int = setting(8091, "port of its metrics and of questions to Spark; another one if it is taken")
    dispatcher_token_file: str = setting(
        "", "where it writes the token of its port; empty: run/dispatcher.token in the data directory"
    )
    dispatcher_connections_per_address: int = setting(
        0, "open connections to its port from one client address; beyond it 503; 0: no limit"
    )
    dispatcher_metrics: Literal["auto", "open", "token"] = setting(
        "auto",
        "who may read its metrics; auto: everyone on a loopback address, else only with the token",
    )
    data_dir: str = setting(".penstock", "where scratch files and the ready mark go")
    master: str = setting("local[*]", "Spark master; local[*] gets as many slots as the partitions need")
    spark_secret_file: str = setting("", "file with the secret that a Spark cluster shares; a local Spark makes one")
    gear: Literal["auto", "live", "bulk"] = setting(
        "auto", "auto: by what flows; live: milliseconds, always; bulk: micro-batches, throughput first"
    )
    quiet_minutes: float = setting(5.0, "without an event, and a topic's query ends until the next one; 0: never")
    live_batch_minutes: float = setting(60.0, "length of a real-time batch")
    renewal_seconds: float = setting(
        120.0,
        "how long before the end of its real-time batch a query is replaced, since all lanes would wait at the end; "
        "at most half of the batch; 0: never",
    )
    bulk_interval_seconds: float = setting(0.2, "in bulk gear: how often a micro-batch starts at most")
    delivery_window: int = setting(
        32, "POSTs in flight per subscription and partition, where the order allows more than one"
    )
    unfinished_rows: int = setting(2_000, "events a worker keeps unfinished before it stops reading, per partition")
    unfinished_megabytes: int = setting(16, "bytes of event data a worker keeps unfinished, per partition")
    private_queries: int = setting(8, "subscriptions of a topic that may be slow at the same time, each in its query")
    attribute_limit: int = ATTRIBUTE_LIMIT_SETTING
    attribute_limit_bytes: int = ATTRIBUTE_LIMIT_BYTES_SETTING
    reply_hops: int = setting(
        16, "replies to replies, or dead letters of dead letters, before a loop is cut; counted in knativebrokerttl"
    )
    private_addresses: PrivateAddresses = PRIVATE_ADDRESSES_SETTING
    telemetry: Literal["on", "off"] = setting("on", "off: deliveries are neither counted nor logged")
    delivery_log: Literal["all", "failures", "off"] = setting(
        "all", "which attempts are kept for `penstock explain`: all, only what failed at least once, none"
    )
    secrets_dir: str = setting(
        "", "where Secrets and signing secrets are, by namespace; empty: secrets in the data directory"
    )
    driver_memory: str = setting("512m", "heap of Spark's driver, which also runs the tasks of a local master")
    take_over_seconds: float = setting(0.2, "how long to gather changes of triggers before a query is replaced")
    trace_sampling: float = SAMPLING_SETTING
    trace_exporter: ExporterName = EXPORTER_SETTING
    trace_endpoint: str = ENDPOINT_SETTING

    @property
    def policy(self) -> AddressPolicy:
        return AddressPolicy(self.private_addresses)

    @property
    def host(self) -> str:
        """The address of its ports."""
        return self.advertise or "127.0.0.1"

    @property
    def has_open_metrics(self) -> bool:
        if self.dispatcher_metrics != "auto":
            return self.dispatcher_metrics == "open"
        return is_loopback(self.host)

    @property
    def tracing(self) -> TraceSettings:
        return trace_settings(self)


def is_local(master: str) -> bool:
    """Whether Spark is this one process, with no cluster behind it."""
    return re.match(r"local(\[|$)", master) is not None


def megabytes(size: str) -> int:
    """A size as Java and Spark write it: 512m, 2g."""
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise Misconfigured(f"driver_memory is {size!r}; write it like 512m or 2g")
    return int(int(found[1]) * _UNITS[found[2].lower()])
