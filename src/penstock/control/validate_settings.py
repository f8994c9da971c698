"""Is a resource that others only read well formed: ConfigMap, Secret, Service. Called by ``validate.py``."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from penstock.control import names
from penstock.control.validate_delivery import is_map
from penstock.control.validate_parts import (
    annotations,
    host_problems,
    number_problems,
    servers_problems,
    text_map_problems,
)
from penstock.filter.check import Problem

HIGHEST_PORT = 65535


def config_map_problems(resource: Mapping[str, Any], _spec: Any) -> list[Problem]:
    return text_map_problems(resource.get("data"), "data")


def secret_problems(resource: Mapping[str, Any], _spec: Any) -> list[Problem]:
    """Without a word of what is in it."""
    found = []
    if servers := annotations(resource).get(names.SECRET_FOR):
        found += servers_problems([servers], f"metadata.annotations[{names.SECRET_FOR}]")
    for field in ("data", "stringData"):
        values = resource.get(field)
        if values is not None and not is_map(values):
            found.append(Problem(field, "must be a map of text to text"))
            continue
        for key, value in (values or {}).items():
            if not isinstance(value, str):
                found.append(Problem(f"{field}[{key}]", "the value must be text; write it in quotes"))
            elif field == "data" and not _is_base64(value):
                found.append(Problem(f"data[{key}]", "the value must be base64; plain text goes into stringData"))
    return found


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def service_problems(_resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    """Only what leads somewhere from here: there are no pods that a selector could find."""
    if not is_map(spec):
        return [Problem("spec", "must be an object with externalName")]
    name = spec.get("externalName")
    if not isinstance(name, str) or not name:
        advice = "is missing: a Service is an address outside here; give the host, and its port in spec.ports"
        return [Problem("spec.externalName", advice)]
    found = host_problems(name, "spec.externalName")
    if spec.get("type") not in (None, "ExternalName"):
        found.append(Problem("spec.type", f'must be ExternalName, not "{spec["type"]}"'))
    ports = spec.get("ports")
    if ports is not None and (not isinstance(ports, list) or not all(is_map(each) for each in ports)):
        found.append(Problem("spec.ports", "must be a list of objects with a port"))
    for place, each in enumerate(ports if isinstance(ports, list) else []):
        if is_map(each):
            found += number_problems(each.get("port"), f"spec.ports[{place}].port", HIGHEST_PORT)
    return found
