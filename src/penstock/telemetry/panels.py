"""Panels of Grafana as JSON: the shapes that the dashboards use, and how they are laid out. Used by ``grafana``.

Nothing here names a data source or an id: the data source is a variable of the dashboard, and places are counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SCHEMA = 39  # of Grafana 11.0; later ones take it on
COLUMNS = 24  # that a dashboard is wide
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    expression: str
    legend: str = ""
    unit: str = ""  # another one than the panel's, on the axis at the right
    format: str = "time_series"


@dataclass(frozen=True)
class Panel:
    title: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    about: str = ""
    width: int = 8
    height: int = 8
    stacked: bool = False
    most: float | None = None  # end of the axis
    steps: Sequence[tuple[float | None, str]] = ((None, "green"),)  # colours from a value on
    mappings: Sequence[Json] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    link: str = ""  # of a series, to another dashboard


@dataclass(frozen=True)
class Row:
    title: str
    panels: Sequence[Panel]


def laid_out(rows: Iterable[Row]) -> list[Json]:
    """Row under row, panels from left to right."""
    shown: list[Json] = []
    top = 0
    for row in rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        shown.append({"type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []})
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, height = top + height, 0, 0
            shown.append(_json(panel, {"h": panel.height, "w": panel.width, "x": left, "y": top}))
            left, height = left + panel.width, max(height, panel.height)
        top += height
    return [{"id": number, **each} for number, each in enumerate(shown, 1)]


def dashboard(uid: str, title: str, about: str, variables: Sequence[Json], rows: Iterable[Row]) -> Json:
    return {
        "id": None,
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["penstock"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # the cursor is shown in all panels
        "timezone": "",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Penstock",
                "tags": ["penstock"],
                "asDropdown": True,
                "keepTime": True,
                "includeVars": False,
            }
        ],
        "templating": {"list": [_datasource_variable(), *variables]},
        "panels": laid_out(rows),
    }


def variable(name: str, label: str, query: str) -> Json:
    """One that is asked from Prometheus."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"{name}-values"},
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "includeAll": False,
        "multi": False,
        "hide": 0,
        "options": [],
        "current": {},
    }


def _datasource_variable() -> Json:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
        "includeAll": False,
        "multi": False,
        "hide": 0,
        "options": [],
        "current": {},
    }


def _json(panel: Panel, place: Json) -> Json:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [_target(number, each) for number, each in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _field(panel), "overrides": list(_overrides(panel))},
        "options": {**_options(panel.kind), **panel.options},
    }


def _target(number: int, query: Query) -> Json:
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "format": query.format,
        "range": True,
        "instant": False,
    }


def _field(panel: Panel) -> Json:
    found: Json = {
        "unit": panel.unit,
        "mappings": list(panel.mappings),
        "thresholds": {"mode": "absolute", "steps": [{"value": at, "color": colour} for at, colour in panel.steps]},
        "custom": _custom(panel),
    }
    if panel.kind == "timeseries":
        found |= {"min": 0, "color": {"mode": "palette-classic"}}
    elif panel.kind != "heatmap":
        found["color"] = {"mode": "thresholds"}
    if panel.most is not None:
        found["max"] = panel.most
    if panel.link:
        found["links"] = [{"title": "This subscription", "url": panel.link}]
    return found


def _custom(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        return {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": stacking,
        }
    return {"lineWidth": 0, "fillOpacity": 80} if panel.kind == "state-timeline" else {}


def _overrides(panel: Panel) -> Iterable[Json]:
    for number, query in enumerate(panel.queries):
        if query.unit:
            yield {
                "matcher": {"id": "byFrameRefID", "options": chr(ord("A") + number)},
                "properties": [
                    {"id": "unit", "value": query.unit},
                    {"id": "custom.axisPlacement", "value": "right"},
                    {"id": "min", "value": None},  # a slope may be below 0
                ],
            }


def _options(kind: str) -> Json:
    if kind == "timeseries":
        return {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    if kind == "heatmap":
        return {
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "tooltip": {"mode": "single", "yHistogram": True},
            "yAxis": {"unit": "s", "axisPlacement": "left"},
        }
    if kind == "state-timeline":
        return {
            "mergeValues": True,
            "showValue": "auto",
            "alignValue": "left",
            "rowHeight": 0.9,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "single"},
        }
    return {}
