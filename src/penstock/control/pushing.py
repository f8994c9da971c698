"""A thread that sends all metrics to an OTLP collector again and again, if the settings name one.

The controller alone does it: it knows what all processes count.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from penstock.control.settings import ControllerSettings
from penstock.errors import Misconfigured
from penstock.telemetry.exposition import Sample

logger = logging.getLogger("penstock.control")

LEAST_SECONDS = 1.0


class Pushing:
    """Made only when there is a collector: OpenTelemetry takes a while to import."""

    def __init__(self, settings: ControllerSettings, samples: Callable[[float], Iterable[Sample]]) -> None:
        from penstock.telemetry.otlp import Push

        if settings.otlp_interval_seconds < LEAST_SECONDS:
            raise Misconfigured(f"otlp_interval_seconds is less than {LEAST_SECONDS:g}", hint="15 is usual")
        self._push = Push(settings.otlp_endpoint, time.time())
        self._endpoint = settings.otlp_endpoint
        self._every = settings.otlp_interval_seconds
        self._samples = samples
        self._is_well = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> "Pushing":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        self._push.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            try:
                now = time.time()
                is_taken = self._push.send(self._samples(now), now)
            except Exception:
                logger.exception("the metrics could not be sent")
                continue
            if is_taken != self._is_well:
                self._is_well = is_taken
                words = "takes metrics again" if is_taken else "does not take metrics; it is tried again"
                logger.log(logging.INFO if is_taken else logging.WARNING, "%s %s", self._endpoint, words)
