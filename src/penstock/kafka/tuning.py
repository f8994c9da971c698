"""Settings of Kafka's clients that a resource may choose, by the names that Kafka's own clients have for them.

Only what makes a client faster, smaller or more patient. What is promised to senders and subscribers (acknowledged by
all replicas, in order, from the ledger's positions) and who we are is not for a resource to set; nor is anything that
names a class or a file. Checked when a resource is applied, and again where a client is made.
"""

import re
from collections.abc import Iterable, Mapping

from penstock.errors import Misconfigured

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

NUMBERS = (".ms", ".bytes", ".size", ".level", ".records")
_NUMBER = re.compile("[0-9]{1,19}")
WORDS = {
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_uncommitted", "read_committed"),
    "check.crcs": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
}


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
    _check(settings, PRODUCER, "producer")
    return {PRODUCER[name]: value for name, value in settings.items()}


def consumer_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """For Java. Raises Misconfigured for one that a resource may not choose."""
    _check(settings, CONSUMER, "consumer")
    return dict(settings)


def _check(settings: Mapping[str, str], known: Iterable[str], whose: str) -> None:
    for name, value in settings.items():
        if name in PROMISED:
            raise Misconfigured(f"{name} of the {whose} cannot be set: {PROMISED[name]}", hint="leave it out")
        if name not in known:
            raise Misconfigured(
                f"{name} of the {whose} cannot be set", hint=f"what can be set: {', '.join(sorted(known))}"
            )
        if "${" in value:  # Kafka's client would look up what it refers to
            raise Misconfigured(f"{name} of the {whose} refers to something else; write the value itself")
        if name.endswith(NUMBERS) and name not in WORDS and not _NUMBER.fullmatch(value.strip()):
            raise Misconfigured(f"{name} of the {whose} is {value!r}, which is no number")
        if name in WORDS and value not in WORDS[name]:
            raise Misconfigured(f"{name} of the {whose} is {value!r}; it is one of {', '.join(WORDS[name])}")
