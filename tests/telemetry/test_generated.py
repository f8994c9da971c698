"""What is made from the list of metrics is in the repository as made, and names nothing that is not in the list."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.contract.model import DEAD_LETTERS_TOPIC
from penstock.telemetry import alerts, metrics
from penstock.telemetry.generated import files
from penstock.telemetry.grafana import dashboards
from penstock.telemetry.metrics import BY_NAME, CLASSES, METRICS, REJECTION_CLASS, REJECTIONS, STATES, Metric
from penstock.telemetry.promql import PROMETHEUS_OWN, series

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/penstock-alerts.yaml"
TRIALS = ROOT / "deploy/prometheus/penstock-alerts.test.yaml"
NAME = re.compile(r"\b(?:penstock|eventing)_\w+")
SELECTED = re.compile(rf"({NAME.pattern})(?:\{{([^}}]*)\}})?")
GROUPED = re.compile(rf"by \(([^)]*)\)[^{{]*?({NAME.pattern})")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")

needs_promtool = pytest.mark.usefixtures("promtool")


@pytest.mark.parametrize("name", sorted(files()))
def test_the_file_in_the_repository_is_what_the_list_makes(name: str) -> None:
    assert (ROOT / name).read_text() == files()[name], "`make dashboards` writes it anew"


def test_every_metric_is_on_the_page() -> None:
    page = files()["docs/metrics.md"]
    assert [each.name for each in METRICS if f"| `{each.name}` |" not in page] == []


def test_no_metric_stands_twice_and_each_says_what_it_is() -> None:
    assert len(BY_NAME) == len(METRICS)
    assert [each.name for each in METRICS if not each.help.endswith(".")] == []


def test_what_the_telemetry_says_of_others_is_as_they_say_it() -> None:
    """The name of the topic of dead letters, which this room may not import."""
    assert alerts.DEAD_LETTERS_TOPIC == DEAD_LETTERS_TOPIC
    assert set(REJECTION_CLASS) == set(REJECTIONS)


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression that is in the files, with where it stands."""
    for file, board in dashboards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{file}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            if "definition" in variable:
                yield f"{file}: variable {variable['name']}", variable["definition"]
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]
    for trial in yaml.safe_load(TRIALS.read_text())["tests"]:
        for each in trial["input_series"]:
            yield f"trial {trial['name']}", each["series"]


def metric_of(name: str) -> Metric | None:
    for suffix in ("", "_bucket", "_sum", "_count"):
        found = BY_NAME.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if found is not None and (found.kind == "histogram") == bool(suffix):
            return found
    return None


def faults(expression: str) -> list[str]:
    """Names and labels in an expression that are not in the list."""
    found = []
    for name, inside in SELECTED.findall(expression):
        metric = metric_of(name)
        if metric is None:
            found.append(f"{name} is not in the list")
            continue
        labels = LABEL.findall(re.sub(r'"[^"]*"', '""', inside))
        found += [f"{name} has no label {each}" for each in labels if each not in known_labels(metric)]
    for inside, name in GROUPED.findall(expression):
        metric = metric_of(name)
        labels = [each.strip() for each in inside.split(",") if each.strip()]
        found += [f"{name} has no label {each}" for each in labels if metric and each not in known_labels(metric)]
    return found


def known_labels(metric: Metric) -> tuple[str, ...]:
    return (*metric.labels, *PROMETHEUS_OWN, *(("le",) if metric.kind == "histogram" else ()))


def test_every_expression_names_metrics_and_labels_of_the_list() -> None:
    found = list(expressions())
    assert len(found) > 100
    assert [(where, each) for where, expression in found for each in faults(expression)] == []


def test_a_wrong_name_or_label_would_be_noticed() -> None:
    assert faults("rate(penstock_events_acepted_total[5m])") == ["penstock_events_acepted_total is not in the list"]
    assert faults('penstock_kafka_brokers{topic="x"}') == ["penstock_kafka_brokers has no label topic"]
    assert faults("sum by (reason) (rate(penstock_events_accepted_total[5m]))") == [
        "penstock_events_accepted_total has no label reason"
    ]
    assert faults("penstock_whole_way_seconds") == ["penstock_whole_way_seconds is not in the list"]  # only its parts
    with pytest.raises(ValueError, match="has no label topic"):
        series(metrics.ACCEPTED, 'topic="x"')


def test_words_in_matchers_are_from_the_closed_lists() -> None:
    closed = {"reason": {*REJECTIONS, *CLASSES}, "class": set(CLASSES)}
    for where, expression in expressions():
        for label, text in re.findall(r'\b(reason|class)=~?"([^"]*)"', expression):
            assert set(text.split("|")) <= closed[label], where


def test_a_legend_uses_labels_that_its_expression_keeps() -> None:
    for file, board in dashboards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                kept = {
                    name.strip()
                    for group in re.findall(r"by \(([^)]*)\)", target["expr"])
                    for name in group.split(",")
                }
                used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert used <= kept, f"{file}: {panel['title']}"


def test_dashboards_have_no_ids_of_an_installation() -> None:
    """The data source is a variable; a dashboard's own number is Grafana's to give."""
    for board in dashboards().values():
        assert board["id"] is None
        assert board["templating"]["list"][0]["type"] == "datasource"
        for source in _all(board, "datasource"):
            assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_panels_do_not_overlap() -> None:
    for board in dashboards().values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            assert max(x for x, _ in cells) < 24
            taken |= cells


def test_the_promised_panels_are_there() -> None:
    """The list of what a dashboard must show."""
    overview = [each["title"] for each in dashboards()["penstock-overview.json"]["panels"]]
    one = [each["title"] for each in dashboards()["penstock-subscription.json"]["panels"]]
    of_both = [
        "Success",
        "Oldest waiting, lag and its slope",
        "Time until the backlog is gone",
        "Whole way",
        "Percentiles: whole way",
        "Percentiles: waiting",
        "Percentiles: subscriber",
        "Attempts per first attempt",
        "Dead letters by reason",
        "Depth",
        "Age of dead letters against retention",
        "Age of waiting events against retention",
        "Matched against filtered",
        "In flight against the limit",
    ]
    of_all = [
        "Ingress by code class",
        "State of each subscription",
        "Gaps between batches",
        "Rows read",
        "Offline and under-replicated partitions",
        "Disk and its forecast",
    ]
    assert [title for title in (*of_both, *of_all) if title not in overview] == []
    assert [title for title in (*of_both, "State") if title not in one] == []


def test_ages_are_never_summed_up() -> None:
    ages = [metrics.OLDEST_WAITING.name, metrics.OLDEST_DEAD_LETTER.name, metrics.LAG_SECONDS.name]
    for where, expression in expressions():
        assert not re.search(rf"sum[^(]*(\([^)]*\) )?\(({'|'.join(ages)})", expression), where


def test_states_have_a_word_and_a_colour_each() -> None:
    for board in dashboards().values():
        (timeline,) = [each for each in board["panels"] if each["type"] == "state-timeline"]
        mapped = timeline["fieldConfig"]["defaults"]["mappings"][0]["options"]
        assert [each["text"] for each in mapped.values()] == list(STATES)
        assert len({each["color"] for each in mapped.values()}) == len(STATES)


@needs_promtool
def test_promtool_takes_the_rules_and_the_configuration() -> None:
    _promtool("check", "rules", RULES.name)
    _promtool("check", "config", "prometheus.yaml")


@needs_promtool
def test_each_alert_fires_on_its_fault_and_not_on_a_healthy_series() -> None:
    _promtool("test", "rules", TRIALS.name)


def test_each_alert_has_a_trial_in_which_it_fires_and_one_healthy_series_or_time() -> None:
    tried: dict[str, set[bool]] = {}
    for trial in yaml.safe_load(TRIALS.read_text())["tests"]:
        several = len(trial["input_series"]) > 1
        for each in trial["alert_rule_test"]:
            fired = bool(each["exp_alerts"])
            healthy = not fired or (several and len(each["exp_alerts"]) < len(trial["input_series"]))
            tried.setdefault(each["alertname"], set()).update({fired} | ({False} if healthy else set()))
    assert tried == {each.name: {True, False} for each in alerts.all_alerts()}


@needs_promtool
def test_promtool_can_read_every_expression_of_the_dashboards(tmp_path: Path) -> None:
    rules = []
    for number, (where, expression) in enumerate(expressions()):
        if where.endswith(".json") or "variable" in where or "trial" in where:
            continue
        text = expression.replace("$__rate_interval", "5m")
        rules.append({"record": f"tried:{number}", "expr": text, "labels": {"place": where.replace("$", "")}})
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "tried", "rules": rules}]}))
    _promtool("check", "rules", str(file))


def _promtool(*arguments: str) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _all(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inside in value.items():
            if name == key:
                yield inside
            yield from _all(inside, key)
    elif isinstance(value, list):
        for inside in value:
            yield from _all(inside, key)


def test_dashboards_are_valid_json_with_a_schema_of_grafana_11() -> None:
    for name in dashboards():
        board = json.loads((ROOT / "deploy/grafana" / name).read_text())
        assert board["schemaVersion"] >= 39
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
