"""``spec.delivery`` as the contract says it: seconds instead of ISO 8601, a URL instead of a destination; and what
annotations say besides."""

from collections.abc import Mapping
from typing import Any

from penstock.contract.model import Delivery
from penstock.control import names
from penstock.control.durations import seconds_of


def chosen(trigger_delivery: dict[str, Any] | None, broker_delivery: dict[str, Any] | None) -> dict[str, Any]:
    """A trigger with any delivery setting ignores the broker's."""
    return trigger_delivery or broker_delivery or {}


def as_contract(delivery: dict[str, Any], dead_letter_url: str | None, notes: Mapping[str, str]) -> Delivery:
    defaults = Delivery()
    return Delivery(
        retry=delivery.get("retry") or 0,
        backoff_policy=delivery.get("backoffPolicy") or defaults.backoff_policy,
        backoff_delay_seconds=_seconds(delivery.get("backoffDelay"), defaults.backoff_delay_seconds),
        timeout_seconds=_seconds(delivery.get("timeout"), defaults.timeout_seconds),
        retry_after_max_seconds=seconds_of(delivery["retryAfterMax"]) if delivery.get("retryAfterMax") else None,
        dead_letter_url=dead_letter_url,
        format=delivery.get("format") or defaults.format,
        batch=int(notes.get(names.BATCH, defaults.batch)),
        batch_wait_seconds=_seconds(notes.get(names.BATCH_WAIT), defaults.batch_wait_seconds),
        max_in_flight=int(notes.get(names.MAX_IN_FLIGHT, defaults.max_in_flight)),
        events_per_second=float(notes.get(names.MAX_RATE, defaults.events_per_second)),
        signing_secret=notes.get(names.SIGNING_SECRET, ""),
    )


def _seconds(text: str | None, default: float) -> float:
    return default if text is None else seconds_of(text)
