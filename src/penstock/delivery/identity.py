"""Which event a row is: its id, source and type, for logs and traces. Pure; needed only when something is said."""

from collections.abc import Mapping
from typing import Any

from penstock.contract.model import Subscription
from penstock.delivery.dress import Dress
from penstock.delivery.forms import event_of
from penstock.delivery.row import Row
from penstock.telemetry.logs import FIELDS

PARTITION = "knativekafkapartition"


def attributes_of(row: Row, dress: Dress | None = None) -> Mapping[str, str]:
    """Those of the event; the row of one that must not be touched knows only where it stands."""
    return event_of(row if dress is None else dress.event(row)).attributes


def subscription_label(of: Subscription) -> str:
    """As ``penstock logs --subscription`` and traces name it."""
    return f"{of.kind}/{of.namespace}/{of.name}"


def fields_of(of: Subscription, offset: int, row: Row | None = None, dress: Dress | None = None) -> dict[str, Any]:
    """What a line of the log is about: the same fields wherever something is said about an event."""
    place: dict[str, Any] = {"topic": of.topic, "offset": offset, "subscription": subscription_label(of)}
    if row is None:
        return place
    attributes = attributes_of(row, dress)
    named = {"event": "id", "source": "source", "type": "type", "partition": PARTITION}
    found = {field: attributes[name] for field, name in named.items() if name in attributes} | place
    return {field: found[field] for field in FIELDS if field in found}
