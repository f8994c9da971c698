"""The kinds of resources, and the parts of a resource that everybody reads.

A resource is the JSON object that Kubernetes would keep, as a plain dict that nobody alters: a change is a new
dict. Used by the store, the API, the planning functions and the command line.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import Misused

Resource = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    name: str
    plural: str
    api_versions: tuple[str, ...]  # that are served; all mean the same, and the first one is ours to name it by
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return self.api_versions[0]

    @property
    def collection_path(self) -> str:
        """The part of the API's paths that comes before the namespaces."""
        return collection_path(self.api_version)

    @property
    def words(self) -> tuple[str, ...]:
        return (self.name.lower(), self.plural, *self.short_names)


def collection_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


BROKER = Kind("Broker", "brokers", ("eventing.knative.dev/v1",))
TRIGGER = Kind("Trigger", "triggers", ("eventing.knative.dev/v1",))
CHANNEL = Kind(
    "KafkaChannel", "kafkachannels", ("messaging.knative.dev/v1beta1", "messaging.knative.dev/v1"), ("kc", "channel")
)
SUBSCRIPTION = Kind("Subscription", "subscriptions", ("messaging.knative.dev/v1",), ("sub", "subs"))
SOURCE = Kind(
    "KafkaSource", "kafkasources", ("sources.knative.dev/v1", "sources.knative.dev/v1beta1"), ("ks", "source")
)
SINK = Kind("KafkaSink", "kafkasinks", ("eventing.knative.dev/v1alpha1",), ("sink",))
SERVICE = Kind("Service", "services", ("v1",), ("svc",))
CONFIG_MAP = Kind("ConfigMap", "configmaps", ("v1",), ("cm",))
SECRET = Kind("Secret", "secrets", ("v1",))
KINDS = (BROKER, TRIGGER, CHANNEL, SUBSCRIPTION, SOURCE, SINK, SERVICE, CONFIG_MAP, SECRET)
BY_NAME = {kind.name: kind for kind in KINDS}
INGRESS = (BROKER, CHANNEL, SINK)  # have an address, and a topic behind it
EGRESS = (TRIGGER, SUBSCRIPTION, SOURCE)  # have events delivered
WITH_STATUS = (*INGRESS, *EGRESS)
WITHOUT_STATUS = (SERVICE, CONFIG_MAP, SECRET)  # are only read

# Kinds that this version does not serve yet: said so instead of guessed at.
LATER = ("EventQuery",)


def kind_of_word(word: str) -> Kind:
    """The kind that a person means by ``broker``, ``brokers``, ``Broker`` or ``cm``."""
    lowered = word.lower().split(".")[0]
    for kind in KINDS:
        if lowered in kind.words:
            return kind
    for later in LATER:
        if lowered in (later.lower(), later.lower() + "s"):
            raise Misused(f"kind {later} is not served by this version", hint=f"served: {_names()}")
    near = nearest(lowered, [w for kind in KINDS for w in kind.words])
    hint = f"did you mean {near}?" if near else f"known kinds: {_names()}"
    raise Misused(f'there is no kind "{word}"', hint=hint)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    candidates = list(known)
    lowered = {c.lower(): c for c in candidates}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def _names() -> str:
    return ", ".join(kind.plural for kind in KINDS)


def name_of(resource: Resource) -> str:
    return str(resource["metadata"]["name"])


def namespace_of(resource: Resource) -> str:
    return str(resource["metadata"]["namespace"])


def uid_of(resource: Resource) -> str:
    return str(resource["metadata"]["uid"])


def generation_of(resource: Resource) -> int:
    return int(resource["metadata"].get("generation", 1))


def key_of(resource: Resource) -> str:
    """The key of the resource in the resources topic and, for its agreement, in the contract topic."""
    return f"{resource['kind']}/{namespace_of(resource)}/{name_of(resource)}"


def is_being_deleted(resource: Resource) -> bool:
    return "deletionTimestamp" in resource["metadata"]


def annotations_of(resource: Resource) -> dict[str, str]:
    return resource["metadata"].get("annotations") or {}


def spec_of(resource: Resource) -> dict[str, Any]:
    return resource.get("spec") or {}


def status_of(resource: Resource) -> dict[str, Any]:
    return resource.get("status") or {}


def noted(resource: Resource) -> dict[str, str]:
    """What reconciling remembered about the resource (``status.annotations``, as Knative does)."""
    return status_of(resource).get("annotations") or {}


def condition(resource: Resource, type_: str) -> dict[str, Any]:
    """The condition of that type; an Unknown one when there is none yet."""
    for each in status_of(resource).get("conditions") or []:
        if each.get("type") == type_:
            return dict(each)
    return {"type": type_, "status": "Unknown", "reason": "", "message": ""}
