"""Settings of Kafka's clients that a resource may choose, by the names that Kafka's own clients have for them.

Only what makes a client faster, smaller or more patient. What is promised to senders and subscribers (acknowledged by
all replicas, in order, from the ledger's positions) and who we are is not for a resource to set; nor is anything that
names a class or a file. A number has a range: all triggers of a topic share a query and its settings, so a value
that Kafka's client refuses, or with which it reads nothing, would stop all of them.

Checked when a resource is applied, and again where a client is made. There, a producer with an invalid setting is
refused, which affects one address only. For a consumer, an invalid setting is left out and logged.
"""

import logging
import re
from collections.abc import Iterable, Mapping

from penstock.errors import Misconfigured

logger = logging.getLogger("penstock.kafka")

# Java's name: librdkafka's
PRODUCER = {
    "batch.size": "batch.size",
    "client.dns.lookup": "client.dns.lookup",
    "compression.type": "compression.type",
    "compression.level": "compression.level",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "linger.ms": "linger.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "request.timeout.ms": "request.timeout.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "sticky.partitioning.linger.ms": "sticky.partitioning.linger.ms",
}

CONSUMER = frozenset(
    {
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)

# Least and most. A fetch stops waiting before its request or its connection times out.
MEGABYTE = 1024 * 1024
NUMBERS = {
    "batch.size": (1, 16 * MEGABYTE),
    "compression.level": (0, 12),
    "connections.max.idle.ms": (10_000, 3_600_000),
    "default.api.timeout.ms": (10_000, 600_000),
    "fetch.max.bytes": (1024, 100 * MEGABYTE),
    "fetch.max.wait.ms": (0, 5_000),
    "fetch.min.bytes": (1, MEGABYTE),
    "linger.ms": (0, 1_000),
    "max.partition.fetch.bytes": (1024, 100 * MEGABYTE),
    "max.poll.records": (1, 100_000),
    "metadata.max.age.ms": (1_000, 3_600_000),
    "receive.buffer.bytes": (4096, 16 * MEGABYTE),
    "reconnect.backoff.max.ms": (10, 60_000),
    "reconnect.backoff.ms": (10, 60_000),
    "request.timeout.ms": (10_000, 300_000),
    "retry.backoff.max.ms": (10, 10_000),
    "retry.backoff.ms": (10, 10_000),
    "send.buffer.bytes": (4096, 16 * MEGABYTE),
    "socket.connection.setup.timeout.max.ms": (1_000, 60_000),
    "socket.connection.setup.timeout.ms": (1_000, 60_000),
    "sticky.partitioning.linger.ms": (0, 1_000),
}
WORDS = {
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_uncommitted", "read_committed"),
    "check.crcs": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
}

_NUMBER = re.compile(r"[0-9]{1,10}")
_TEXT = re.compile(r"[!-~]{1,255}")
LONGEST_SHOWN = 40
LONGEST_NAME = 100

# What users of Kafka often set, and why it is not theirs to set here.
PROMISED = {
    "acks": "an event is accepted when all in-sync replicas have it",
    "enable.idempotence": "a retry must not store an event twice",
    "max.in.flight.requests.per.connection": "a retry must not change the order",
    "retries": "how long to try is the receiver's delivery_timeout_seconds",
    "delivery.timeout.ms": "how long to try is the receiver's delivery_timeout_seconds",
    "transactional.id": "events are not written in transactions",
    "partitioner": "events with the same key stay in order",
    "key.serializer": "records have the form that CloudEvents gives them",
    "value.serializer": "records have the form that CloudEvents gives them",
    "group.id": "the group is named after the resource, or by spec.consumerGroup",
    "enable.auto.commit": "positions are kept in the ledger",
    "auto.offset.reset": "where to begin is said by penstock.dev/start or spec.initialOffset",
    "bootstrap.servers": "the cluster is named by the resource or its ConfigMap",
    "security.protocol": "credentials are in a Secret",
    "sasl.jaas.config": "credentials are in a Secret",
}


def producer_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """For librdkafka. Raises Misconfigured for one that a resource may not choose."""
    for name, value in settings.items():
        _check(name, value, PRODUCER, "producer")
    return {PRODUCER[name]: value for name, value in settings.items()}


def consumer_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """For Java. Raises Misconfigured for one that a resource may not choose."""
    for name, value in settings.items():
        _check(name, value, CONSUMER, "consumer")
    return dict(settings)


def usable_consumer_settings(settings: Mapping[str, str], whose: str) -> dict[str, str]:
    """The same, but an invalid setting is left out and logged. ``whose``: the resource that it is from."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        try:
            found |= consumer_settings({name: value})
        except Misconfigured as error:
            logger.warning("a setting of %s is left out: %s", whose, error.message)
    return found


def _check(name: str, value: str, known: Iterable[str], whose: str) -> None:
    if name in PROMISED:
        raise Misconfigured(f"{name} of the {whose} cannot be set: {PROMISED[name]}", hint="leave it out")
    if name not in known:
        known_names = f"what can be set: {', '.join(sorted(known))}"
        raise Misconfigured(f"{name[:LONGEST_NAME]!a} of the {whose} cannot be set", hint=known_names)
    if "${" in value:  # Kafka's client would look up what it refers to
        raise Misconfigured(f"{name} of the {whose} must not contain ${{…}}; write the value itself")
    shown = f"{name} of the {whose} is {value[:LONGEST_SHOWN]!a}"
    if name in WORDS:
        if value not in WORDS[name]:
            raise Misconfigured(f"{shown}; it is one of {', '.join(WORDS[name])}")
    elif name in NUMBERS:
        least, most = NUMBERS[name]
        if not _NUMBER.fullmatch(value) or not least <= int(value) <= most:
            raise Misconfigured(f"{shown}; it must be a whole number from {least:,} to {most:,}")
    elif not _TEXT.fullmatch(value):
        raise Misconfigured(f"{shown}; it must be text in ASCII without spaces")
