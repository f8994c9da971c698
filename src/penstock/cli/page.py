"""The short page that ``penstock up`` ends with: what runs where, and what to try next."""

from penstock.cli.up_settings import UpSettings
from penstock.ports import reachable_host

DEFAULT_ADMIN_PORT = 8090


def page(settings: UpSettings) -> str:
    host = reachable_host(settings.host)
    kafka = "your own" if settings.bootstrap_servers else "embedded"
    rows = [
        ("Events in", f"http://{host}:{settings.ingress_port}/NAMESPACE/BROKER"),
        ("Admin, dashboard", f"http://{host}:{settings.admin_port}/"),
        ("Kafka", f"{settings.kafka_address} ({kafka})"),
        ("Dispatcher", f"Spark {settings.master}, {settings.mode}"),
        ("Data and logs", str(settings.data_path)),
    ]
    lines = ["", *(f"  {label:<18}{value}" for label, value in rows), ""]
    if settings.admin_port != DEFAULT_ADMIN_PORT or host != "127.0.0.1":
        lines.append(f"  Before others:    export PENSTOCK_SERVER=http://{host}:{settings.admin_port}")
    lines.append("  Next:             penstock status")
    end = f"penstock down --data-dir {settings.data_path}" if settings.data_dir != ".penstock" else "penstock down"
    lines.append(f"  The end:          {end}")
    return "\n".join(lines)
