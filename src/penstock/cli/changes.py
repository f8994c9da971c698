"""What an apply would change, field by field: ``path: old -> new``. Pure; used by ``apply --dry-run``.

Status and what the store sets is left out. Of a Secret there is nothing here to be seen but the names of its keys
and whether its content is another one.
"""

import json
from collections.abc import Iterator
from typing import Any

from penstock.control.kinds import SECRET, Resource, annotations_of
from penstock.control.names import SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION

NOTHING = object()
_OURS = (SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION)


def changes(old: Resource, new: Resource) -> list[str]:
    found = [f"{path}: {_shown(before)} -> {_shown(after)}" for path, before, after in _differing(old, new)]
    return found + (_secret_changes(old, new) if new["kind"] == SECRET.name else [])


def _differing(old: Resource, new: Resource) -> Iterator[tuple[str, Any, Any]]:
    yield from _between("metadata", _metadata(old), _metadata(new))
    for field in [*new, *(each for each in old if each not in new)]:
        if field not in ("metadata", "status", "kind"):
            yield from _between(field, old.get(field, NOTHING), new.get(field, NOTHING))


def _metadata(resource: Resource) -> dict[str, Any]:
    notes = {name: text for name, text in annotations_of(resource).items() if name not in _OURS}
    return {"labels": resource["metadata"].get("labels") or {}, "annotations": notes}


def _between(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(each for each in old if each not in new)]:
            yield from _between(_below(path, str(key)), old.get(key, NOTHING), new.get(key, NOTHING))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _between(f"{path}[{place}]", before, after)
    else:
        yield path, old, new


def _below(path: str, key: str) -> str:
    """Keys with dots are written as validation writes them."""
    return f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"


def _shown(value: Any) -> str:
    return "(none)" if value is NOTHING else json.dumps(value, ensure_ascii=False)


def _secret_changes(old: Resource, new: Resource) -> list[str]:
    keys, keys_before = (annotations_of(each).get(SECRET_KEYS, "") for each in (new, old))
    if keys != keys_before:
        return [f"keys: {keys_before or '(none)'} -> {keys or '(none)'}"]
    versions = {annotations_of(each).get(SECRET_VERSION) for each in (new, old)}
    return ["data: other values, which are not shown"] if len(versions) > 1 else []
