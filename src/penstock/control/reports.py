"""What the dispatcher says about itself, read from the report topic.

Used by the reconciling of triggers and by the status page.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.contract.model import (
    GONE,
    HEARTBEAT,
    QUERY,
    REPORT_TOPIC,
    Gone,
    QueryReport,
    decode_gone,
    decode_report,
)
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table, put


@dataclass(frozen=True)
class DispatcherState:
    state: str
    reason: str
    is_alive: bool


class Reports:
    """``on_query(place)`` is called when what is said about the query of a topic changes."""

    def __init__(self, connection: KafkaConnection, stale_seconds: float, on_query: Callable[[str], None]) -> None:
        self._stale_seconds = stale_seconds
        self._on_query = on_query
        self._heard: float | None = None  # by this machine's monotonic clock: clocks of hosts may differ
        self._started_at = time.monotonic()
        self._queries: dict[str, QueryReport] = {}
        self._heartbeat: dict[str, Any] = {}
        self._gone: dict[str, Gone] = {}
        self._connection = connection
        self._table = Table(connection, REPORT_TOPIC, self._take)
        self.follower = self._table.follower

    def start(self) -> None:
        self._table.start()
        self._table.wait_until_current()

    def stop(self) -> None:
        self._table.stop()

    def query(self, place: str) -> QueryReport | None:
        return self._queries.get(place)

    def queries(self) -> list[QueryReport]:
        return [report for _, report in sorted(self._queries.items())]

    def gone(self, uid: str) -> Gone | None:
        """What is known of a subscriber that has answered 410."""
        return self._gone.get(uid)

    def forget_gone(self, uid: str) -> None:
        """It is not true any more: another address, somebody resumed it, or the trigger is deleted."""
        if self._gone.pop(uid, None) is not None:
            put(self._connection.lasting_producer(), REPORT_TOPIC, GONE + uid, None)

    def serves(self, uid: str) -> bool:
        """Whether a living dispatcher still delivers to this subscription."""
        return self.may_live() and any(uid in report.subscriptions for report in list(self._queries.values()))

    def may_live(self) -> bool:
        """Not surely dead: what has just been read may be old, so a while is given for the next sign of life."""
        since = self._started_at if self._heard is None else self._heard
        return bool(self._heartbeat) and time.monotonic() - since <= self._stale_seconds

    def dispatcher(self) -> DispatcherState:
        if not self._heartbeat:
            return DispatcherState("absent", "no dispatcher has reported yet", False)
        if self._heard is None:
            return DispatcherState("unknown", "its last report is of an unknown age", False)
        silent = time.monotonic() - self._heard
        if silent > self._stale_seconds:
            return DispatcherState("not answering", f"no report for {silent:.0f} s", False)
        state = str(self._heartbeat.get("state", "running"))
        return DispatcherState(state, str(self._heartbeat.get("reason", "")), True)

    def dispatcher_url(self) -> str:
        """Where a living dispatcher answers questions; empty: nowhere."""
        return str(self._heartbeat.get("url") or "") if self.may_live() else ""

    def delivery_window(self) -> int:
        """Requests at once for a subscription and partition, as the dispatcher is set; 0: not known."""
        return int(self._heartbeat.get("delivery_window") or 0)

    def _take_gone(self, uid: str, value: bytes | None) -> None:
        if value is None:
            self._gone.pop(uid, None)
        else:
            self._gone[uid] = decode_gone(value)
            self._on_query(self._gone[uid].topic)

    def _take(self, key: str, value: bytes | None) -> None:
        if key == HEARTBEAT:
            found = json.loads(value) if value else {}
            if not isinstance(found, dict) or not isinstance(found.get("delivery_window", 0), int):
                raise ValueError("this is not a heartbeat of the dispatcher")
            self._heartbeat = found
            # What was in the topic before we came may be old; only what comes from now on shows life.
            self._heard = time.monotonic() if self._table.is_current else None
        elif key.startswith(GONE):
            self._take_gone(key.removeprefix(GONE), value)
        elif key.startswith(QUERY):
            topic = key.removeprefix(QUERY)
            before = self._queries.get(topic)
            if value is None:
                self._queries.pop(topic, None)
            else:
                self._queries[topic] = decode_report(value)
            if self._queries.get(topic) != before:
                self._on_query(topic)
