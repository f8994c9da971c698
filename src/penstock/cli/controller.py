"""``penstock controller``: the control plane as a process of its own."""

from typing import Annotated, Any

import typer

from penstock.cli import options


def controller(  # noqa: PLR0913 - one option per setting that people change
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    admin_port: Annotated[int | None, typer.Option(help="The port of the admin API.")] = None,
    allowed_host: options.AllowedHosts = None,
    require_token: options.RequireToken = False,
    ingress_port: Annotated[int | None, typer.Option(help="The port of the receiver.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="The Kafka cluster.", metavar="HOST:PORT,…")] = None,
    default_partitions: Annotated[int | None, typer.Option(help="Partitions of a new broker's topic.")] = None,
    default_replication_factor: Annotated[int | None, typer.Option(help="Copies of a new broker's topic.")] = None,
    core_replication_factor: Annotated[int | None, typer.Option(help="Copies of Penstock's own topics.")] = None,
) -> None:
    """Runs the controller: resources, statuses and the admin API.

    \b
    penstock controller --bootstrap-servers 127.0.0.1:9092
    penstock controller --admin-port 8091 --ingress-port 8081

    `penstock up` starts it with everything else. Every setting can also come from the environment; `penstock
    settings` shows them all.
    """
    given = {name: value for name, value in locals().items() if name not in ("allowed_host", "require_token")}
    flags = {**given, **options.access_flags(allowed_host, require_token=require_token)}
    _run({name: value for name, value in flags.items() if value is not None})


def _run(flags: dict[str, Any]) -> None:
    from penstock.control.serve import run
    from penstock.control.settings import ControllerSettings
    from penstock.settings import load

    settings = load(ControllerSettings, flags)
    run(settings, flags)
