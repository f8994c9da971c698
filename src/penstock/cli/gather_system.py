"""Collectors of what Penstock itself knows: status, resources, contract, reports, settings, numbers, Kafka's side.

Each works without the controller as far as Kafka knows the same.
"""

import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import yaml

from penstock.cli.gathering import API_SECONDS, LARGEST_FILE, File, Found, Missing, Scene, as_json, attempt, tail
from penstock.cli.settings import PROCESSES
from penstock.contract import model
from penstock.control.kinds import KINDS, WITH_STATUS, condition, name_of, namespace_of
from penstock.control.records import Records
from penstock.control.stored_objects import Unreadable, read
from penstock.errors import PenstockError, Unavailable
from penstock.kafka import census
from penstock.ports import http_url
from penstock.settings import in_force
from penstock.supervisor.processes import environment

SHOWN_VARIABLES = ("PENSTOCK_", "SPARK_", "JAVA", "OTEL_", "PYTHON", "LANG", "TZ")
READ_SECONDS = 10.0


def status(scene: Scene) -> Iterator[Found]:
    told = scene.get("/api/penstock/status")
    scene.facts.parts = list(told["parts"])
    scene.facts.queries = list(told["queries"])
    scene.facts.lags = dict(told["lag"])
    yield File("status.json", as_json(told))


def live(scene: Scene) -> Iterator[Found]:
    """Rates, percentiles, what needs attention."""
    yield File("live.json", as_json(scene.get("/api/penstock/live?once=1")))


def supervisor(scene: Scene) -> Iterator[Found]:
    if not scene.state:
        yield Missing("supervisor", f"nothing runs in {scene.directory.data_dir}")
        return
    yield File("supervisor.json", as_json(scene.state))
    if not scene.facts.parts:  # the controller did not say it
        scene.facts.parts = [
            {"name": name, "state": told["state"], "reason": told["reason"], "address": ""}
            for name, told in scene.state.get("parts", {}).items()
        ]


def resources(scene: Scene) -> Iterator[Found]:
    found = list(_resources(scene))
    scene.facts.resources = len(found)
    for each in found:
        text = yaml.safe_dump(each, sort_keys=False, allow_unicode=True, width=1000)
        scene.masking.learn_urls(text)
        yield File(f"resources/{each['kind'].lower()}/{namespace_of(each)}/{name_of(each)}.yaml", text)
    with_status = {kind.name for kind in WITH_STATUS}
    for each in found:
        if each["kind"] not in with_status:
            continue
        ready = condition(each, "Ready")
        if ready["status"] != "True":
            worst = [c for c in (each.get("status") or {}).get("conditions", []) if c["status"] != "True"] or [ready]
            scene.facts.unhealthy.append(
                {
                    "resource": f"{each['kind']} {namespace_of(each)}/{name_of(each)}",
                    "ready": str(ready["status"]),
                    "reason": str(ready.get("reason") or worst[0].get("reason") or ""),
                    "message": scene.masking(str(ready.get("message") or worst[0].get("message") or "")),
                }
            )


def _resources(scene: Scene) -> Iterator[dict[str, Any]]:
    """From the controller, or else from the topic that it keeps them in."""
    try:
        for kind in KINDS:
            yield from scene.get(f"{kind.collection_path}/{kind.plural}")["items"]
        return
    except Unavailable:
        pass
    for key, value in sorted(Records(scene.kafka, model.RESOURCES_TOPIC).load(READ_SECONDS).items()):
        with suppress(Unreadable):  # the log of the controller names it
            yield read(key, value).resource


def contract(scene: Scene) -> Iterator[Found]:
    yield _table(scene, model.CONTRACT_TOPIC, "contract.yaml")


def reports(scene: Scene) -> Iterator[Found]:
    """What the dispatcher tells: its heartbeat, and how each query is."""
    yield _table(scene, model.REPORT_TOPIC, "reports.yaml")


def _table(scene: Scene, topic: str, path: str) -> File:
    values = Records(scene.kafka, topic).load(READ_SECONDS)
    text = yaml.safe_dump(
        {key: _decoded(value) for key, value in sorted(values.items())},
        sort_keys=False,
        allow_unicode=True,
        width=1000,
    )
    scene.masking.learn_urls(text)
    return File(path, text)


def _decoded(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value.decode(errors="replace")


def settings(scene: Scene) -> Iterator[Found]:
    """What each process was started with, and what follows from it."""
    environments: dict[str, dict[str, str]] = {}
    for process in scene.processes:
        if process.is_java or process.part == "daemon":
            continue
        try:
            found = environment(process)
        except OSError as error:
            yield Missing(f"variables of {process.name}", error.strerror or str(error))
            continue
        environments.setdefault(process.part, found)
        shown = {name: value for name, value in sorted(found.items()) if name.startswith(SHOWN_VARIABLES)}
        lines = [f"{name}={scene.masking.variable(name, value)}" for name, value in shown.items()]
        yield File(f"settings/{process.name}.env", "\n".join(lines) + "\n")
    rows = []
    for part, module, cls in PROCESSES:
        settings_of = getattr(import_module(module), cls)
        try:
            in_use = [asdict(row) for row in in_force(settings_of, None, environments.get(part))]
        except PenstockError as error:
            yield Missing(f"settings of {part}", error.message)
            continue
        rows += [{"process": part, "runs": part in environments, **row} for row in in_use]
    for row in rows:
        row["value"] = scene.masking.variable(str(row["variable"]), str(row["value"]))
    yield File("settings.json", as_json(rows))
    yield attempt("settings of the controller", _controllers, scene)


def _controllers(scene: Scene) -> File:
    """As the controller itself shows them, flags included."""
    return File("settings/controller.json", as_json(scene.get("/api/penstock/settings")))


def kafka(scene: Scene) -> Iterator[Found]:
    connection = scene.kafka
    yield File("kafka/brokers.json", as_json(census.brokers(connection)))
    topics = census.all_topics(connection)
    yield File("kafka/topics.json", as_json(topics))
    ends = {(topic["topic"], each["partition"]): each["end"] or 0 for topic in topics for each in topic["partitions"]}
    groups = census.all_groups(connection, ends)
    yield File("kafka/groups.json", as_json(groups))
    if not scene.facts.lags:
        scene.facts.lags = {each["group"]: each["lag"] for each in groups}


def kafka_files(scene: Scene) -> Iterator[Found]:
    """How the embedded Kafka is set up."""
    folder = scene.directory.data_dir / "kafka"
    if not folder.is_dir():
        yield Missing("settings of the embedded Kafka", f"there is none in {scene.directory.data_dir}")
        return
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.properties")]):
        yield attempt(str(path), _file, "kafka", path, folder)


def _file(under: str, path: Path, folder: Path) -> File:
    return File(f"{under}/{path.relative_to(folder)}", tail(path))


def metrics(scene: Scene) -> Iterator[Found]:
    """Of each process that shows some."""
    state = scene.state
    host = str(state.get("host", "127.0.0.1"))
    try:
        yield File("metrics/controller.prom", scene.text("/metrics"))
    except PenstockError as error:
        yield Missing("metrics of the controller", f"{scene.server}/metrics: {error.message}")
    targets: dict[str, str] = {}
    if state.get("ingress_port"):
        targets["receiver"] = http_url(host, int(state["ingress_port"])) + "/metrics"
    dispatcher = next((each.get("address", "") for each in scene.facts.parts if each["name"] == "dispatcher"), "")
    if dispatcher:
        targets["dispatcher"] = f"{dispatcher}/metrics"
    else:
        yield Missing(
            "metrics of the dispatcher", "its address is not known: it has not told it, or the controller is away"
        )
    for part, url in targets.items():
        try:
            with urllib.request.urlopen(url, timeout=API_SECONDS) as answer:
                text = answer.read(LARGEST_FILE).decode(errors="replace")
                yield File(f"metrics/{part}.prom", text)
        except OSError as error:
            yield Missing(f"metrics of the {part}", f"{url}: {getattr(error, 'reason', None) or error}")


def secrets(scene: Scene) -> Iterator[Found]:
    """Only when they were asked for."""
    folder = scene.secrets_dir
    if not folder.is_dir():
        yield Missing("secrets", f"there are none in {folder}")
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield attempt(str(path), _file, "secrets", path, folder)
