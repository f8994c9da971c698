"""The short page that ``penstock up`` ends with: what runs where, and what to try next."""

from penstock.cli.up_settings import UpSettings
from penstock.ports import http_url

DEFAULT_ADMIN_URL = "http://127.0.0.1:8090"


def page(settings: UpSettings) -> str:
    admin = http_url(settings.host, settings.admin_port)
    kafka = "your own" if settings.bootstrap_servers else "embedded"
    rows = [
        ("Events in", f"{http_url(settings.host, settings.ingress_port)}/NAMESPACE/NAME"),
        ("Admin, dashboard", f"{admin}/" + (" (a token is required)" if settings.needs_token else "")),
        ("Kafka", f"{settings.kafka_address} ({kafka})"),
        ("Dispatcher", f"Spark {settings.master}, {settings.gear}"),
        ("Data and logs", str(settings.data_path)),
    ]
    lines = ["", *(f"  {label:<18}{value}" for label, value in rows), ""]
    if admin != DEFAULT_ADMIN_URL:
        lines.append(f"  Before others:    export PENSTOCK_SERVER={admin}")
    if settings.needs_token and settings.data_dir != ".penstock":
        lines.append(f"  To use its token: export PENSTOCK_DATA_DIR={settings.data_path}")
    lines.append("  Dashboard:        penstock dashboard")
    lines.append("  Next:             penstock status")
    end = f"penstock down --data-dir {settings.data_path}" if settings.data_dir != ".penstock" else "penstock down"
    lines.append(f"  The end:          {end}")
    return "\n".join(lines)
