"""Limits of what is stored: partitions, topics, resources, bytes. Pure; the store asks before it writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.control import json_content
from penstock.control.kinds import CHANNEL, SINK, SOURCE, Resource, namespace_of
from penstock.control.settings import ControllerSettings
from penstock.errors import Rejected
from penstock.filter.check import Problem

RESERVE = 1.1  # with a full store, subscriptions can still be paused and resumed
MOST_TOPICS = 100  # of a KafkaSource: its status has a position for each of them
REMEDY = "delete some that are not needed, or start the controller with a higher {setting}"


class LimitReached(Rejected):
    """No further resource is stored; the present ones stay."""


@dataclass(frozen=True)
class Limits:
    partitions: int = 256
    resources_in_namespace: int = 2_000
    resources: int = 10_000
    resource_bytes: int = 768 * 1024
    bytes_in_all: int = 256 * 1024 * 1024

    @classmethod
    def of(cls, settings: ControllerSettings) -> "Limits":
        return cls(
            partitions=settings.partitions_limit,
            resources_in_namespace=settings.most_resources_in_namespace,
            resources=settings.most_resources,
            resource_bytes=settings.largest_resource_bytes,
            bytes_in_all=settings.most_resource_bytes,
        )

    def problems(self, resource: Mapping[str, Any], old: Resource | None) -> list[Problem]:
        """Of one resource. What was stored under a higher limit may stay as it is."""
        found = []
        asked = _partitions(resource)
        if asked > self.partitions and (old is None or asked != _partitions(old)):
            most = f"the setting most_partitions allows at most {self.partitions:,}"
            found.append(Problem("spec.numPartitions", f"{asked:,} are too many: {most}"))
        topics = _topics(resource)
        if topics > MOST_TOPICS and (old is None or topics > _topics(old)):
            message = f"{topics:,} topics are too many: a source reads at most {MOST_TOPICS}; use several sources"
            found.append(Problem("spec.topics", message))
        size = size_of(resource)
        if size > self.resource_bytes and (old is None or size > size_of(old)):
            message = f"the resource has {size:,} bytes; at most {self.resource_bytes:,} are stored"
            found.append(Problem("", message))
        return found

    def check_room(self, namespace: str, stored: list[Resource]) -> None:
        """For one more. Raises LimitReached."""
        if len(stored) >= self.resources:
            raise LimitReached(
                f"there are already {len(stored):,} resources; more are not allowed",
                hint=REMEDY.format(setting="most_resources"),
            )
        inside = sum(namespace_of(each) == namespace for each in stored)
        if inside >= self.resources_in_namespace:
            raise LimitReached(
                f"namespace {namespace} already has {inside:,} resources; more are not allowed",
                hint=REMEDY.format(setting="most_resources_in_namespace"),
            )

    def check_bytes(self, stored: int, growth: int, *, is_note: bool) -> None:
        """For a resource that adds so many bytes to the stored ones. One that does not grow always has room."""
        most = self.bytes_in_all * RESERVE if is_note else self.bytes_in_all
        if growth > 0 and stored + growth > most:
            raise LimitReached(
                f"all resources together have {stored:,} bytes; {growth:,} more would exceed the limit",
                hint=REMEDY.format(setting="most_resource_bytes"),
            )


def size_of(resource: Mapping[str, Any]) -> int:
    """As it is stored, without the status, which is ours."""
    return len(json_content.as_bytes({field: value for field, value in resource.items() if field != "status"}))


def _partitions(resource: Mapping[str, Any]) -> int:
    if resource["kind"] not in (CHANNEL.name, SINK.name):
        return 0
    asked = (resource.get("spec") or {}).get("numPartitions")
    return asked if isinstance(asked, int) else 0


def _topics(resource: Mapping[str, Any]) -> int:
    topics = (resource.get("spec") or {}).get("topics") if resource["kind"] == SOURCE.name else None
    return len(topics) if isinstance(topics, list) else 0
