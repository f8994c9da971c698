"""``penstock receiver``: HTTP to Kafka as a process of its own."""

from typing import Annotated

import typer

from penstock.settings import load


def receiver(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    ingress_port: Annotated[int | None, typer.Option(help="The port on which events are taken.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="The Kafka cluster.", metavar="HOST:PORT,…")] = None,
    receiver_processes: Annotated[int | None, typer.Option(min=1, help="Processes on the same port.")] = None,
    body_limit_bytes: Annotated[int | None, typer.Option(min=1, help="The largest body of a request.")] = None,
) -> None:
    """Takes events over HTTP and answers 202 when Kafka has them.

    \b
    penstock receiver --bootstrap-servers 127.0.0.1:9092
    penstock receiver --ingress-port 8081 --receiver-processes 2

    `penstock up` starts it with everything else; `penstock settings receiver` shows all that can be set.
    """
    flags = {
        "host": host,
        "ingress_port": ingress_port,
        "bootstrap_servers": bootstrap_servers,
        "receiver_processes": receiver_processes,
        "body_limit_bytes": body_limit_bytes,
    }
    from penstock.receiver.serve import run
    from penstock.receiver.settings import ReceiverSettings

    run(load(ReceiverSettings, flags))
