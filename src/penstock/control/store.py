"""Where resources are kept: the interface, and the local store in a compacted Kafka topic.

The Kubernetes store comes behind the same interface. A write is done when Kafka has acknowledged it; readers see
it from then on. There is one writer, the controller.
"""

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from penstock.contract.model import RESOURCES_TOPIC
from penstock.control import json_content, sources, stored_objects, validate
from penstock.control.admission import Stamp, Verdict, admitted
from penstock.control.conditions import timestamp
from penstock.control.kinds import (
    SECRET,
    SOURCE,
    Resource,
    annotations_of,
    is_being_deleted,
    key_of,
    name_of,
    namespace_of,
)
from penstock.control.limits import Limits
from penstock.control.records import Records
from penstock.control.secrets import Secrets
from penstock.errors import Misconfigured, Rejected
from penstock.filter.check import Problem
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.secret_files import Data

logger = logging.getLogger("penstock.control")

DEFAULT_LIMITS = Limits()
REFRESH_SECONDS = 5.0  # others wait for the store meanwhile

Listener = Callable[[str, Resource], None]  # "ADDED", "MODIFIED" or "DELETED", and the object


class Invalid(Rejected):
    """A resource that cannot be stored, with every reason."""

    def __init__(self, what: str, problems: list[Problem]) -> None:
        super().__init__(f"{what} is invalid: " + "; ".join(f"{p.field}: {p.message}" for p in problems))
        self.what = what
        self.problems = problems


class Malformed(Invalid):
    """It has values that JSON cannot contain, so it is not even an invalid resource."""


class Conflict(Rejected):
    """The stored object is in a state that does not allow this."""


class Store(Protocol):
    def get(self, kind: str, namespace: str, name: str) -> Resource | None: ...

    def list(self, kind: str | None = None, namespace: str | None = None) -> list[Resource]: ...

    def unreadable(self) -> Mapping[str, str]:
        """Stored objects that are skipped, and why, by key."""
        ...

    def problems(self) -> Mapping[str, str]:
        """Problems of stored objects, by key: they are skipped, or a part of them is replaced."""
        ...

    def apply(self, applied: Any, *, dry_run: bool = False, replaces: bool = False) -> tuple[Resource, Verdict]:
        """The stored object and what it was; in a dry run what it would be, with nothing stored.

        ``replaces``: the object is meant to replace the one whose resourceVersion and uid it names, if it names them.
        Raises Conflict when that is not the present one.
        """
        ...

    def annotate(self, kind: str, namespace: str, name: str, notes: dict[str, str | None]) -> Resource | None:
        """Sets annotations (None takes one away) and leaves all else as it is; None when there is no such object."""
        ...

    def delete(self, kind: str, namespace: str, name: str) -> Resource | None:
        """Marks it as being deleted; reconciling takes it apart and then calls ``remove``."""
        ...

    def write_status(self, resource: Resource, status: dict[str, Any]) -> Resource | None:
        """None when the object is gone or another one has taken its name."""
        ...

    def remove(self, resource: Resource) -> None: ...

    def listen(self, listener: Listener) -> None: ...


class KafkaStore:
    """The local store. Values are whole objects as JSON; the key is ``Kind/namespace/name``."""

    def __init__(
        self,
        connection: KafkaConnection,
        secrets: Secrets,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._secrets = secrets
        self._records = Records(connection, RESOURCES_TOPIC)
        self._limits = limits
        self._clock = clock
        # Replaced, never changed in place: readers need no lock and never wait.
        self._objects: dict[str, Resource] = {}
        self._unreadable: dict[str, str] = {}
        self._repaired: dict[str, str] = {}
        self._sizes: dict[str, int] = {}  # bytes of each stored object; used only under the lock
        self._version = 0
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()

    def load(self) -> None:
        """Reads everything; to be called once before anything else."""
        with self._lock:
            self._take(self._records.load())

    def get(self, kind: str, namespace: str, name: str) -> Resource | None:
        return self._objects.get(f"{kind}/{namespace}/{name}")

    def list(self, kind: str | None = None, namespace: str | None = None) -> list[Resource]:
        return [
            each
            for _, each in sorted(self._objects.items())
            if (kind is None or each["kind"] == kind) and (namespace is None or namespace_of(each) == namespace)
        ]

    def unreadable(self) -> Mapping[str, str]:
        return self._unreadable

    def problems(self) -> Mapping[str, str]:
        skipped = {key: f"it is skipped: {why}" for key, why in self._unreadable.items()}
        return self._records.problems | self._repaired | skipped

    def apply(self, applied: Any, *, dry_run: bool = False, replaces: bool = False) -> tuple[Resource, Verdict]:
        return self._apply(applied, dry_run=dry_run, replaces=replaces)

    def _apply(
        self, applied: Any, *, dry_run: bool = False, replaces: bool = False, is_note: bool = False
    ) -> tuple[Resource, Verdict]:
        what = _shown(applied)
        malformed = json_content.problems(applied)
        if malformed:
            raise Malformed(what, malformed)
        with self._lock:
            self._refresh()
            problems = validate.problems(applied)
            if problems:
                raise Invalid(what, problems)
            metadata = applied["metadata"]
            old = self.get(applied["kind"], metadata.get("namespace") or "default", metadata["name"])
            if old is not None and is_being_deleted(old):
                raise Conflict(f"{what} is still being deleted", hint="apply it again in a moment")
            if replaces:
                _check_versions(what, metadata, old)
            problems = validate.problems(applied, old) + validate.collisions(applied, self.list())
            problems += self._limits.problems(applied, old)
            if problems:
                raise Invalid(what, problems)
            if old is None:
                self._limits.check_room(metadata.get("namespace") or "default", self.list())
            stamp = Stamp(self._clock(), self._version + 1, lambda: str(uuid.uuid4()))
            secret: Data | None = None
            if applied["kind"] == SECRET.name:
                applied, secret = self._secrets.stripped(applied, old)
            resource, verdict = admitted(applied, old, stamp)
            growth = len(json_content.as_bytes(resource)) - self._sizes.get(key_of(resource), 0)
            self._limits.check_bytes(sum(self._sizes.values()), growth, is_note=is_note)
            if dry_run:
                return resource, verdict
            if secret is not None:  # before its record, which says that it is there
                self._secrets.write(namespace_of(resource), str(metadata["name"]), secret)
            if verdict != "unchanged":
                self._write(resource, "ADDED" if old is None else "MODIFIED")
            return resource, verdict

    def annotate(self, kind: str, namespace: str, name: str, notes: dict[str, str | None]) -> Resource | None:
        with self._lock:  # held over reading and writing: nobody's change in between is undone
            self._refresh()
            old = self.get(kind, namespace, name)
            if old is None:
                return None
            kept = {note: value for note, value in annotations_of(old).items() if note not in notes}
            annotations = kept | {note: value for note, value in notes.items() if value is not None}
            metadata = {"name": name, "namespace": namespace, "annotations": annotations}
            if old["metadata"].get("labels"):
                metadata["labels"] = old["metadata"]["labels"]
            applied = {field: old[field] for field in ("apiVersion", "kind", "spec")}
            return self._apply({**applied, "metadata": metadata}, is_note=True)[0]

    def delete(self, kind: str, namespace: str, name: str) -> Resource | None:
        with self._lock:
            self._refresh()
            old = self.get(kind, namespace, name)
            if old is None:
                return self._delete_unreadable(kind, namespace, name)
            if is_being_deleted(old):
                return old
            marked = {**old, "metadata": old["metadata"] | {"deletionTimestamp": timestamp(self._clock())}}
            return self._write(self._versioned(marked), "MODIFIED")

    def _delete_unreadable(self, kind: str, namespace: str, name: str) -> Resource | None:
        """Its parts cannot be read, so only the record, its contract and its files with credentials are deleted."""
        key = f"{kind}/{namespace}/{name}"
        if key not in self._unreadable:
            return None
        with contextlib.suppress(Misconfigured):  # the key of a record may be any text; only valid names have files
            if kind == SECRET.name:
                self._secrets.remove(namespace, name)
            elif kind == SOURCE.name:
                self._secrets.remove(*sources.credentials_of(namespace, name))
        self._records.put(key, None)
        self._note(key)
        return {"kind": kind, "metadata": {"namespace": namespace, "name": name}}

    def write_status(self, resource: Resource, status: dict[str, Any]) -> Resource | None:
        with self._lock:
            self._refresh()
            now = self._objects.get(key_of(resource))
            if now is None or now["metadata"]["uid"] != resource["metadata"]["uid"]:
                return None
            if now.get("status") == status:
                return now
            return self._write(self._versioned({**now, "status": status}), "MODIFIED")

    def remove(self, resource: Resource) -> None:
        with self._lock:
            self._refresh()
            now = self._objects.get(key_of(resource))
            if now is not None and now["metadata"]["uid"] == resource["metadata"]["uid"]:
                if now["kind"] == SECRET.name:
                    self._secrets.remove(namespace_of(now), name_of(now))
                self._records.put(key_of(resource), None)
                self._objects = {key: each for key, each in self._objects.items() if key != key_of(resource)}
                self._sizes.pop(key_of(resource), None)
                self._note(key_of(resource))
                self._tell("DELETED", now)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def _versioned(self, resource: Resource) -> Resource:
        return {**resource, "metadata": resource["metadata"] | {"resourceVersion": str(self._version + 1)}}

    def _write(self, resource: Resource, event: str) -> Resource:
        raw = json_content.as_bytes(resource)
        self._records.put(key_of(resource), raw)
        self._sizes[key_of(resource)] = len(raw)
        self._version = int(resource["metadata"]["resourceVersion"])
        self._objects = {**self._objects, key_of(resource): resource}
        self._note(key_of(resource))
        self._tell(event, resource)
        return resource

    def _refresh(self) -> None:
        """After a write whose fate is unknown, what Kafka holds is read anew before anything builds on it."""
        if not self._records.is_doubtful:
            return
        before = self._objects
        self._take(self._records.load(REFRESH_SECONDS))
        for key in sorted(before.keys() | self._objects.keys()):
            old, new = before.get(key), self._objects.get(key)
            if new is None and old is not None:
                self._tell("DELETED", old)
            elif new is not None and new != old:
                self._tell("MODIFIED" if old else "ADDED", new)

    def _take(self, records: dict[str, bytes]) -> None:
        objects: dict[str, Resource] = {}
        unreadable: dict[str, str] = {}
        repaired: dict[str, str] = {}
        for key, value in records.items():
            try:
                found = stored_objects.read(key, value)
            except stored_objects.Unreadable as error:
                unreadable[key] = str(error)
                logger.warning("the stored object %s cannot be read and is skipped: %s", key, error)
                continue
            objects[key] = found.resource
            if found.problem:
                repaired[key] = found.problem
                logger.warning("the stored object %s: %s", key, found.problem)
        self._objects, self._unreadable, self._repaired = objects, unreadable, repaired
        self._sizes = {key: len(records[key]) for key in objects}
        versions = [int(each["metadata"]["resourceVersion"]) for each in objects.values()]
        self._version = max([self._version, *versions])

    def _note(self, key: str) -> None:
        """Its record was written again, or deleted."""
        self._unreadable = {each: why for each, why in self._unreadable.items() if each != key}
        self._repaired = {each: why for each, why in self._repaired.items() if each != key}

    def _tell(self, event: str, resource: Resource) -> None:
        """The change is stored: a listener that fails must not make it look refused, or hide it from others."""
        for listener in self._listeners:
            try:
                listener(event, resource)
            except Exception:
                logger.exception("a listener failed on a change of %s", key_of(resource))


def _check_versions(what: str, metadata: Mapping[str, Any], old: Resource | None) -> None:
    """As in Kubernetes: a change of an old version must not overwrite a newer change. Raises Conflict."""
    for field in ("resourceVersion", "uid"):
        meant = metadata.get(field)
        if not meant:
            continue
        present = None if old is None else old["metadata"][field]
        if meant != present:
            there = "it does not exist" if old is None else f"it is {present} now"
            hint = "read it again, and apply your change to that"
            raise Conflict(f"{what} has been changed since: its {field} is not {meant}, {there}", hint=hint)


def _shown(applied: Any) -> str:
    """``Kind namespace/name`` as far as the object has them."""
    if not isinstance(applied, dict):
        return "the object"
    given = applied.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    return f"{applied.get('kind') or 'object'} {metadata.get('namespace') or 'default'}/{metadata.get('name') or '?'}"
