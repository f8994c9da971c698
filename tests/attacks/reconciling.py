"""A controller with a Kafka, and what it makes of the resources that an attacker applies over its port."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.contract.model import CONTRACT_TOPIC
from penstock.control.kinds import BY_NAME
from penstock.control.records import Records
from penstock.kafka.connection import KafkaConnection
from tests.attacks.admin_port import JSON, AdminPort, Answered, admin_port
from tests.waiting import until

Body = dict[str, Any]


@dataclass(frozen=True)
class Reconciling:
    """The admin port of a controller that is ready."""

    admin: AdminPort
    kafka: KafkaConnection
    made: list[Body] = field(default_factory=list)

    @property
    def secrets_dir(self) -> Path:
        return self.admin.data_dir / "secrets"

    def ask(self, method: str, path: str, body: Any = None) -> Answered:
        return self.admin.ask(method, path, JSON, None if body is None else json.dumps(body).encode())

    def post(self, resource: Body) -> Answered:
        return self.ask("POST", _collection(resource), resource)

    def put(self, resource: Body) -> Answered:
        return self.ask("PUT", _path(resource), resource)

    def get(self, resource: Body) -> Body | None:
        """As it is now; None: there is none."""
        answer = self.ask("GET", _path(resource))
        assert answer.status in (200, 404), answer
        return None if answer.status == 404 else answer.error

    def status(self, resource: Body) -> Body:
        return (self.get(resource) or {}).get("status") or {}

    def condition(self, resource: Body, type_: str, status: str) -> Body:
        """The condition, once it has that status."""

        def look() -> Body | None:
            conditions: list[Body] = self.status(resource).get("conditions") or []
            found = [each for each in conditions if (each["type"], each["status"]) == (type_, status)]
            return found[0] if found else None

        return until(look, f"{resource['kind']} {resource['metadata']['name']}: {type_}={status}")

    @contextmanager
    def applied(self, *resources: Body) -> Iterator[None]:
        """Inside the block they exist. Names must be new: deleting a source whose Kafka refuses it takes a while."""
        try:
            for each in resources:
                answer = self.post(each)
                assert answer.status in (200, 201), answer
                self.made.append(each)
            yield
        finally:
            for each in reversed(resources):
                self.ask("DELETE", _path(each))

    def wait_for_the_end(self) -> None:
        """Until all applied resources are deleted: other tests use the same Kafka."""
        until(lambda: not any(map(self.get, self.made)), "the end of all resources")

    def contract(self) -> bytes:
        """All that the data plane gets to know: the records of the contract, unparsed."""
        found = Records(self.kafka, CONTRACT_TOPIC).load()
        return b"\n".join(key.encode() + b" " + (value or b"") for key, value in sorted(found.items()))

    def is_ready(self) -> bool:
        try:
            return self.admin.ask("GET", "/readyz").status == 200
        except OSError:
            return False


@contextmanager
def reconciling(
    kafka: KafkaConnection, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Reconciling]:
    """``penstock controller`` on that Kafka."""
    with admin_port(folder, bootstrap_servers=kafka.bootstrap_servers, environment=environment) as admin:
        made = Reconciling(admin, kafka)
        until(made.is_ready, "the controller is ready")
        yield made
        made.wait_for_the_end()


def fields(answer: Answered) -> list[str]:
    """Which fields a refusal names."""
    return [each["field"] for each in answer.error.get("problems") or []]


def _collection(resource: Body) -> str:
    kind = BY_NAME[resource["kind"]]
    namespace = resource["metadata"].get("namespace", "default")
    return f"{kind.collection_path}/namespaces/{namespace}/{kind.plural}"


def _path(resource: Body) -> str:
    return f"{_collection(resource)}/{resource['metadata']['name']}"
