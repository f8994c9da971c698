"""``penstock dispatcher``: the pipeline alone, for a system whose parts run apart."""

from typing import Annotated

import typer

from penstock.settings import load


def dispatcher(
    bootstrap_servers: Annotated[str | None, typer.Option(help="Kafka brokers, host:port,…")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Scratch files and the ready mark.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master.")] = None,
    gear: Annotated[
        str | None, typer.Option(help="auto (by what flows), live (milliseconds) or bulk (throughput).")
    ] = None,
) -> None:
    """Delivers events: follows the contract and runs a Spark query per topic.

    \b
    penstock dispatcher --bootstrap-servers 127.0.0.1:9092
    """
    from penstock.pipeline.dispatch import run
    from penstock.pipeline.settings import DispatcherSettings

    flags = {"bootstrap_servers": bootstrap_servers, "data_dir": data_dir, "master": master, "gear": gear}
    run(load(DispatcherSettings, flags))
