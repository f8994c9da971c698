"""Which parts ``penstock up`` runs, in which order they start and end, and how each is known to be ready."""

import sys
from collections.abc import Mapping
from dataclasses import replace

from penstock.access.addresses import is_host, literal_address
from penstock.access.hosts import address_of, allowed_names
from penstock.access.tokens import keep_token
from penstock.child import RUN_VARIABLE, Command
from penstock.cli.up_settings import UpSettings, environment_of_parts
from penstock.errors import Misconfigured
from penstock.kafka import java
from penstock.kafka.connection import home
from penstock.kafka.embedded import STOP_PATIENCE_SECONDS, EmbeddedKafka
from penstock.pipeline.settings import is_local
from penstock.ports import reachable_host, require_free
from penstock.receiver.settings import ReceiverSettings
from penstock.settings import load
from penstock.supervisor.part import Part, answers_ready, says_ready
from penstock.supervisor.rundir import RunDirectory
from penstock.telemetry.traces import trace_settings

KAFKA_FIRST, THEN_THE_REST = 0, 1

# The order of the end: take no more events in, deliver no more, control no more, store no more.
RECEIVER_ENDS, DISPATCHER_ENDS, CONTROLLER_ENDS, KAFKA_ENDS = range(4)


def check(settings: UpSettings) -> None:
    """Refuses what cannot work before anything is started."""
    if settings.gear not in ("auto", "live", "bulk"):
        raise Misconfigured(f'--gear "{settings.gear}" is none of auto, live, bulk', hint="--gear auto")
    allowed_names(settings.allowed_hosts)
    if settings.needs_token:
        keep_token(settings.admin_token_path)
    require_protection(settings)
    trace_settings(load(ReceiverSettings))
    host, inner = settings.host, settings.inner_host
    wanted = [("--ingress-port", host, settings.ingress_port), ("--admin-port", host, settings.admin_port)]
    if not settings.bootstrap_servers:
        wanted += [("--kafka-port", inner, port) for port in settings.cluster.ports]
    seen: dict[int, str] = {}
    for flag, address, port in wanted:
        if port in seen:
            raise Misconfigured(f"{seen[port]} and {flag} are both {port}", hint=f"give {flag} another port")
        seen[port] = flag
        require_free(address, port, flag)
    if settings.bootstrap_servers:
        home(settings.bootstrap_servers, secret_file=settings.kafka_secret).check(timeout_seconds=5.0)


def require_protection(settings: UpSettings) -> None:
    """Refuses to open a port to other machines if it does not authenticate its clients.

    Spark's own ports and the dispatcher's port always do: with a secret of the run, and with a token.
    """
    address = settings.advertise
    if address is None:
        return
    literal = address_of(literal_address(address))
    if not is_host(address) or (literal is not None and literal.is_unspecified):
        raise Misconfigured(
            f'"{address}" is not a single address', hint="--advertise 10.0.0.5, an address of this machine"
        )
    if not settings.bootstrap_servers and settings.kafka_auth == "none":
        raise Misconfigured(
            f"--advertise {address} opens the embedded Kafka, which does not ask for a login",
            hint="--kafka-auth scram",
        )
    if not is_local(settings.master) and not settings.spark_secret_file:
        raise Misconfigured(
            f"--advertise {address} opens Spark, and {settings.master} has no secret to authenticate its clients",
            hint="PENSTOCK_SPARK_SECRET_FILE=FILE with the spark.authenticate.secret of that cluster",
        )


def parts(settings: UpSettings, run_id: str) -> list[Part]:
    """All parts; prepares the embedded Kafka's folders."""
    environment = {**environment_of_parts(settings, java.java_home()), RUN_VARIABLE: run_id}
    kafka = [] if settings.bootstrap_servers else _kafka(settings, environment)
    return [*kafka, *_ours(settings, environment)]


def _kafka(settings: UpSettings, environment: Mapping[str, str]) -> list[Part]:
    cluster = EmbeddedKafka(settings.cluster)
    cluster.prepare()
    return [
        Part(
            command=replace(cluster.command(node), environment=environment),
            is_ready=lambda _, node=node: cluster.answers(node),  # type: ignore[misc]
            log=cluster.log(node),
            start_rank=KAFKA_FIRST,
            stop_rank=KAFKA_ENDS,
            patience_seconds=STOP_PATIENCE_SECONDS,
        )
        for node in cluster.nodes
    ]


def _ours(settings: UpSettings, environment: Mapping[str, str]) -> list[Part]:
    directory = RunDirectory(settings.data_path)
    host = reachable_host(settings.host)
    ready_file = directory.run / "dispatcher.ready"

    def command(name: str, *flags: str) -> Command:
        return Command(
            name=name,
            arguments=[sys.executable, "-m", "penstock.cli.main", name, *flags],
            output=directory.logs / f"{name}.log",
            environment=environment,
        )

    return [
        Part(
            command=command("controller"),
            is_ready=lambda _: answers_ready(host, settings.admin_port),
            log=directory.logs / "controller.log",
            start_rank=THEN_THE_REST,
            stop_rank=CONTROLLER_ENDS,
        ),
        Part(
            command=command("receiver"),
            is_ready=lambda _: answers_ready(host, settings.ingress_port),
            log=directory.logs / "receiver.log",
            start_rank=THEN_THE_REST,
            stop_rank=RECEIVER_ENDS,
            patience_seconds=30.0,  # it drains: what it accepted is answered first
        ),
        Part(
            command=command("dispatcher", "--gear", settings.gear),
            is_ready=lambda pid: says_ready(ready_file, pid),
            log=directory.logs / "dispatcher.log",
            start_rank=THEN_THE_REST,
            stop_rank=DISPATCHER_ENDS,
            patience_seconds=30.0,  # it waits for what is in flight and writes its ledger
            ready_file=ready_file,
        ),
    ]
