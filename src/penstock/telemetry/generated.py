"""The files that are made from the list of metrics; ``make dashboards`` writes them, a test compares them.

docs/metrics.md                            every metric with unit, labels and meaning
deploy/grafana/*.json                      dashboards
deploy/prometheus/penstock-alerts.yaml     rules for alerts
"""

import json
import sys
from pathlib import Path

from penstock.telemetry.alerts import rules
from penstock.telemetry.grafana import dashboards
from penstock.telemetry.metrics import METRICS, Metric

PARTS = {
    "receiver": "Counted by receivers",
    "worker": "Counted by Spark's Python workers",
    "dispatcher": "Counted by the dispatcher",
    "controller": "Found out by the controller",
    "every": "Counted by every process",
}
HEAD = """# Metrics

Made from the list in `src/penstock/telemetry/metrics.py` by `make dashboards`.

The controller shows all of them at `/metrics` of the admin port, added up over all processes: this is what Prometheus
should read ([an example](../deploy/prometheus/prometheus.yaml)). Receiver and dispatcher also show their own at
`/metrics` of their ports; whoever reads both must not add them up. A histogram has the series `_bucket`, `_sum` and
`_count`. Counters exist at 0 from the start.

`kind`, `namespace` and `name` are those of the resource. Labels never hold an event's id, type or address, and beyond
a limit subscriptions share one series with the name `others`. What the alerts on these metrics mean is in
[alerts](alerts/README.md).
"""


def files() -> dict[str, str]:
    """What belongs into the repository, by path."""
    found = {"docs/metrics.md": metrics_page(), "deploy/prometheus/penstock-alerts.yaml": rules()}
    for name, board in dashboards().items():
        found[f"deploy/grafana/{name}"] = json.dumps(board, indent=2) + "\n"
    return found


def metrics_page() -> str:
    lines = [HEAD]
    for part, title in PARTS.items():
        lines += [f"## {title}\n", "| name | type | unit | labels | meaning |", "|---|---|---|---|---|"]
        lines += [_row(each) for each in METRICS if each.part == part]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    return f"| `{metric.name}` | {metric.kind} | {metric.unit or '0 or 1'} | {labels} | {metric.help} |"


def write(root: Path) -> list[str]:
    """Those that changed."""
    changed = []
    for name, text in files().items():
        path = root / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            changed.append(name)
    return changed


if __name__ == "__main__":
    for name in write(Path.cwd()):
        sys.stderr.write(f"wrote {name}\n")
