"""The live snapshot: everything that the pages and ``penstock top`` show, as one JSON object. Values in, values out.

``view_of`` gathers what is known at this moment; nothing here waits for anybody. Called by ``live``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from penstock.contract.model import Agreement, QueryReport, Subscription, place_of
from penstock.contract.telemetry import Holds
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    EGRESS,
    INGRESS,
    SUBSCRIPTION,
    TRIGGER,
    Resource,
    condition,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from penstock.control.observe import Sight
from penstock.control.stored_problems import StoredProblem, stored_problems
from penstock.control.telemetry import ALL, OfAddress, OfSubscription, State, Sums
from penstock.control.tracks import NOTHING, Recent
from penstock.control.world import World

Row = dict[str, Any]
HANGING_SECONDS = 10.0  # so long a position has not moved, and nothing was delivered lately
TOTALS = ("delivered", "failed_attempts", "dead_lettered", "given_up", "replies")


@dataclass(frozen=True)
class View:
    """All that a snapshot is made of."""

    now: float
    sight: Sight
    resources: list[Resource]
    agreements: Mapping[str, Agreement]  # by key
    queries: Mapping[str, QueryReport]  # by uid of a subscription
    gone: frozenset[str]  # uids of subscribers that have answered 410
    sums: Sums
    recent: Mapping[str, Recent]  # by uid or address
    holds: Mapping[str, Holds]  # by uid, of all workers together
    warnings: tuple[tuple[str, str], ...] = ()  # by topic: events that retention will take
    problems: tuple[StoredProblem, ...] = ()  # stored objects that cannot be read


def view_of(world: World, sight: Sight, now: float) -> View:
    resources, reports = world.store.list(), world.reports.queries()
    gone = (uid_of(each) for each in resources if world.reports.gone(uid_of(each)) is not None)
    return View(
        now=now,
        sight=sight,
        resources=resources,
        agreements=world.contract.agreements(),
        queries={uid: report for report in reports for uid in report.subscriptions},
        gone=frozenset(gone),
        sums=world.counts.sums(),
        recent=world.counts.recent(now),
        holds=held(world.counts.states()),
        warnings=tuple((report.topic, warning) for report in reports for warning in report.warnings),
        problems=stored_problems(world),
    )


def held(states: list[State]) -> dict[str, Holds]:
    """What all workers together have in hand, by uid."""
    found: dict[str, Holds] = {}
    for state in states:
        for uid, more in state.holds.items():
            found[uid] = _both(found[uid], more) if uid in found else more
    return found


def _both(one: Holds, other: Holds) -> Holds:
    tries = [each.next_try for each in (one, other) if each.next_try]
    return Holds(
        in_flight=one.in_flight + other.in_flight,
        unfinished=one.unfinished + other.unfinished,
        retrying=one.retrying + other.retrying,
        last_error=other.last_error or one.last_error,
        next_try=min(tries, default=0.0),
        failures=max(one.failures, other.failures),
    )


def without_rows(sight: Sight, now: float) -> Row:
    """What can be said while the controller is starting."""
    return {
        "time": round(now, 3),
        "parts": [asdict(part) for part in sight.parts],
        "kafka": kafka(sight),
        "totals": _totals([], NOTHING, 0),
        "ingresses": [],
        "subscriptions": [],
    }


def document(view: View) -> Row:
    """All but the attention list."""
    ingresses = [ingress(view, each) for each in view.resources if each["kind"] in _names(INGRESS)]
    rows = [subscription(view, each) for each in view.resources if each["kind"] in _names(EGRESS)]
    readers: dict[str, int] = {}
    for row in rows:
        readers[row["place"]] = readers.get(row["place"], 0) + 1
    for row in ingresses:
        row["subscriptions"] = readers.get(row["place"], 0) if row["place"] else 0
    accepted = sum(each.accepted for each in view.sums.addresses.values())
    return {
        **without_rows(view.sight, view.now),
        "totals": _totals(rows, view.recent.get(ALL, NOTHING), accepted),
        "ingresses": ingresses,
        "subscriptions": rows,
    }


def kafka(sight: Sight) -> Row:
    state = sight.kafka
    return {
        "brokers": state.brokers,
        "offline_partitions": state.offline,
        "under_replicated": state.under_replicated,
        "disk_bytes": state.disk_bytes,
        "disk_free_bytes": state.disk_free_bytes,
    }


def _totals(rows: list[Row], recent: Recent, accepted: int) -> Row:
    p50, p95, p99 = recent.percentiles("whole", 0.5, 0.95, 0.99)
    delivered, lost = recent.lately("delivered"), recent.lately("lost")
    waiting = [row["oldest_waiting_seconds"] for row in rows if row["state"] != "paused"]
    return {
        "in_per_second": recent.rate("in"),
        "delivered_per_second": recent.rate("delivered"),
        "failed_per_second": recent.rate("failed"),
        "success": round(delivered / (delivered + lost), 6) if delivered + lost else None,
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "oldest_waiting_seconds": max((age for age in waiting if age is not None), default=0.0),
        "dead_letters": sum(row["dead_letters"] for row in rows),
        "paused": sum(row["state"] == "paused" for row in rows),
        "accepted_total": accepted,
        "delivered_total": sum(row["totals"]["delivered"] for row in rows),
    }


def ingress(view: View, resource: Resource) -> Row:
    key, agreement = key_of(resource), view.agreements.get(key_of(resource))
    route = agreement.routes[0] if agreement is not None and agreement.routes else None
    path = route.path if route is not None else f"/{namespace_of(resource)}/{name_of(resource)}"
    topic = place_of(route.topic, route.cluster) if route is not None else ""
    sums, recent = view.sums.addresses.get(path) or OfAddress(), view.recent.get(path, NOTHING)
    states = {each.place: each for each in view.sight.kafka.topics}
    return {
        **_head(resource, key),
        "topic": route.topic if route is not None else "",
        "place": topic,
        "address": masked(str((status_of(resource).get("address") or {}).get("url") or "")),
        "in_per_second": recent.rate("in"),
        "rejected_per_second": recent.rate("rejected"),
        "accepted_total": sums.accepted,
        "rejected_total": dict(sorted(sums.rejected.items())),
        "p95_ms": recent.percentiles("ingress", 0.95)[0],
        "partitions": len(states[topic].partitions) if topic in states else None,
        "subscriptions": 0,
    }


def subscription(view: View, resource: Resource) -> Row:
    key, uid, sight = key_of(resource), uid_of(resource), view.sight
    agreed = view.agreements.get(key)
    first = agreed.subscriptions[0] if agreed is not None and agreed.subscriptions else None
    sums, recent = view.sums.subscriptions.get(uid) or OfSubscription(), view.recent.get(uid, NOTHING)
    holds, report, dead = view.holds.get(uid) or Holds(), view.queries.get(uid), sight.dead.get(uid)
    p50, p95, p99 = recent.percentiles("whole", 0.5, 0.95, 0.99)
    lag, age = sight.lag(key), sight.ages.get(key)
    head = _head(resource, key)
    return {
        **head,
        "from": _origin(resource, first),
        "topic": first.topic if first else "",
        "place": first.place if first else "",
        "subscriber": masked(first.subscriber_url if first else str(status_of(resource).get("subscriberUri") or "")),
        "dead_letter_sink": masked((first.delivery.dead_letter_url or "") if first else ""),
        "state": state_of(view, head, first, recent),
        "gear": report.gear if report else "",
        "matched_per_second": recent.rate("matched"),
        "delivered_per_second": recent.rate("delivered"),
        "failed_per_second": recent.rate("failed"),
        "retries_per_second": recent.rate("retries"),
        "totals": {
            "matched": sums.matched,
            **{name: sums.outcomes[name] for name in TOTALS},
            "retries": sums.retries,
        },
        "attempts": dict(sorted(sums.attempts.items())),
        "in_flight": holds.in_flight,
        "unfinished": holds.unfinished,
        "retrying": holds.retrying,
        "next_try": holds.next_try or None,
        "failures": holds.failures,
        "max_retries": first.delivery.retry if first else 0,
        "last_error": holds.last_error,
        "lag": lag,
        "lag_seconds": _seconds(age.behind if age else None),
        "lag_trend": _trend(lag, sight.lags_before.get(key), recent.rate("matched")),
        "oldest_waiting_seconds": _seconds(age.oldest if age else None),
        "stalled_seconds": _seconds(age.stalled if age else None),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "waiting_p95_ms": recent.percentiles("waiting", 0.95)[0],
        "subscriber_p95_ms": recent.percentiles("subscriber", 0.95)[0],
        "dead_letters": dead.count if dead else 0,
        "oldest_dead_letter_seconds": _seconds(max(0.0, view.now - dead.oldest)) if dead else None,
    }


def state(view: View, resource: Resource) -> str:
    agreed = view.agreements.get(key_of(resource))
    first = agreed.subscriptions[0] if agreed is not None and agreed.subscriptions else None
    return state_of(view, _head(resource, key_of(resource)), first, view.recent.get(uid_of(resource), NOTHING))


def state_of(view: View, head: Row, agreed: Subscription | None, recent: Recent) -> str:
    """One word for how it is; the worst that is true."""
    uid, report = head["uid"], view.queries.get(head["uid"])
    holds = view.holds.get(uid) or Holds()
    is_failing = recent.lately("failed") > 0 and not recent.lately("delivered")
    age = view.sight.ages.get(head["key"])
    is_hanging = age is not None and age.stalled > HANGING_SECONDS and not recent.lately("delivered")
    words = (
        ("gone", uid in view.gone),
        ("paused", agreed is not None and agreed.is_paused(view.now)),
        ("not ready", head["ready"] != "True"),
        ("parked", report is not None and uid in report.apart),
        ("failing", recent.lately("lost") > 0),
        ("retrying", holds.retrying > 0),
        ("failing", is_failing),
        ("hanging", holds.in_flight > 0 and is_hanging),
        ("delivering", holds.in_flight > 0 or recent.rate("delivered") > 0),
    )
    return next((word for word, is_true in words if is_true), "idle")


def masked(url: str) -> str:
    """Without the password, if there is one in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    login, _, host = parts.netloc.rpartition("@")
    shown = f"{login.partition(':')[0]}:***" if ":" in login else login
    return urlunsplit(parts._replace(netloc=f"{shown}@{host}"))


def _head(resource: Resource, key: str) -> Row:
    ready = condition(resource, "Ready")
    is_ready = ready["status"] == "True"
    why = ready.get("message") or ready.get("reason") or "" if not is_ready else ""
    return {
        "key": key,
        "uid": uid_of(resource),
        "kind": resource["kind"],
        "namespace": namespace_of(resource),
        "name": name_of(resource),
        "ready": ready["status"],
        "reason": why,
    }


def _origin(resource: Resource, agreed: Subscription | None) -> str:
    """The key of what it has its events from; of a source, the topic."""
    spec, namespace = spec_of(resource), namespace_of(resource)
    if resource["kind"] == TRIGGER.name:
        return f"{BROKER.name}/{namespace}/{spec.get('broker') or 'default'}"
    if resource["kind"] == SUBSCRIPTION.name:
        return f"{CHANNEL.name}/{namespace}/{(spec.get('channel') or {}).get('name', '')}"
    return f"Topic/{agreed.place}" if agreed is not None else ""


def _trend(lag: int | None, before: int | None, per_second: float) -> int:
    """-1, 0 or 1: whether it has become less or more, by more than it wavers: positions move about once a second."""
    if lag is None or before is None:
        return 0
    change, wavers = lag - before, max(10.0, 0.1 * before, 2.5 * per_second)
    return 0 if abs(change) <= wavers else 1 if change > 0 else -1


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _names(kinds: tuple[Any, ...]) -> frozenset[str]:
    return frozenset(kind.name for kind in kinds)
