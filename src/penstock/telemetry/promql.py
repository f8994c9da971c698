"""Expressions of Prometheus, made from the list of metrics. Used by the dashboards and the rules for alerts.

A metric comes in as an object and a label is looked up in it, so an expression cannot name what is not in the list.
"""

from collections.abc import Iterable

from penstock.telemetry.metrics import Metric

PROMETHEUS_OWN = ("job", "instance")  # labels that every series gets when it is scraped


def series(metric: Metric, *matchers: str, window: str = "", offset: str = "") -> str:
    """``name{label="value"}[window] offset …``. A matcher is written as Prometheus wants it: ``class="2xx"``."""
    return _selected(metric.name, metric.labels, matchers, window, offset)


def rate(metric: Metric, *matchers: str, window: str, by: Iterable[str] = ()) -> str:
    """Growth of a counter per second, summed up by these labels, or altogether."""
    return total(f"rate({series(metric, *matchers, window=window)})", metric, by)


def increase(metric: Metric, *matchers: str, window: str, by: Iterable[str] = (), offset: str = "") -> str:
    return total(f"increase({series(metric, *matchers, window=window, offset=offset)})", metric, by)


def total(expression: str, metric: Metric, by: Iterable[str] = ()) -> str:
    return f"sum{_by(metric, by)} ({expression})"


def highest(metric: Metric, *matchers: str, by: Iterable[str] = ()) -> str:
    """What must not be summed up: ages, and states that several processes tell."""
    return f"max{_by(metric, by)} ({series(metric, *matchers)})"


def level(metric: Metric, *matchers: str, by: Iterable[str] = ()) -> str:
    """Amounts, which may be summed up."""
    return total(series(metric, *matchers), metric, by)


def buckets(metric: Metric, *matchers: str, window: str, how: str = "rate", by: Iterable[str] = ()) -> str:
    """The growth of a histogram's buckets."""
    if metric.kind != "histogram":
        raise ValueError(f"{metric.name} is no histogram")
    selected = _selected(f"{metric.name}_bucket", metric.labels, matchers, window, "")
    inside = ", ".join(("le", *_checked(metric, by)))
    return f"sum by ({inside}) ({how}({selected}))"


def quantile(share: float, metric: Metric, *matchers: str, window: str, by: Iterable[str] = ()) -> str:
    return f"histogram_quantile({share:g}, {buckets(metric, *matchers, window=window, by=by)})"


def _selected(name: str, labels: tuple[str, ...], matchers: tuple[str, ...], window: str, offset: str) -> str:
    for matcher in matchers:
        label = matcher.partition("=")[0].rstrip("!")
        if label not in (*labels, *PROMETHEUS_OWN):
            raise ValueError(f"{name} has no label {label}; it has {', '.join(labels) or 'none'}")
    inside = f"{{{', '.join(matchers)}}}" if matchers else ""
    return name + inside + (f"[{window}]" if window else "") + (f" offset {offset}" if offset else "")


def _by(metric: Metric, labels: Iterable[str]) -> str:
    named = _checked(metric, labels)
    return f" by ({', '.join(named)})" if named else ""


def _checked(metric: Metric, labels: Iterable[str]) -> tuple[str, ...]:
    named = tuple(labels)
    for label in named:
        if label not in metric.labels:
            raise ValueError(f"{metric.name} has no label {label}; it has {', '.join(metric.labels) or 'none'}")
    return named
