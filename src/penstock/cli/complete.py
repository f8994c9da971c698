"""Shell completion of what is live: kinds, names, namespaces. Never an error, never slow."""

import os

import typer


def kinds(incomplete: str) -> list[str]:
    from penstock.control.kinds import KINDS

    return [kind.plural for kind in KINDS if kind.plural.startswith(incomplete)]


def targets(context: typer.Context, incomplete: str) -> list[str]:
    """``KIND/NAME`` of what can be waited for."""
    from penstock.control.kinds import WITH_STATUS

    return _named(context, incomplete, WITH_STATUS)


def addresses(context: typer.Context, incomplete: str) -> list[str]:
    """``KIND/NAME`` of what takes events."""
    from penstock.control.kinds import INGRESS

    return _named(context, incomplete, INGRESS)


def receivers(context: typer.Context, incomplete: str) -> list[str]:
    """``KIND``, then ``KIND/NAME``, of what has events delivered."""
    from penstock.control.kinds import EGRESS

    if "/" in incomplete:
        return _named(context, incomplete, EGRESS)
    return [kind.name.lower() for kind in EGRESS if kind.name.lower().startswith(incomplete)]


def _named(context: typer.Context, incomplete: str, kinds: "tuple[Kind, ...]") -> list[str]:  # type: ignore[name-defined]  # noqa: F821
    """Only kinds that can still be meant are asked for."""
    offered = []
    for word in (kind.name.lower() for kind in kinds):
        if word.startswith(incomplete) or incomplete.startswith(f"{word}/"):
            offered += [f"{word}/{name}" for name in _names(word, context)]
    return [each for each in offered if each.startswith(incomplete)]


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the kind that was typed before."""
    word = context.params.get("kind") or ""
    return [name for name in _names(word, context) if name.startswith(incomplete)]


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    from penstock.control.kinds import KINDS

    try:
        client = _client(context)
        found = {each["metadata"]["namespace"] for kind in KINDS for each in client.listing(kind, None)}
    except Exception:
        return []
    return sorted(each for each in found if each.startswith(incomplete))


def _names(word: str, context: typer.Context) -> list[str]:
    from penstock.control.kinds import kind_of_word

    try:
        namespace = context.params.get("namespace") or "default"
        listed = _client(context).listing(kind_of_word(word), namespace)
    except Exception:  # a shell that completes must never see an error
        return []
    return [each["metadata"]["name"] for each in listed]


def _client(context: typer.Context) -> "Client":  # type: ignore[name-defined]  # noqa: F821
    from penstock.cli.client import Client

    server = context.params.get("server") or os.environ.get("PENSTOCK_SERVER") or "http://127.0.0.1:8090"
    return Client(server, timeout_seconds=1.0)
