"""What a Broker wants: a topic named after it, or one that it is given; settings from a ConfigMap."""

from penstock.control import names
from penstock.control.clusters import cluster_of
from penstock.control.conditions import Condition, true
from penstock.control.config_maps import (
    AUTH,
    BOOTSTRAP,
    REPLICATION,
    consumer_of,
    number,
    producer_of,
    topic_settings,
    understood,
)
from penstock.control.config_maps import PARTITIONS as PARTITIONS
from penstock.control.ingress import Configured, Surroundings
from penstock.control.kinds import CONFIG_MAP, Resource, annotations_of, name_of, namespace_of, noted, spec_of
from penstock.errors import Misconfigured
from penstock.kafka.topics import TopicSpec


def config_reference(broker: Resource) -> tuple[str, str] | None:
    """Namespace and name of the ConfigMap, if the broker names one."""
    config = spec_of(broker).get("config")
    return (str(config.get("namespace") or namespace_of(broker)), str(config["name"])) if config else None


def configure(broker: Resource, around: Surroundings) -> Configured:
    """Misconfigured when the ConfigMap or its Secret is missing, or makes no sense."""
    settings, reference = around.settings, config_reference(broker)
    config_map = around.lookup(CONFIG_MAP.name, *reference) if reference else None
    data, parsed = _config_data(broker, config_map)
    secret = (reference[0], data[AUTH]) if reference and data.get(AUTH) else None
    consumer_of(broker, data)  # for its triggers: said here if it makes no sense
    most = max(
        settings.partitions_limit, int(noted(broker).get(names.NOTED_PARTITIONS) or 0)
    )  # it keeps the partitions that it has
    external = annotations_of(broker).get(names.EXTERNAL_TOPIC)
    topic = TopicSpec(
        name=external or names.broker_topic(namespace_of(broker), name_of(broker)),
        partitions=number(data, PARTITIONS, settings.default_partitions, most),
        replication_factor=number(data, REPLICATION, settings.default_replication_factor),
        config=topic_settings(data, settings.default_retention_ms),
    )
    return Configured(
        topic,
        parsed,
        may_create=external is None,
        cluster=cluster_of(data.get(BOOTSTRAP, ""), secret, around.lookup, settings),
        settings=producer_of(broker, data),
        remembered=data,
    )


def _config_data(broker: Resource, config_map: Resource | None) -> tuple[dict[str, str], Condition]:
    reference = config_reference(broker)
    if reference is None:
        return {}, true("ConfigParsed", "Defaults", "the broker names no ConfigMap")
    if config_map is not None:
        return understood(config_map.get("data") or {}), true("ConfigParsed")
    remembered = understood(noted(broker))
    shown = "/".join(reference)
    if remembered or names.NOTED_TOPIC_ID in noted(broker):
        return remembered, true("ConfigParsed", "Remembered", f"ConfigMap {shown} is gone; its last values are used")
    raise Misconfigured(f"ConfigMap {shown} does not exist")
