"""The controller's metrics in Prometheus' text format: few, and all of them true."""

from collections import Counter
from collections.abc import Iterator, Mapping

from penstock.control.kinds import WITH_STATUS, Resource, condition, name_of, namespace_of, uid_of
from penstock.control.parts import SystemStatus
from penstock.control.telemetry import Counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


ByUid = Mapping[tuple[str, str], int]  # the second is the name of an error or an outcome


def text(resources: list[Resource], system: SystemStatus, told: Counts) -> str:
    lines = [
        "# HELP penstock_resources Resources by kind and readiness.",
        "# TYPE penstock_resources gauge",
    ]
    counts = Counter((each["kind"], condition(each, "Ready")["status"]) for each in resources if "status" in each)
    for kind in WITH_STATUS:
        for ready in ("True", "False", "Unknown"):  # at 0 from the start, so that a rate has something to stand on
            lines.append(_line("penstock_resources", counts[kind.name, ready], kind=kind.name, ready=ready))
    lines += [
        "# HELP penstock_part_up Whether a part of the system is running.",
        "# TYPE penstock_part_up gauge",
        *(_line("penstock_part_up", int(part.is_well), part=part.name) for part in system.parts),
        "# HELP penstock_subscription_lag_events Events in the topic that a subscription has not finished.",
        "# TYPE penstock_subscription_lag_events gauge",
    ]
    by_key = {f"{r['kind']}/{namespace_of(r)}/{name_of(r)}": r for r in resources}
    for key, lanes in sorted(system.lags.items()):
        if key in by_key:
            labels = dict(zip(("kind", "namespace", "name"), key.split("/", 2), strict=True))
            lines.append(_line("penstock_subscription_lag_events", sum(lane.lag for lane in lanes), **labels))
    lines += [
        "# HELP penstock_filter_errors_total Events that a subscription's filter could not be evaluated for.",
        "# TYPE penstock_filter_errors_total counter",
        *_by_subscription("penstock_filter_errors_total", "error", resources, told.filter_errors()),
        "# HELP penstock_delivery_outcomes_total What became of deliveries to a subscription's subscriber.",
        "# TYPE penstock_delivery_outcomes_total counter",
        *_by_subscription("penstock_delivery_outcomes_total", "outcome", resources, told.outcomes()),
        "# HELP penstock_bad_records_total Records of a topic that are no events, and were passed over.",
        "# TYPE penstock_bad_records_total counter",
        *(_line("penstock_bad_records_total", n, topic=topic) for topic, n in sorted(told.bad_records().items())),
    ]
    return "\n".join(lines) + "\n"


def _by_subscription(metric: str, what: str, resources: list[Resource], counts: ByUid) -> Iterator[str]:
    by_uid = {uid_of(each): each for each in resources}
    for (uid, name), count in sorted(counts.items()):
        if uid in by_uid:
            of = by_uid[uid]
            labels = {"kind": of["kind"], "namespace": namespace_of(of), "name": name_of(of), what: name}
            yield _line(metric, count, **labels)


def _line(metric: str, value: int, **labels: str) -> str:
    shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{metric}{{{shown}}} {value}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
