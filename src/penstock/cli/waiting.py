"""What ``wait`` waits for, and the waiting."""

import time
from dataclasses import dataclass

from penstock.cli.client import Client, NotFound
from penstock.cli.targets import Target
from penstock.control.kinds import Resource, condition, generation_of, status_of
from penstock.errors import Misused, Unavailable
from penstock.visible import visible_line

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Asked:
    type: str | None  # None: that it is gone
    status: str = "True"

    @property
    def shown(self) -> str:
        return "deletion" if self.type is None else f"{self.type}={self.status}"

    @property
    def done(self) -> str:
        return "deleted" if self.type is None else "condition met"


def asked(text: str) -> Asked:
    """``condition=Ready``, ``condition=Ready=False`` or ``delete``."""
    if text == "delete":
        return Asked(None)
    what, _, rest = text.partition("=")
    type_, _, status = rest.partition("=")
    if what != "condition" or not type_:
        raise Misused(
            f"--for={text} is not understood", hint="--for=condition=Ready, --for=condition=Ready=False, --for=delete"
        )
    statuses = {"true": "True", "false": "False", "unknown": "Unknown"}
    wanted = statuses.get((status or "True").lower())
    if wanted is None:
        raise Misused(f'a condition is True, False or Unknown, not "{status}"', hint=f"--for=condition={type_}=False")
    return Asked(type_, wanted)


def until(client: Client, target: Target, namespace: str, wanted: Asked, deadline: float) -> str | None:
    """None when it came to pass, or why it had not when the time was up."""
    reached = False  # a server that was there and is away for a moment is waited for; one that never was is not
    while True:
        try:
            resource = client.one(target.kind, namespace, target.name or "")
            reached = True
            reason = _missing(resource, wanted)
        except NotFound:
            if wanted.type is None:
                return None
            raise
        except Unavailable as error:
            if not reached and "starting" not in error.message:
                raise
            reason = error.message
        if reason is None:
            return None
        if time.monotonic() >= deadline:
            return reason
        time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))


def _missing(resource: Resource, wanted: Asked) -> str | None:
    if wanted.type is None:
        return "it is still there"
    found = condition(resource, wanted.type)
    observed = status_of(resource).get("observedGeneration")
    if observed is not None and observed != generation_of(resource):
        return "the latest change has not been looked at yet"
    if found["status"] == wanted.status:
        return None
    why = ": ".join(each for each in (found.get("reason"), found.get("message")) if each)
    return f"{wanted.type} is {found['status']}" + (f": {visible_line(why)}" if why else "")
