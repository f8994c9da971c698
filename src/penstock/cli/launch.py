"""How ``up`` runs: in the foreground, or detached with its start watched through a pipe. Called by ``up``."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import typer

from penstock.access.private_files import keep_private
from penstock.child import birth_of, exit_words
from penstock.cli import plan
from penstock.cli.page import page
from penstock.cli.screen import Screen, screen
from penstock.cli.up_settings import UpSettings
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import fetch
from penstock.settings import variable_of
from penstock.supervisor.rundir import RunDirectory
from penstock.supervisor.supervise import Event, Patience, Supervisor
from penstock.telemetry import logs

logger = logging.getLogger("penstock.up")

# A detached start that fails must say so in the end; in the foreground a person sees it and decides.
DETACHED_PATIENCE = Patience(deaths=4, seconds=150.0)


def in_foreground(settings: UpSettings) -> None:
    plan.require_protection(settings)
    shown = screen()
    fetch.fetch_missing(shown)
    keep_private()  # not earlier: the cache folder may be shared by all users

    def show(event: Event) -> None:
        shown.event(event)
        if event.kind == "all ready":
            typer.echo(page(settings))

    try:
        _supervise(settings, show, shown.say, Patience())
    finally:
        shown.close()


def detached(settings: UpSettings) -> None:
    """Returns when all is ready; raises with the reason when it cannot be, and leaves nothing behind then."""
    plan.require_protection(settings)
    shown = screen()
    directory = RunDirectory(settings.data_path)
    directory.require_ours()
    fetch.fetch_missing(shown)
    keep_private()
    directory.logs.mkdir(parents=True, exist_ok=True)
    log = directory.logs / "up.log"
    logs.keep_bounded(log, max_bytes=1_000_000)
    read, write = os.pipe()
    with log.open("ab") as output, open(read) as reports:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", "up", "--report-to", str(write)],
            env={**os.environ, **_as_variables(settings)},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[write], start_new_session=True,
        )  # fmt: skip
        os.close(write)
        try:
            _follow(reports, shown, process)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        finally:
            shown.close()
    typer.echo(page(settings))


def as_detached(settings: UpSettings, report_to: int) -> None:
    """The other end: supervises, and reports until all is ready."""
    pipe = os.fdopen(report_to, "w", buffering=1)
    keep_private()
    logs.configure()  # into up.log

    def report(kind: str, value: dict[str, Any]) -> None:
        if not pipe.closed:
            try:
                pipe.write(json.dumps({"kind": kind, **value}) + "\n")
            except BrokenPipeError:  # whoever waited has left; we go on
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def show(event: Event) -> None:
        report("event", {"event": asdict(event)})
        died = event.kind == "died"
        logger.log(logging.WARNING if died else logging.INFO, "%s", f"{event.kind} {event.part} {event.text}".strip())
        if event.kind == "all ready":
            pipe.close()

    try:
        _supervise(settings, show, lambda line: report("line", {"line": line}), DETACHED_PATIENCE)
    except PenstockError as error:
        report("failed", {"message": error.message, "hint": error.hint})
        raise


def _supervise(
    settings: UpSettings, show: Callable[[Event], None], say: Callable[[str], None], patience: Patience
) -> None:
    directory = RunDirectory(settings.data_path)
    with directory.claim():
        left = directory.end_leftovers()
        if left:
            say(f"ended {left} processes that a killed `penstock up` had left behind")
        directory.forget_state()
        run_id = uuid.uuid4().hex
        # Until the supervisor writes more, this lets `down` and a refused second `up` name us.
        directory.write_state({"pid": os.getpid(), "birth": birth_of(os.getpid()), "run_id": run_id})
        plan.check(settings)
        about = {
            "host": settings.host,
            "ingress_port": settings.ingress_port,
            "admin_port": settings.admin_port,
            "admin_token_file": str(settings.admin_token_path),
            "bootstrap_servers": settings.kafka_address,
            "kafka_secret_file": settings.kafka_secret,
        }
        Supervisor(plan.parts(settings, run_id), directory, run_id, show, about).run(patience)


def _follow(reports: Any, shown: Screen, process: subprocess.Popen[bytes]) -> None:
    for line in reports:
        report = json.loads(line)
        if report["kind"] == "line":
            shown.say(report["line"])
        elif report["kind"] == "failed":
            process.wait()
            raise Misconfigured(report["message"], hint=report["hint"])
        else:
            event = Event(**report["event"])
            shown.event(event)
            if event.kind == "all ready":
                return
    raise Unavailable(f"the start was cut off ({exit_words(process.wait())})", hint="see up.log in the logs folder")


def _as_variables(settings: UpSettings) -> dict[str, str]:
    return {variable_of(name): "" if value is None else str(value) for name, value in asdict(settings).items()}
