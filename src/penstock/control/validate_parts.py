"""Checks that every kind shares: names, maps of text, annotations with a choice, numbers, lists of servers."""

import re
from collections.abc import Mapping
from typing import Any

from penstock.access.addresses import ALWAYS, LONGEST_NAME, is_host, literal_address
from penstock.filter.check import Problem

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):[0-9]{1,5}\Z")
LONGEST_LABEL = 63
LONGEST_TOPIC = 249
LONGEST_SHOWN = 100
MOST_PARTITIONS = 10_000
MOST_COPIES = 100


def name_problems(
    name: Any, where: str, form: re.Pattern[str] = SUBDOMAIN, longest: int = LONGEST_NAME
) -> list[Problem]:
    if name is None:
        return [Problem(where, "is missing")]
    if not isinstance(name, str):
        return [Problem(where, f'must be text; write "{name}" in quotes')]
    if not form.match(name) or len(name) > longest:
        rule = "lower-case letters, digits and '-', beginning and ending with a letter or digit"
        return [Problem(where, f'"{name}" is not a DNS-1123 name ({rule}; at most {longest} characters)')]
    return []


def text_map_problems(values: Any, where: str) -> list[Problem]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        return [Problem(where, "must be a map of text to text")]
    return [
        Problem(f"{where}[{name}]", f'the value must be text; write "{value}" in quotes')
        for name, value in values.items()
        if not isinstance(value, str)
    ]


def annotations(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map_of_metadata(resource, "annotations")


def labels(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map_of_metadata(resource, "labels")


def _map_of_metadata(resource: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    metadata = resource.get("metadata")
    found = metadata.get(field) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def choice_problems(resource: Mapping[str, Any], annotation: str, accepted: tuple[str, ...]) -> list[Problem]:
    value = annotations(resource).get(annotation)
    return one_of_problems(value, f"metadata.annotations[{annotation}]", accepted)


def one_of_problems(value: Any, where: str, accepted: tuple[str, ...]) -> list[Problem]:
    if value is None or value in accepted:
        return []
    return [Problem(where, f'"{value}" is not one of {", ".join(accepted)}')]


def topic_problems(topic: Any, where: str) -> list[Problem]:
    if not isinstance(topic, str):
        return [Problem(where, "is missing" if topic is None else "must be text")]
    if not _TOPIC.match(topic) or topic in (".", ".."):
        return [Problem(where, f'"{topic}" is not a name Kafka allows')]
    if topic.startswith(("penstock-", "__")):
        return [Problem(where, f'"{topic}" is kept for internal use')]
    return []


def own_topic_problems(resource: Mapping[str, Any], topic_of: Any) -> list[Problem]:
    """The topic that is named after the resource must not be longer than Kafka allows."""
    metadata = resource.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        return []  # said elsewhere
    own = topic_of(str(metadata.get("namespace") or "default"), metadata["name"])
    if len(own) > LONGEST_TOPIC:
        return [Problem("metadata.name", f"the topic {own} would be longer than {LONGEST_TOPIC} characters")]
    return []


def number_problems(value: Any, where: str, most: int, least: int = 1) -> list[Problem]:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value <= most):
        return []
    return [Problem(where, f'must be a whole number from {least:,} to {most:,}, not "{value}"')]


def host_problems(host: str, where: str) -> list[Problem]:
    """A host: a DNS name or an IP address, without port, user, path or brackets."""
    if not is_host(host):
        return [Problem(where, f"{shown_briefly(host)} is not a host: a DNS name or an IP address, and nothing else")]
    return address_problems(host, where)


def address_problems(host: str, where: str) -> list[Problem]:
    """An address, in any spelling, that no setting allows. What a name resolves to is checked when it is used."""
    literal = literal_address(host)
    why = ALWAYS.refusal(literal) if literal else ""
    return [Problem(where, f"{shown_briefly(host)} {why}")] if why else []


def shown_briefly(value: Any) -> str:
    """Text from others, for a message: quoted, escaped, and cut."""
    text = ascii(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def servers_problems(servers: Any, where: str) -> list[Problem]:
    """A list of host:port; Knative also writes several in one text, with commas."""
    if servers is None:
        return []
    if not isinstance(servers, list) or not servers:
        return [Problem(where, "must be a list of host:port")]
    found = []
    for place, each in enumerate(servers):
        for server in each.split(",") if isinstance(each, str) else [each]:
            if not isinstance(server, str) or not _SERVER.match(server.strip(" ")):
                found.append(Problem(f"{where}[{place}]", f"{shown_briefly(server)} is not host:port"))
                continue
            found += host_problems(server.strip(" ").rpartition(":")[0].strip("[]"), f"{where}[{place}]")
    return found
