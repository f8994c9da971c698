"""The receiver process: listens, runs the path, ends without losing anything. ``run`` is its entry.

With one process everything happens here. With several, the first one only starts the others, each with its own
socket on the same port; when one dies all end, and whoever supervises the receiver starts it again.
"""

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from penstock.access.addresses import AddressPolicy
from penstock.child import dies_with_parent, exit_words
from penstock.errors import Unavailable
from penstock.event.attributes import AttributeLimits
from penstock.kafka import secret_files
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import home
from penstock.kafka.produce import ProducerLimits
from penstock.kafka.telemetry import Teller
from penstock.open_files import connections_that_fit
from penstock.ports import require_free
from penstock.receiver.accept import Ingress
from penstock.receiver.connection import Connection
from penstock.receiver.inflight import Inflight
from penstock.receiver.outlets import Outlets
from penstock.receiver.routes import Routes
from penstock.receiver.settings import ReceiverSettings
from penstock.receiver.site import Site
from penstock.receiver.tally import SilentTally, Tally
from penstock.telemetry.metrics import INGRESS_CONNECTIONS, INGRESS_IN_FLIGHT
from penstock.telemetry.traces import open_tracing, trace_settings

if TYPE_CHECKING:
    from penstock.receiver.tracing import ReceiverTracing

logger = logging.getLogger("penstock.receiver")

BACKLOG = 1024
SWEEP_SECONDS = 0.5
TELL_SECONDS = 1.0
QUIET_SECONDS = 0.3  # an idle connection may have a request on its way when the end begins
ENDING = (signal.SIGTERM, signal.SIGINT)


def run(settings: ReceiverSettings) -> None:
    """Serves until SIGTERM or SIGINT; returns when everything accepted is answered."""
    require_free(settings.host, settings.ingress_port, "--ingress-port")
    trace_settings(settings)
    settings = replace(settings, connection_limit=connections_that_fit(settings.connection_limit))
    if settings.receiver_processes > 1:
        _run_several(settings)
    else:
        _run_one(settings)


def _run_one(settings: ReceiverSettings, totals: Path | None = None) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, totals))


async def _serve(settings: ReceiverSettings, totals: Path | None) -> None:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in ENDING:
        loop.add_signal_handler(number, ending.set)
    connection = home(settings.bootstrap_servers, "penstock-receiver", settings.kafka_secret_file)
    limits = ProducerLimits(
        settings.inflight_events,
        settings.inflight_bytes,
        settings.body_limit_bytes,
        settings.delivery_timeout_seconds,
    )
    clusters = Clusters(
        connection,
        secret_files.folder(settings.data_dir, settings.secrets_dir),
        AddressPolicy(settings.private_addresses),
    )
    outlets = Outlets(clusters, limits)
    inflight = Inflight(settings.inflight_events, settings.inflight_bytes)
    routes = Routes(connection)
    tally = Tally(totals) if settings.telemetry == "on" else SilentTally(totals)
    attributes = AttributeLimits(settings.attribute_limit, settings.attribute_limit_bytes)
    site = Site(settings, Ingress(routes, outlets, inflight, tally, attributes), inflight)
    tracing = site.ingress.tracing = _tracing(settings)
    routes.start()
    server = await loop.create_server(lambda: Connection(site), sock=_listen(settings), backlog=BACKLOG)
    logger.info("taking events on http://%s:%d", settings.host, settings.ingress_port)
    sweeping = loop.create_task(_sweep(site, outlets))
    teller = Teller(connection)
    telling = loop.create_task(_tell(site, teller))
    await ending.wait()
    logger.info("ending: %d connections, %d events under way", len(site.connections), inflight.events)
    server.close()
    await _drain(site, settings.drain_seconds)
    sweeping.cancel()
    telling.cancel()
    _tell_once(site, teller)
    await asyncio.to_thread(teller.close)
    left = await outlets.end(settings.delivery_timeout_seconds)
    routes.stop()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)
    logger.info("ended: %d connections left, %d records unreported", len(site.connections), left)


def _tracing(settings: ReceiverSettings) -> "ReceiverTracing | None":
    """OpenTelemetry is imported, and its thread started, only where it is wanted."""
    opened = open_tracing(trace_settings(settings), "receiver")
    if opened is None:
        return None
    from penstock.receiver.tracing import ReceiverTracing

    return ReceiverTracing(opened)


def _listen(settings: ReceiverSettings) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.receiver_processes > 1:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((settings.host, settings.ingress_port))
    listener.setblocking(False)
    return listener


async def _sweep(site: Site, outlets: Outlets) -> None:
    """Ends connections that take too long, and follows the routes with producers."""
    loop = asyncio.get_running_loop()
    routes = site.ingress.routes
    followed: object = None
    while True:
        if routes.by_path is not followed:
            followed = routes.by_path
            outlets.follow(routes.all)
        await asyncio.sleep(SWEEP_SECONDS)
        now = loop.time()
        for connection in list(site.connections):
            connection.sweep(now)


async def _tell(site: Site, teller: Teller) -> None:
    """Once a second, what was counted."""
    while True:
        await asyncio.sleep(TELL_SECONDS)
        _tell_once(site, teller)


def _tell_once(site: Site, teller: Teller) -> None:
    gauges = {INGRESS_IN_FLIGHT.name: site.inflight.events, INGRESS_CONNECTIONS.name: len(site.connections)}
    teller.tell(site.ingress.tally.grown({name: float(value) for name, value in gauges.items()}))


async def _drain(site: Site, seconds: float) -> None:
    """Every connection ends with its next answer; idle ones when nothing has come for a moment."""
    site.is_draining = site.ingress.draining = True
    loop = asyncio.get_running_loop()
    start = loop.time()
    while site.connections and loop.time() - start < seconds:
        if loop.time() - start > QUIET_SECONDS:
            for connection in list(site.connections):
                connection.close_if_idle()
        await asyncio.sleep(0.02)


def _run_several(settings: ReceiverSettings) -> None:
    """Forks before any thread or Kafka client exists: neither survives a fork."""
    totals = Path(tempfile.mkdtemp(prefix="penstock-receiver-"))
    try:
        _run_children(settings, totals)
    finally:
        shutil.rmtree(totals, ignore_errors=True)


def _run_children(settings: ReceiverSettings, totals: Path) -> None:
    children = {_fork(settings, totals) for _ in range(settings.receiver_processes)}
    is_ending = False

    def end(*_: object) -> None:
        nonlocal is_ending
        is_ending = True
        for pid in children:
            os.kill(pid, signal.SIGTERM)

    for number in ENDING:
        signal.signal(number, end)
    failed: str | None = None
    while children:
        pid, status = os.wait()
        children.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code != 0 or not is_ending:
            failed = failed or f"receiver process {pid} ended with {exit_words(code)}"
            end()
    if failed is not None:
        raise Unavailable(failed)


def _fork(settings: ReceiverSettings, totals: Path) -> int:
    die_with_parent = dies_with_parent(signal.SIGTERM)
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        if die_with_parent is not None:
            die_with_parent()
        _run_one(settings, totals)
        code = 0
    except BaseException:
        logger.exception("a receiver process failed")
    finally:
        os._exit(code)
