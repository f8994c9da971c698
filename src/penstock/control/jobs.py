"""Work that takes a while, in the background: a plan, a run, its progress, a cancel. Dead letters are sent so.

In: what to send, how fast, and how long to wait before (within that time it can be undone). Out: jobs as the API
shows them. They live in memory: after a restart of the controller the list is empty, and who starts the same again
goes on where it ended, since what was sent is marked.

    waiting ──▶ running ──▶ done
       └───────────┴──▶ cancelled        running ──▶ failed
"""

import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.contract.moments import iso
from penstock.control.dead_letters import Wanted
from penstock.control.redrive import Redriver, plan
from penstock.control.world import World
from penstock.errors import PenstockError, Rejected
from penstock.kafka.dead_letter_index import Indexed
from penstock.kafka.dead_letters import DeadLetters

logger = logging.getLogger("penstock.control")

State = Literal["waiting", "running", "done", "cancelled", "failed"]

MOST_KEPT = 100  # of those that have ended
MOST_ACTIVE = 20
LARGEST_BATCH = 500
BATCHES_PER_SECOND = 4  # when a rate is given


@dataclass
class Job:
    id: str
    letters: tuple[Indexed, ...]  # none when it has ended
    plan: dict[str, Any]  # as it is shown
    problems: list[dict[str, str]]
    rate: float
    created: float
    starts: float  # seconds since the epoch; until then it can be undone
    state: State = "waiting"
    sent: int = 0
    passed_by: int = 0  # sent by somebody else meanwhile, or taken by retention
    started: float = 0.0
    ended: float = 0.0
    event_time: float = 0.0  # how far it has come, as the time at which the last one had failed
    error: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def is_active(self) -> bool:
        return self.state in ("waiting", "running")

    @property
    def total(self) -> int:
        return int(self.plan["count"])

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": "redrive",
            "state": self.state,
            "plan": self.plan,
            "sent": self.sent,
            "passed_by": self.passed_by,
            "problems": self.problems,
            "event_time": _time(self.event_time),
            "created": _time(self.created),
            "starts": _time(self.starts),
            "started": _time(self.started),
            "ended": _time(self.ended),
            "error": self.error or None,
        }


class Jobs:
    def __init__(self, world: World) -> None:
        self.redriver = Redriver(world)
        self._world = world
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}  # in the order in which they were started

    def start(self, wanted: Wanted, rate: float, delay_seconds: float = 0.0) -> dict[str, Any]:
        """Raises Rejected when there is nothing to send, or too much is going on."""
        now, planned = time.time(), plan(self._world, wanted, rate)
        name = secrets.token_hex(4)
        job = Job(name, planned.letters, planned.shown, planned.problems, rate, now, now + delay_seconds)
        with self._lock:
            if sum(each.is_active for each in self._jobs.values()) >= MOST_ACTIVE:
                raise Rejected(
                    f"{MOST_ACTIVE} jobs are running", hint="`penstock jobs` shows them; wait, or cancel one"
                )
            self._forget_oldest()
            self._jobs[job.id] = job
        threading.Thread(target=self._run, args=(job,), name=f"job-{job.id}", daemon=True).start()
        return job.shown

    def list(self) -> list[dict[str, Any]]:
        """The newest first."""
        with self._lock:
            return [each.shown for each in reversed(self._jobs.values())]

    def get(self, id_: str) -> dict[str, Any] | None:
        with self._lock:
            job = self._jobs.get(id_)
        return job.shown if job is not None else None

    def cancel(self, id_: str) -> dict[str, Any] | None:
        """What has been sent stays sent. One that has ended is not changed."""
        with self._lock:
            job = self._jobs.get(id_)
        if job is None:
            return None
        job.cancelled.set()
        if job.state == "waiting":
            self._end(job, "cancelled")
        return job.shown

    def stop(self) -> None:
        with self._lock:
            for job in self._jobs.values():
                job.cancelled.set()

    # ── the thread of a job ───────────────────────────────────────────────────────────────────────

    def _run(self, job: Job) -> None:
        if job.cancelled.wait(max(0.0, job.starts - time.time())):
            self._end(job, "cancelled")
            return
        job.started, job.state = time.time(), "running"
        try:
            self._send(job)
        except PenstockError as error:
            job.error = error.message
        except Exception as error:
            logger.exception("job %s failed", job.id)
            job.error = f"{type(error).__name__}: {error}"
        self._end(job, "failed" if job.error else "cancelled" if self._is_cut_short(job) else "done")

    def _send(self, job: Job) -> None:
        rate, begun, handled = job.rate, time.monotonic(), 0
        letters = DeadLetters(self._world.connection)
        size = max(1, min(LARGEST_BATCH, round(rate / BATCHES_PER_SECOND))) if rate else LARGEST_BATCH
        for batch in self.redriver.batches(job.letters, size):
            if job.cancelled.is_set():
                return
            sent = self.redriver.send(batch, letters)
            handled += len(batch)
            job.sent += sent
            job.passed_by += len(batch) - sent
            job.event_time = max(each.time for each in batch)
            if rate and handled < job.total:
                job.cancelled.wait(max(0.0, begun + handled / rate - time.monotonic()))
        job.passed_by = job.total - job.sent

    def _is_cut_short(self, job: Job) -> bool:
        return job.cancelled.is_set() and job.sent + job.passed_by < job.total

    def _end(self, job: Job, state: State) -> None:
        with self._lock:
            if job.is_active:
                job.state, job.ended, job.letters = state, time.time(), ()
        logger.info("job %s is %s: %d of %d sent again", job.id, job.state, job.sent, job.total)

    def _forget_oldest(self) -> None:
        ended = [each.id for each in self._jobs.values() if not each.is_active]
        for id_ in ended[: max(0, len(ended) - MOST_KEPT + 1)]:
            del self._jobs[id_]


def _time(seconds: float) -> str | None:
    return iso(seconds) if seconds else None
