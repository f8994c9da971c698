"""How a subscription stands, as samples: its state, its limits, what its topic still keeps, what its filter kept out.

Pure. Called by ``metrics`` for each subscription.
"""

from collections import Counter
from collections.abc import Mapping

from penstock.contract.model import Agreement, Subscription
from penstock.control import live_rows
from penstock.control.folding import Folding, Labels
from penstock.control.kinds import Resource, key_of, uid_of
from penstock.control.live_rows import View
from penstock.telemetry import metrics as m

Kept = Mapping[str, int | None]  # retention in milliseconds by place of a topic


def judged(folding: Folding, labels: Labels, view: View, resource: Resource, kept: Kept) -> None:
    """Its state, its dead letters by reason, and how long its topic keeps what waits."""
    folding.most(m.STATE, labels, m.STATES.index(live_rows.state(view, resource)))
    dead = view.sight.dead.get(uid_of(resource))
    for reason in m.CLASSES:
        folding.add(m.DEAD_LETTERS_BY_REASON, (*labels, reason), dead.by_class.get(reason, 0) if dead else 0)
    agreed = view.agreements.get(key_of(resource))
    known = [
        milliseconds
        for each in (agreed.subscriptions if agreed is not None else ())
        if (milliseconds := kept.get(each.place)) is not None
    ]
    if known:
        shortest = min((each for each in known if each >= 0), default=-1)
        folding.most(m.SUBSCRIPTION_RETENTION, labels, in_seconds(shortest))


def limited(folding: Folding, labels: Labels, agreed: Agreement | None, partitions: int, window: int) -> None:
    """How many requests may be under way; not known before the dispatcher has told how it is set."""
    if agreed is not None and agreed.subscriptions and partitions and window:
        folding.add(m.IN_FLIGHT_LIMIT, labels, in_flight_limit(agreed.subscriptions[0], partitions, window))


def in_flight_limit(subscription: Subscription, partitions: int, window: int) -> int:
    """In all partitions together. In order there is one at a time in each."""
    if subscription.order == "ordered":
        return partitions
    most = subscription.delivery.max_in_flight
    return partitions * (min(window, max(1, most // partitions)) if most else window)


def consumed(by: Mapping[tuple[str, str, int], int]) -> Counter[str]:
    """Records that were read for a subscription, by its uid."""
    found: Counter[str] = Counter()
    for (uid, _place, _partition), count in by.items():
        found[uid] += count
    return found


def matched(view: View, uid: str) -> int:
    sums = view.sums.subscriptions.get(uid)
    return sums.matched if sums is not None else 0


def in_seconds(milliseconds: int) -> float:
    """-1 stays what it is: for ever."""
    return milliseconds / 1000 if milliseconds >= 0 else -1
