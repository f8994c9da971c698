"""Which kind is an object meant to be? Checked before all else.

Also called by the command line, which needs the kind to find the API's path.
"""

from collections.abc import Mapping
from typing import Any

from penstock.control.kinds import BY_NAME, LATER, nearest
from penstock.filter.check import Problem


def kind_problems(resource: Any) -> list[Problem]:
    """What is wrong with apiVersion and kind; empty when they name a kind that is served."""
    if not isinstance(resource, Mapping):
        return [Problem("", "must be an object with apiVersion, kind and metadata")]
    kind, api_version = resource.get("kind"), resource.get("apiVersion")
    if not isinstance(kind, str):
        return [Problem("kind", "is missing" if kind is None else "must be text")]
    if kind in LATER:
        return [Problem("kind", f"{kind} is not served by this version; served are {', '.join(BY_NAME)}")]
    if kind not in BY_NAME:
        near = nearest(kind, BY_NAME)
        advice = f"did you mean {near}?" if near else f"known are {', '.join(BY_NAME)}"
        return [Problem("kind", f'unknown kind "{kind}"; {advice}')]
    served = BY_NAME[kind].api_versions
    if api_version not in served:
        expected = " or ".join(f'"{each}"' for each in served)
        return [Problem("apiVersion", f"must be {expected} for a {kind}, not {shown(api_version)}")]
    return []


def shown(value: Any) -> str:
    return "missing" if value is None else f'"{value}"'
