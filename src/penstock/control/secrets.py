"""Secrets: what is in them stays in files that only their owner may read; the store keeps the rest of the object.

So no word of a Secret is ever in a topic, in an answer of the API, or in an error. What others may know of it stands
in annotations: which keys it has, and which content it is (``SECRET_VERSION``); with another one, new clients.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.control.kinds import Resource, annotations_of
from penstock.control.names import SECRET_FOR, SECRET_KAFKA_KEYS, SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION
from penstock.errors import Rejected
from penstock.kafka import java_files, secret_files
from penstock.kafka.secret_files import Data

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds the whole object
OLD_SERVERS = "brokers"  # a key of the former distributed channel's Secret, and no secret
_NOTES = (SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION)
_PURPOSE = (SECRET_FOR, SECRET_KAFKA_KEYS)


class Secrets:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def stripped(self, applied: Mapping[str, Any], old: Resource | None = None) -> tuple[dict[str, Any], Data | None]:
        """The object without what is in it, and what is in it; None: what is kept stays. Nothing is written yet."""
        if _is_as_shown(applied):
            return self._as_kept(applied, old), None
        data = data_of(applied)
        kept = {field: value for field, value in applied.items() if field not in ("data", "stringData")}
        metadata = dict(applied["metadata"])
        notes = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
        notes[SECRET_VERSION] = secret_files.version_of(self.folder, data)
        notes[SECRET_KEYS] = ",".join(sorted(data))
        if data.get(OLD_SERVERS):
            notes[SECRET_SERVERS] = data[OLD_SERVERS].decode(errors="replace")
        return {**kept, "metadata": metadata | {"annotations": notes}}, data

    def _as_kept(self, applied: Mapping[str, Any], old: Resource | None) -> dict[str, Any]:
        """Somebody applies what ``get`` has shown, where the values are missing: that must not empty the Secret."""
        if old is None:
            raise Rejected(
                "the Secret has no values; what `get` shows never has them", hint="apply it with its values"
            )
        before, now = annotations_of(old), applied["metadata"].get("annotations") or {}
        if changed := [name for name in _PURPOSE if now.get(name) != before.get(name)]:
            raise Rejected(
                f"only somebody who knows its values may change what the Secret is for ({', '.join(changed)})",
                hint="apply it with its values",
            )
        notes = {name: text for name, text in before.items() if name in _NOTES}
        metadata = dict(applied["metadata"])
        return {**applied, "metadata": metadata | {"annotations": {**(metadata.get("annotations") or {}), **notes}}}

    def write(self, namespace: str, name: str, data: Mapping[str, bytes]) -> None:
        secret_files.write(self.folder, f"{namespace}/{name}", data)

    def read(self, namespace: str, name: str) -> Data:
        """Raises Misconfigured."""
        return secret_files.read(self.folder, f"{namespace}/{name}")

    def kept(self, namespace: str, name: str, data: Mapping[str, bytes]) -> str:
        """Writes it unless it is there already; its version."""
        version = secret_files.version_of(self.folder, data)
        path = secret_files.path_of(self.folder, f"{namespace}/{name}")
        if not path.exists() or secret_files.version_of(self.folder, self.read(namespace, name)) != version:
            self.write(namespace, name, data)
        return version

    def remove(self, namespace: str, name: str) -> None:
        """With the files that were made from it for Java's clients."""
        secret_files.remove(self.folder, f"{namespace}/{name}")
        java_files.forget(self.folder, f"{namespace}/{name}")


def _is_as_shown(applied: Mapping[str, Any]) -> bool:
    """Whether it has come out of the store: with our notes, and without what they are about."""
    notes = applied["metadata"].get("annotations") or {}
    return SECRET_VERSION in notes and applied.get("data") is None and applied.get("stringData") is None


def data_of(applied: Mapping[str, Any]) -> Data:
    """``stringData`` wins over ``data``, as in Kubernetes."""
    found = {key: base64.b64decode("".join(value.split())) for key, value in (applied.get("data") or {}).items()}
    return found | {key: value.encode() for key, value in (applied.get("stringData") or {}).items()}
