"""Whether Kafka takes events right now, so that senders are refused at once while it does not.

    taken ──a delivery failed, or all brokers are down──▶ refused ──Kafka answers a probe──▶ on trial
      ▲                                                      ▲                                  │ one event
      └──────────────────── it was acknowledged ─────────────┼──────────────────────────────────┤ goes through
                                                             └───────── it was not ─────────────┘

Kept per cluster and topic: one that was deleted, or has lost its replicas, is no reason to refuse events for the
others.
Everything here runs on the event loop; only the probe itself goes to a thread, since it blocks.
"""

import asyncio
import logging
import time
from collections.abc import Callable

logger = logging.getLogger("penstock.receiver")

Probe = Callable[[], frozenset[str]]  # the topics that have a leader; raises or is empty when Kafka is away

PROBE_SECONDS = 0.25
FORGET_SECONDS = 30.0


class _Suspension:
    __slots__ = ("asked", "reason", "trial")

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.trial = False
        self.asked = time.monotonic()


class Health:
    """What is known about the willingness of one Kafka, by topic. ``label``: which, if it is not the one at home."""

    def __init__(self, probe: Probe, label: str = "") -> None:
        self._probe = probe
        self._label = label or "Kafka"
        self._where = f" of {label}" if label else ""
        self._away: str | None = None
        self._suspended: dict[str, _Suspension] = {}
        self._probing: asyncio.Task[None] | None = None
        self._is_stopped = False

    def refuses(self, topic: str) -> str | None:
        """The reason not to send an event to this topic now, or None. Uses up the trial if there is one."""
        if self._away is not None:
            return self._away
        if not self._suspended:
            return None
        suspension = self._suspended.get(topic)
        if suspension is None:
            return None
        suspension.asked = time.monotonic()
        if suspension.trial:
            suspension.trial = False
            return None
        return suspension.reason

    def acknowledged(self, topic: str) -> None:
        if self._suspended and self._suspended.pop(topic, None) is not None:
            logger.info("topic %s%s takes events again", topic, self._where)

    def failed(self, topic: str, reason: str) -> None:
        if topic not in self._suspended:
            logger.warning("topic %s%s takes no events: %s", topic, self._where, reason)
        self._suspended[topic] = _Suspension(reason)
        self._start_probing()

    def lost_all_brokers(self, reason: str) -> None:
        if self._away is None:
            logger.warning("%s is away: %s", self._label, reason)
        self._away = reason
        self._start_probing()

    def stop(self) -> None:
        self._is_stopped = True
        if self._probing is not None:
            self._probing.cancel()

    def _start_probing(self) -> None:
        if not self._is_stopped and (self._probing is None or self._probing.done()):
            self._probing = asyncio.get_running_loop().create_task(self._until_well())

    async def _until_well(self) -> None:
        while self._away is not None or self._suspended:
            try:
                self._saw(await asyncio.to_thread(self._probe))
            except Exception as error:
                logger.debug("probe: %s", error)
            await asyncio.sleep(PROBE_SECONDS)

    def _saw(self, led_topics: frozenset[str]) -> None:
        if not led_topics:
            return
        if self._away is not None:
            logger.info("%s is back", self._label)
            self._away = None
        now = time.monotonic()
        for topic, suspension in list(self._suspended.items()):
            if topic in led_topics:
                suspension.trial = True
            if now - suspension.asked > FORGET_SECONDS:
                del self._suspended[topic]
