"""``penstock must-gather``: one file with everything that somebody needs who looks for a fault from afar."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import options
from penstock.cli.output import say, show, show_json

if TYPE_CHECKING:
    from penstock.cli.gathering import Bundle, Collector, Scene


def must_gather(
    out: Annotated[
        str, typer.Option("--out", help="The zip; penstock-TIME.zip here when not given.", metavar="FILE.zip")
    ] = "",
    data_dir: options.DataDir = ".penstock",
    secrets: Annotated[
        str, typer.Option("--secrets", help="none: masked. all: in plain text, and as files.", metavar="WHICH")
    ] = "none",
    output: Annotated[str, typer.Option("--output", "-o", help="path or json.", metavar="FORMAT")] = "path",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Gathers everything that tells how the system is into one zip, and prints where it is.

    \b
    penstock must-gather
    penstock must-gather --out support.zip --data-dir /var/lib/penstock
    penstock must-gather -o json

    Resources, contract, settings, topics, groups, logs, metrics, what every thread does, versions. Works as far as
    parts answer; what is missing stands on the first page (index.html) with its reason. Secrets are masked unless
    --secrets=all says otherwise.
    """
    from penstock.cli.gathering import Bundle, Scene
    from penstock.cli.masking import Masking

    options.checked(output, "path", "json")
    if secrets not in ("none", "all"):
        raise typer.BadParameter(f'"{secrets}" is not one of none, all', param_hint="--secrets")
    masking = Masking(is_off=secrets == "all")
    scene = Scene(_server(server, data_dir), Path(data_dir).expanduser().absolute(), masking)
    bundle = Bundle(_target(out), masking)
    try:
        _learn_secrets(scene, bundle)
        _fill(bundle, collectors(with_secrets=secrets == "all"), scene)
        _finish(bundle, scene, with_secrets=secrets == "all")
    except BaseException:
        bundle.throw_away()
        raise
    path = bundle.close()
    if secrets == "all":
        say(f"warning: {path} holds secret values in plain text; only you can read it, keep it so")
    if output == "json":
        missing = [{"what": each.what, "why": each.why} for each in bundle.missing]
        show_json({"path": str(path), "files": len(bundle.files), "missing": missing})
        return
    for each in bundle.missing:
        say(f"missing: {each.what}: {' '.join(each.why.split())}")
    show(str(path))


def collectors(*, with_secrets: bool) -> "tuple[Collector, ...]":
    """For an installation on this machine. Resources come first: passwords in their URLs are known from then on."""
    from penstock.cli import gather_processes, gather_system
    from penstock.cli.gathering import Collector

    found = (
        Collector("resources", gather_system.resources),
        Collector("contract", gather_system.contract),
        Collector("status", gather_system.status),
        Collector("supervisor", gather_system.supervisor),
        Collector("live numbers", gather_system.live),
        Collector("reports of the dispatcher", gather_system.reports),
        Collector("settings", gather_system.settings),
        Collector("metrics", gather_system.metrics),
        Collector("topics and groups", gather_system.kafka),
        Collector("settings of Kafka", gather_system.kafka_files),
        Collector("logs", gather_processes.logs),
        Collector("processes", gather_processes.processes),
        Collector("threads", gather_processes.threads),
        Collector("Java", gather_processes.java),
        Collector("Spark", gather_processes.spark),
        Collector("versions", gather_processes.versions),
        Collector("machine", gather_processes.machine),
    )
    return (*found, Collector("secrets", gather_system.secrets)) if with_secrets else found


def _fill(bundle: "Bundle", wanted: "Sequence[Collector]", scene: "Scene") -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=len(wanted))
        for collector in wanted:
            bars.update(task, description=collector.title)
            bundle.run(collector, scene)
            bars.advance(task)


def _finish(bundle: "Bundle", scene: "Scene", *, with_secrets: bool) -> None:
    from penstock.cli.gather_index import page
    from penstock.cli.gathering import File, as_json

    missing = [{"what": each.what, "why": each.why} for each in bundle.missing]
    listed = {"files": [path for path, _ in bundle.files], "missing": missing}
    bundle.add(File("index.json", as_json(listed)))
    bundle.add(File("index.html", page(scene.facts, bundle.files, bundle.missing, with_secrets=with_secrets)))


def _learn_secrets(scene: "Scene", bundle: "Bundle") -> None:
    """What must not be in the zip. First of all."""
    from penstock.cli.gathering import Missing
    from penstock.cli.masking import values_in
    from penstock.kafka import login

    # The login of the embedded Kafka stays in the data directory when Secrets are kept elsewhere.
    for folder in {scene.secrets_dir, login.secret_file(scene.directory.data_dir).parent}:
        try:
            if folder.is_dir():
                scene.masking.know(values_in(folder))
        except OSError as error:
            why = f"{folder}: {error.strerror}; they are masked by their form only"
            bundle.add(Missing("values of secrets to look for", why))


def _server(server: str, data_dir: str) -> str:
    """The address of what runs in the data directory, unless somebody named one."""
    from penstock.ports import http_url
    from penstock.supervisor.rundir import RunDirectory

    state = RunDirectory(Path(data_dir).expanduser().absolute()).state()
    if server == options.DEFAULT_SERVER and state.get("admin_port"):
        return http_url(str(state["host"]), int(state["admin_port"]))
    return server


def _target(out: str) -> Path:
    from penstock.errors import Misused

    path = Path(out or f"penstock-{time.strftime('%Y%m%d-%H%M%S')}.zip").expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise Misused(f"--out {out} is no file that can be written", hint="penstock must-gather --out support.zip")
    return path
