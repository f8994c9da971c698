"""Grafana's dashboards, made from the list of metrics: an overview, and one for a single subscription.

Written to ``deploy/grafana/`` by ``make dashboards``. Both show the same panels; the overview over everything, the
other one with the labels of one subscription in every expression. Ages are never summed up, and a share is shown
only where there was something to share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.telemetry import metrics as m
from penstock.telemetry.alerts import DEAD_LETTERS_TOPIC, Objectives
from penstock.telemetry.metrics import SUBSCRIPTION, Metric
from penstock.telemetry.panels import Json, Panel, Query, Row, dashboard, variable
from penstock.telemetry.promql import buckets, highest, increase, level, quantile, rate, series

WINDOW = "$__rate_interval"
TREND = "10m"  # long enough that a slope is no noise
JOB = 'job="$job"'  # of what tells everything: the controller. A receiver tells its own numbers a second time
NAME = "{{kind}} {{namespace}}/{{name}}"
STATE_COLOURS = ("#8e8e8e", "green", "yellow", "red", "orange", "blue", "purple", "#444444", "dark-yellow")
ORANGE_RED = ((None, "green"), (60, "orange"), (Objectives().age_seconds, "red"))
SUBSCRIPTION_UID = "penstock-subscription"
LINK = f"/d/{SUBSCRIPTION_UID}?" + "&".join(f"var-{label}=${{__field.labels.{label}}}" for label in SUBSCRIPTION)
HOURS_AHEAD = 24


@dataclass(frozen=True)
class Scope:
    """Of what a dashboard is: the matchers that every expression about subscriptions gets."""

    matchers: tuple[str, ...]
    by: tuple[str, ...] = ()  # what is told apart in a panel that shows one line for each subscription

    @property
    def legend(self) -> str:
        return NAME if self.by else ""

    @property
    def link(self) -> str:
        return LINK if self.by else ""

    def rate(self, metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
        return rate(metric, *self.matchers, *matchers, window=WINDOW, by=by)

    def highest(self, metric: Metric, *matchers: str) -> str:
        return highest(metric, *self.matchers, *matchers, by=self.by)

    def level(self, metric: Metric, *matchers: str, by: Sequence[str] = ()) -> str:
        return level(metric, *self.matchers, *matchers, by=by)


EVERYTHING = Scope((JOB,), SUBSCRIPTION)
ONE = Scope((JOB, *(f'{label}="${label}"' for label in SUBSCRIPTION)))


def dashboards() -> dict[str, Json]:
    """By the name of the file."""
    return {"penstock-overview.json": overview(), "penstock-subscription.json": subscription()}


def overview() -> Json:
    rows = [
        Row("Now", _now()),
        Row("In", _ingress()),
        *_common(EVERYTHING),
        Row("Spark", _spark()),
        Row("Kafka", _kafka()),
    ]
    about = "Is it flowing, how far behind is it, and what fails."
    return dashboard("penstock-overview", "Penstock: overview", about, [_job()], rows)


def subscription() -> Json:
    variables, known = [_job()], JOB
    for label in SUBSCRIPTION:
        variables.append(variable(label, label.capitalize(), f"label_values({series(m.LAG_EVENTS, known)}, {label})"))
        known += f', {label}="${label}"'
    about = "One trigger, subscription or source: what it gets, how long that takes, and what becomes of it."
    return dashboard(SUBSCRIPTION_UID, "Penstock: one subscription", about, variables, _common(ONE))


def _job() -> Json:
    return variable("job", "Job", f"label_values({m.PART_UP.name}, job)")


def _common(of: Scope) -> list[Row]:
    return [
        Row("Delivery", [*_success(of), _attempts_per_first(of), _matched(of), _in_flight(of)]),
        Row("Waiting", _waiting(of)),
        Row("Latency", _latency(of)),
        Row("Dead letters", _dead_letters(of)),
        Row("States", [_states(of)]),
    ]


def _now() -> list[Panel]:
    def stat(title: str, expression: str, unit: str = "short", **more: object) -> Panel:
        return Panel(title, [Query(expression)], "stat", unit, width=3, height=4, **more)  # type: ignore[arg-type]

    all_parts, of = series(m.PART_UP, JOB), Scope((JOB,))
    well = ((None, "red"), (1, "green"))
    return [
        stat("In", rate(m.ACCEPTED, JOB, window=WINDOW), "eps"),
        stat("Delivered", of.rate(m.DELIVERED), "eps"),
        stat(
            "Final success",
            _final_success(of),
            "percentunit",
            steps=((None, "red"), (0.99, "orange"), (0.999, "green")),
        ),
        stat("Oldest waiting", of.highest(m.OLDEST_WAITING), "s", steps=ORANGE_RED),
        stat("Dead letters", of.level(m.DEAD_LETTERS), steps=((None, "green"), (1, "orange"))),
        stat("Paused", of.level(m.PAUSED), steps=((None, "green"), (1, "blue"))),
        stat("Parts that run", f"avg ({all_parts})", "percentunit", steps=well),
        stat(
            "Resources not ready",
            level(m.RESOURCES, JOB, 'ready!="True"'),
            steps=((None, "green"), (1, "red")),
        ),
    ]


def _ingress() -> list[Panel]:
    classes = [Query(rate(m.ACCEPTED, JOB, window=WINDOW), "2xx")]
    for code in ("4xx", "5xx"):
        reasons = "|".join(reason for reason, its in m.REJECTION_CLASS.items() if its == code)
        classes.append(Query(rate(m.REJECTED, JOB, f'reason=~"{reasons}"', window=WINDOW), code))
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    times = [Query(quantile(share, m.INGRESS_SECONDS, JOB, window=WINDOW), name) for share, name in shares]
    rejected = rate(m.REJECTED, JOB, window=WINDOW, by=("reason",))
    waiting = Query(level(m.INGRESS_IN_FLIGHT, JOB), "wait for Kafka")
    return [
        Panel("Ingress by code class", classes, unit="reqps", stacked=True, about="Answers to senders."),
        Panel("Rejected by reason", [Query(f"{rejected} > 0", "{{reason}}")], unit="reqps"),
        Panel("Accepted by address", [Query(rate(m.ACCEPTED, JOB, window=WINDOW, by=m.ADDRESS), NAME)], unit="eps"),
        Panel("Time to the answer", times, unit="s", about=m.INGRESS_SECONDS.help, width=12),
        Panel(
            "Events and connections in hand",
            [waiting, Query(level(m.INGRESS_CONNECTIONS, JOB), "connections")],
            width=12,
        ),
    ]


def _final_success(of: Scope, by: Sequence[str] = ()) -> str:
    delivered, dead, given_up = (of.rate(each, by=by) for each in (m.DELIVERED, m.DEAD_LETTERED, m.GIVEN_UP))
    return f"{delivered} / (({delivered} + {dead} + {given_up}) > 0)"


def _success(of: Scope) -> list[Panel]:
    attempts = of.rate(m.ATTEMPTS)
    queries = [
        Query(_final_success(of), "final: delivered in the end"),
        Query(f"{of.rate(m.ATTEMPTS, _TAKEN)} / ({attempts} > 0)", "attempts answered with 2xx"),
    ]
    about = "Final success beside attempt success; no line where there was no traffic."
    found = [
        Panel("Success", queries, unit="percentunit", most=1, about=about),
        Panel(
            "Attempts by class", [Query(of.rate(m.ATTEMPTS, by=("class",)), "{{class}}")], unit="reqps", stacked=True
        ),
    ]
    if of.by:
        worst = f"bottomk(10, {_final_success(of, of.by)})"
        found.append(Panel("Least final success", [Query(worst, NAME)], unit="percentunit", most=1, link=of.link))
    return found


_TAKEN = 'class="2xx"'


def _attempts_per_first(of: Scope) -> Panel:
    attempts, retries = of.rate(m.ATTEMPTS, by=of.by), of.rate(m.RETRIES, by=of.by)
    ratio = f"{attempts} / (({attempts} - {retries}) > 0)"
    about = "1: nothing is repeated. What is above is load that failures add."
    return Panel(
        "Attempts per first attempt", [Query(_top(of, ratio), of.legend or "attempts")], about=about, link=of.link
    )


def _matched(of: Scope) -> Panel:
    queries = [Query(of.rate(m.MATCHED), "matched"), Query(of.rate(m.FILTERED), "filtered out")]
    about = "What filters let through, against what they do not."
    return Panel("Matched against filtered", queries, unit="eps", stacked=True, about=about)


def _in_flight(of: Scope) -> Panel:
    queries = [
        Query(of.level(m.IN_FLIGHT), "in flight"),
        Query(of.level(m.IN_FLIGHT_LIMIT), "limit"),
        Query(of.level(m.UNFINISHED), "unfinished"),
    ]
    return Panel("In flight against the limit", queries, about="At the limit the subscriber is what is slow.")


def _waiting(of: Scope) -> list[Panel]:
    slope = f"sum (deriv({series(m.LAG_EVENTS, *of.matchers, window=TREND)}))"
    per_each = f"sum by ({', '.join(of.by)}) " if of.by else "sum "
    each_slope = f"{per_each}(deriv({series(m.LAG_EVENTS, *of.matchers, window=TREND)}))"
    drain = f"{of.level(m.LAG_EVENTS, by=of.by)} / (-{each_slope} > 0)"
    oldest = [
        Query(highest(m.OLDEST_WAITING, *of.matchers), "oldest waiting"),
        Query(of.level(m.LAG_EVENTS), "lag", unit="short"),
        Query(slope, "slope of the lag", unit="eps"),
    ]
    behind = f"{_top(of, of.highest(m.LAG_SECONDS))}"
    return [
        Panel(
            "Oldest waiting, lag and its slope",
            oldest,
            unit="s",
            about="The age is the highest of all, no sum.",
            width=12,
        ),
        Panel(
            "Oldest waiting",
            [Query(_top(of, of.highest(m.OLDEST_WAITING)), of.legend)],
            unit="s",
            link=of.link,
            width=12,
        ),
        Panel(
            "Time until the backlog is gone",
            [Query(_top(of, drain), of.legend or "drain time")],
            unit="s",
            about="Only while more goes out than comes in.",
            link=of.link,
        ),
        Panel("Behind the newest event", [Query(behind, of.legend or "behind")], unit="s", about=m.LAG_SECONDS.help),
        Panel(
            "Most stuck partition",
            [Query(_top(of, of.highest(m.LAST_COMMIT)), of.legend or "has not moved")],
            unit="s",
            about=m.LAST_COMMIT.help,
            link=of.link,
        ),
    ]


def _latency(of: Scope) -> list[Panel]:
    parts = (("whole way", m.WHOLE_WAY), ("waiting", m.KAFKA_TO_SUBSCRIBER), ("subscriber", m.SUBSCRIBER_SECONDS))
    heat = Query(buckets(m.WHOLE_WAY, *of.matchers, window=WINDOW, how="increase"), "{{le}}", format="heatmap")
    found = [Panel("Whole way", [heat], "heatmap", "s", m.WHOLE_WAY.help, width=24)]
    for name, metric in parts:
        queries = [
            Query(quantile(share, metric, *of.matchers, window=WINDOW), f"p{100 * share:g}")
            for share in (0.5, 0.95, 0.99)
        ]
        found.append(Panel(f"Percentiles: {name}", queries, unit="s", about=metric.help))
    return found


def _dead_letters(of: Scope) -> list[Panel]:
    kept = f'topic="{DEAD_LETTERS_TOPIC}"'
    new = [
        Query(increase(metric, *of.matchers, window=WINDOW), name)
        for name, metric in (("dead-lettered", m.DEAD_LETTERED), ("given up", m.GIVEN_UP))
    ]
    age = [
        Query(_top(of, of.highest(m.OLDEST_DEAD_LETTER)), of.legend or "oldest"),
        Query(f"{highest(m.RETENTION, JOB, kept)} > 0", "retention"),
    ]
    waiting = [
        Query(_top(of, of.highest(m.OLDEST_WAITING)), of.legend or "oldest waiting"),
        Query(f"min ({series(m.SUBSCRIPTION_RETENTION, *of.matchers)} > 0)", "retention"),
    ]
    by_reason = of.level(m.DEAD_LETTERS_BY_REASON, by=("reason",))
    return [
        Panel(
            "Dead letters by reason",
            [Query(by_reason, "{{reason}}")],
            stacked=True,
            about=m.DEAD_LETTERS_BY_REASON.help,
        ),
        Panel(
            "Depth", [Query(_top(of, of.level(m.DEAD_LETTERS, by=of.by)), of.legend or "dead letters")], link=of.link
        ),
        Panel("New", new, about="In each step of the graph."),
        Panel("Age of dead letters against retention", age, unit="s", width=12),
        Panel("Age of waiting events against retention", waiting, unit="s", width=12),
    ]


def _states(of: Scope) -> Panel:
    mapped = {
        str(number): {"text": state, "color": STATE_COLOURS[number], "index": number}
        for number, state in enumerate(m.STATES)
    }
    return Panel(
        "State of each subscription" if of.by else "State",
        [Query(of.highest(m.STATE), of.legend or "state")],
        "state-timeline",
        width=24,
        height=10 if of.by else 5,
        mappings=[{"type": "value", "options": mapped}],
        link=of.link,
    )


def _spark() -> list[Panel]:
    gaps = [Query(quantile(share, m.BATCH_GAP, JOB, window="1h"), f"p{100 * share:g}") for share in (0.5, 0.99)]
    memory = [
        Query(level(m.WORKER_MEMORY, JOB), "Python workers"),
        Query(level(m.JVM_HEAP, JOB), "heap of the driver"),
    ]
    rows = Query(rate(m.CONSUMED, JOB, window=WINDOW, by=("topic",)), "{{topic}}")
    bad = Query(rate(m.BAD_RECORDS, JOB, window=WINDOW, by=("topic",)), "no events: {{topic}}")
    starts = Query(increase(m.QUERY_STARTS, JOB, window=WINDOW, by=("topic",)), "{{topic}}")
    return [
        Panel("Gaps between batches", gaps, unit="s", about=m.BATCH_GAP.help),
        Panel("Rows read", [rows, bad], unit="rps"),
        Panel("Starts of queries", [starts], about=m.QUERY_STARTS.help),
        Panel("Memory", memory, unit="bytes", stacked=True),
        Panel(
            "Slots and workers",
            [Query(level(m.SLOTS, JOB, by=("state",)), "slots {{state}}"), Query(level(m.WORKERS, JOB), "workers")],
        ),
        Panel("Queries that run", [Query(level(m.QUERY_STATE, JOB, by=("gear",)), "{{gear}}")], stacked=True),
    ]


def _kafka() -> list[Panel]:
    partitions = [
        Query(highest(m.KAFKA_OFFLINE, JOB), "offline"),
        Query(highest(m.KAFKA_UNDER_REPLICATED, JOB), "under-replicated"),
    ]
    free = series(m.KAFKA_DISK_FREE, JOB, window="6h")
    disk = [
        Query(highest(m.KAFKA_DISK, JOB), "log"),
        Query(highest(m.KAFKA_DISK_FREE, JOB), "free"),
        Query(f"max (predict_linear({free}, {HOURS_AHEAD * 3600}))", f"free in {HOURS_AHEAD} h"),
    ]
    full = f"max ({series(m.KAFKA_DISK_FREE, JOB)} / (-deriv({free}) > 0))"
    return [
        Panel("Offline and under-replicated partitions", partitions),
        Panel("Disk and its forecast", disk, unit="bytes", about="The forecast goes on as in the last six hours."),
        Panel("Time until the disk is full", [Query(full, "full in")], unit="s", about="Only while room shrinks."),
        Panel("Brokers that answer", [Query(highest(m.KAFKA_BROKERS, JOB), "brokers")], width=12),
        Panel(
            "Records written",
            [Query(rate(m.PRODUCED, JOB, window=WINDOW, by=("topic",)), "{{topic}}")],
            unit="eps",
            width=12,
        ),
    ]


def _top(of: Scope, expression: str) -> str:
    """The ten that stand out, where there may be hundreds."""
    return f"topk(10, {expression})" if of.by else expression
