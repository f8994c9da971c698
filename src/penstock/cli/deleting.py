"""What ``delete`` thinks of: the order, and who is left behind without what is deleted."""

from typing import Any

from penstock.cli.client import Client
from penstock.cli.output import say
from penstock.cli.targets import Target
from penstock.control.kinds import EGRESS, INGRESS

Doomed = tuple[Target, str]  # and its namespace

_RANKS = {**{kind.name: 0 for kind in EGRESS}, **{kind.name: 1 for kind in INGRESS}}
_WORDS = {  # for one, and for several
    "events": ("loses its events", "lose their events"),
    "destination": ("loses where it sends to", "lose where they send to"),
    "settings": ("is configured by it", "are configured by it"),
    "credentials": ("loses its credentials", "lose their credentials"),
}


def readers_first(doomed: list[Doomed]) -> list[Doomed]:
    """So that nothing is left waiting for what is gone: triggers before brokers, and both before their settings."""
    return sorted(doomed, key=lambda item: _RANKS.get(item[0].kind.name, 2))


def left_behind(client: Client, target: Target, namespace: str, doomed: list[Doomed]) -> list[dict[str, str]]:
    """Who depends on it, but for those that go in the same command."""
    going = {(each.kind.name, where, each.name) for each, where in doomed}
    found = client.dependents(target.kind, namespace, target.name or "")
    return [each for each in found if (each["kind"], each["namespace"], each["name"]) not in going]


def warn(left: list[dict[str, str]], namespace: str) -> None:
    """``trigger/audit, trigger/bill lose their events``, a line for each kind of loss."""
    for what, (one, several) in _WORDS.items():
        shown = [_shown(each, namespace) for each in left if each["loses"] == what]
        if shown:
            say(f"{', '.join(shown)} {one if len(shown) == 1 else several}")


def _shown(loser: dict[str, Any], namespace: str) -> str:
    elsewhere = "" if loser["namespace"] == namespace else f" of namespace {loser['namespace']}"
    return f"{loser['kind'].lower()}/{loser['name']}{elsewhere}"
