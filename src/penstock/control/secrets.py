"""Secrets: what is in them stays in files that only their owner may read; the store keeps the rest of the object.

So no word of a Secret is ever in a topic, in an answer of the API, or in an error. What others may know of it stands
in annotations: which keys it has, and which content it is (``SECRET_VERSION``); with another one, new clients.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.control.names import SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION
from penstock.kafka import secret_files
from penstock.kafka.secret_files import Data

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds the whole object
OLD_SERVERS = "brokers"  # a key of the former distributed channel's Secret, and no secret


class Secrets:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def stripped(self, applied: Mapping[str, Any]) -> tuple[dict[str, Any], Data]:
        """The object without what is in it, and what is in it. Nothing is written yet."""
        data = data_of(applied)
        kept = {field: value for field, value in applied.items() if field not in ("data", "stringData")}
        metadata = dict(applied["metadata"])
        notes = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
        notes[SECRET_VERSION] = secret_files.version_of(self.folder, data)
        notes[SECRET_KEYS] = ",".join(sorted(data))
        if data.get(OLD_SERVERS):
            notes[SECRET_SERVERS] = data[OLD_SERVERS].decode(errors="replace")
        return {**kept, "metadata": metadata | {"annotations": notes}}, data

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
        secret_files.remove(self.folder, f"{namespace}/{name}")


def data_of(applied: Mapping[str, Any]) -> Data:
    """``stringData`` wins over ``data``, as in Kubernetes."""
    found = {key: base64.b64decode("".join(value.split())) for key, value in (applied.get("data") or {}).items()}
    return found | {key: value.encode() for key, value in (applied.get("stringData") or {}).items()}
