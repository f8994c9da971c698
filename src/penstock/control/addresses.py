"""Where a destination leads: a uri as it stands, or the address of the resource that a ref names.

In: a destination (subscriber, reply, sink, dead letter sink), the namespace it was written in, and a way to look up
resources. Out: a URL, or why there is none. Pure; called by the plans of all kinds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from penstock.control.kinds import BY_NAME, SERVICE, Resource, is_being_deleted, spec_of, status_of
from penstock.control.validate_parts import host_problems

HTTP_PORT = 80
Lookup = Callable[[str, str, str], Resource | None]  # kind, namespace, name


@dataclass(frozen=True)
class Resolved:
    """A URL, or a reason and a message that say why there is none."""

    url: str | None
    reason: str = ""
    message: str = ""


def resolve(destination: dict[str, Any], namespace: str, lookup: Lookup) -> Resolved:
    ref = destination.get("ref")
    if ref is None:
        return Resolved(str(destination["uri"]))
    kind, name = str(ref["kind"]), str(ref["name"])
    where = str(ref.get("namespace") or namespace)
    shown = f"{kind} {where}/{name}"
    if kind not in BY_NAME:
        return Resolved(
            None, "RefNotServed", f"{shown} cannot be looked up here: this system keeps no {kind}; use uri"
        )
    target = lookup(kind, where, name)
    if target is None or is_being_deleted(target):
        return Resolved(None, "NotFound", f"{shown} does not exist")
    address = address_of(target)
    if not address:
        return Resolved(None, "NotAddressable", f"{shown} has no address (yet)")
    return Resolved(urljoin(address, destination["uri"]) if destination.get("uri") else address)


def address_of(resource: Resource) -> str | None:
    """Where it takes events; a Service's is where it points to."""
    if resource["kind"] != SERVICE.name:
        url = (status_of(resource).get("address") or {}).get("url")
        return str(url) if url else None
    spec = spec_of(resource)
    ports = [each.get("port") for each in spec.get("ports") or [] if each.get("port")]
    port = f":{ports[0]}" if ports and ports[0] != HTTP_PORT else ""
    host = str(spec["externalName"])
    if host_problems(host, "spec.externalName"):  # stored by a version that accepted it
        return None
    return f"http://{f'[{host}]' if ':' in host else host}{port}/"
