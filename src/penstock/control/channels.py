"""What a KafkaChannel wants: a topic of its own, an address by path and by host name; and who its subscribers are.

Where its Kafka is says, as in Knative, a ConfigMap for all channels (``knative-eventing/kafka-channel-config``), or
the labelled Secret of the former distributed channel; without either it is home.
"""

from collections.abc import Mapping
from typing import Any

from penstock.control import names
from penstock.control.clusters import cluster_of
from penstock.control.conditions import true
from penstock.control.config_maps import AUTH, AUTH_NAMESPACE, BOOTSTRAP, producer_of, topic_settings, understood
from penstock.control.durations import seconds_of
from penstock.control.ingress import Configured, Surroundings
from penstock.control.kinds import (
    CONFIG_MAP,
    SECRET,
    SUBSCRIPTION,
    Resource,
    annotations_of,
    condition,
    generation_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from penstock.kafka.topics import TopicSpec

CONFIG = (names.SYSTEM_NAMESPACE, names.CHANNEL_CONFIG)


def configure(channel: Resource, around: Surroundings) -> Configured:
    spec, settings = spec_of(channel), around.settings
    config_map = around.lookup(CONFIG_MAP.name, *CONFIG)
    data = understood((config_map or {}).get("data") or {})
    servers, secret = data.get(BOOTSTRAP, ""), secret_of(data)
    if config_map is None and (old := _old_secret(around)) is not None:
        servers, secret = annotations_of(old).get(names.SECRET_SERVERS, ""), (namespace_of(old), name_of(old))
    retention_ms = settings.default_retention_ms
    if spec.get("retentionDuration"):
        retention_ms = int(seconds_of(spec["retentionDuration"]) * 1000)
    topic = TopicSpec(
        name=names.channel_topic(namespace_of(channel), name_of(channel)),
        partitions=spec.get("numPartitions") or settings.default_partitions,
        replication_factor=spec.get("replicationFactor") or settings.default_replication_factor,
        config=topic_settings(data, retention_ms),
    )
    return Configured(
        topic,
        true("ConfigParsed"),
        cluster=cluster_of(servers, secret, around.lookup, settings),
        settings=producer_of(channel, data),
        remembered=data,
        hosts=names.channel_hosts(namespace_of(channel), name_of(channel)),
    )


def secret_of(data: Mapping[str, str]) -> tuple[str, str] | None:
    """Namespace and name of the Secret that the ConfigMap for all channels names."""
    return (data.get(AUTH_NAMESPACE) or CONFIG[0], data[AUTH]) if data.get(AUTH) else None


def _old_secret(around: Surroundings) -> Resource | None:
    for each in around.everything(SECRET.name):
        labels = each["metadata"].get("labels") or {}
        if namespace_of(each) == names.SYSTEM_NAMESPACE and labels.get(names.OLD_SECRET_LABEL) == "true":
            return each
    return None


def subscriptions_of(channel: Resource, subscriptions: list[Resource]) -> list[Resource]:
    return [
        each
        for each in subscriptions
        if namespace_of(each) == namespace_of(channel) and spec_of(each)["channel"].get("name") == name_of(channel)
    ]


def extra_status(channel: Resource, around: Surroundings) -> dict[str, Any]:
    """``status.subscribers``, as Channelables have them."""
    shown = []
    for each in subscriptions_of(channel, around.everything(SUBSCRIPTION.name)):
        added = condition(each, "AddedToChannel")
        one: dict[str, Any] = {
            "uid": uid_of(each),
            "observedGeneration": int(status_of(each).get("observedGeneration") or generation_of(each)),
            "ready": added["status"],
        }
        if added.get("message"):
            one["message"] = added["message"]
        shown.append(one)
    return {"subscribers": shown} if shown else {}
