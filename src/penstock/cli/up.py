"""``penstock up``: the whole system on this machine, in the foreground or detached.

    fetch what lacks ──▶ claim the data directory ──▶ check ports ──▶ supervise ──▶ the page of what runs where

Detached, a second process of the same command does all but the fetching and reports through a pipe.
"""

from typing import Annotated, Any

import typer

from penstock.cli import options


def up(  # noqa: PLR0913 (one option per setting)
    data_dir: Annotated[str | None, typer.Option(help="Where data and logs are kept.", metavar="DIR")] = None,
    host: Annotated[
        str | None, typer.Option(help="The address of ingress and admin, and of nothing else.", metavar="ADDRESS")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(help="The address of Kafka, Spark and dispatcher, for a cluster.", metavar="ADDRESS")
    ] = None,
    kafka_auth: Annotated[
        str | None, typer.Option(help="none or scram: whether the embedded Kafka asks for a login.")
    ] = None,
    ingress_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Where events come in.")] = None,
    admin_port: Annotated[int | None, typer.Option(min=1, max=65535, help="API and dashboard.")] = None,
    allowed_host: options.AllowedHosts = None,
    require_token: options.RequireToken = False,
    kafka_port: Annotated[int | None, typer.Option(min=1, max=65533, help="The embedded Kafka.")] = None,
    kafka_brokers: Annotated[int | None, typer.Option(help="Brokers of the embedded Kafka, 1 to 3.")] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="A Kafka cluster of your own instead.", metavar="HOST:PORT,…")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master.", metavar="URL")] = None,
    gear: Annotated[str | None, typer.Option(help="auto, live or bulk.")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions of a new broker's topic.")] = None,
    receiver_processes: Annotated[int | None, typer.Option(min=1, help="Processes that take events.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when all is ready.")] = False,
    report_to: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Starts everything: Kafka, controller, receiver and dispatcher, and keeps them running.

    \b
    penstock up
    penstock up --detach --data-dir /var/lib/penstock
    penstock up --bootstrap-servers kafka-1:9092,kafka-2:9092

    What the machine lacks is fetched first, once. Ctrl-C or `penstock down` ends all of it; the data stays and the
    next `up` goes on where this one stopped. Defaults: .penstock, 127.0.0.1, ports 8080, 8090 and 9092.
    """
    flags: dict[str, Any] = {
        "data_dir": data_dir,
        "host": host,
        "advertise": advertise,
        "kafka_auth": kafka_auth,
        "ingress_port": ingress_port,
        "admin_port": admin_port,
        **options.access_flags(allowed_host, require_token=require_token),
        "kafka_port": kafka_port,
        "kafka_brokers": kafka_brokers,
        "bootstrap_servers": bootstrap_servers,
        "master": master,
        "gear": gear,
        "default_partitions": partitions,
        "receiver_processes": receiver_processes,
    }
    from penstock.cli import launch
    from penstock.cli.up_settings import UpSettings
    from penstock.settings import load

    settings = load(UpSettings, flags)
    if report_to is not None:
        launch.as_detached(settings, report_to)
    elif detach:
        launch.detached(settings)
    else:
        launch.in_foreground(settings)
