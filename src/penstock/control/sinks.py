"""What a KafkaSink wants: the topic that it names, made when partitions are given, else expected to be there."""

from penstock.control.clusters import cluster_of
from penstock.control.conditions import true
from penstock.control.config_maps import producer_of, topic_settings
from penstock.control.ingress import Configured, Surroundings
from penstock.control.kinds import Resource, namespace_of, spec_of
from penstock.kafka.topics import TopicSpec


def secret_of(sink: Resource) -> tuple[str, str] | None:
    """Namespace and name of the Secret with its credentials."""
    auth = spec_of(sink).get("auth")
    return (namespace_of(sink), str(auth["secret"]["ref"]["name"])) if auth else None


def configure(sink: Resource, around: Surroundings) -> Configured:
    spec, settings = spec_of(sink), around.settings
    servers = ",".join(spec.get("bootstrapServers") or [])
    topic = TopicSpec(
        name=str(spec["topic"]),
        partitions=spec.get("numPartitions") or settings.default_partitions,
        replication_factor=spec.get("replicationFactor") or settings.default_replication_factor,
        config=topic_settings({}, settings.default_retention_ms),
    )
    return Configured(
        topic,
        true("ConfigParsed"),
        may_create=spec.get("numPartitions") is not None,
        cluster=cluster_of(servers, secret_of(sink), around.lookup, settings),
        settings=producer_of(sink, {}),
        content_mode=spec.get("contentMode") or "binary",
    )
