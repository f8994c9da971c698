"""The controller's life: wait for Kafka, create the core topics, read what is stored, reconcile until stopped.

Made by ``serve.py``; the API asks it for the store and the lag. Starting happens in a thread of its own, so that
the admin port answers (not ready, and why) while Kafka is still away.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from penstock.access.addresses import AddressPolicy
from penstock.contract.model import (
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    DEAD_LETTERS_TOPIC,
    LEDGER_TOPIC,
    REPORT_TOPIC,
    RESOURCES_TOPIC,
)
from penstock.contract.telemetry import DELIVERIES_TOPIC, TELEMETRY_TOPIC
from penstock.control.agreements import Contract
from penstock.control.jobs import Jobs
from penstock.control.lag import LagReader
from penstock.control.limits import Limits
from penstock.control.metrics import samples, samples_of_parts
from penstock.control.observe import READING, Observer
from penstock.control.probe import Receiver
from penstock.control.pushing import Pushing
from penstock.control.reconcile import Reconciler, Work, backoff_seconds
from penstock.control.reports import Reports
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.control.store import KafkaStore, Listener, Store
from penstock.control.telemetry import Counts
from penstock.control.world import Ledger, World
from penstock.errors import PenstockError, Unavailable
from penstock.kafka import java_files
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection, home
from penstock.kafka.dead_letter_index import DeadLetterIndex
from penstock.kafka.groups import Groups
from penstock.kafka.ledger import StartPositions
from penstock.kafka.topics import COMPACTED, LOGGED, RECORDS, SHORT_LIVED, TopicSpec, create_missing
from penstock.telemetry.exposition import Sample

logger = logging.getLogger("penstock.control")

CORE_TOPICS = (CONTRACT_TOPIC, RESOURCES_TOPIC, LEDGER_TOPIC, CLAIMS_TOPIC, REPORT_TOPIC)


class Controller:
    def __init__(
        self,
        settings: ControllerSettings,
        on_change: Listener,
        ledger_at: Callable[[KafkaConnection], Ledger] = StartPositions,
    ) -> None:
        self.settings = settings
        self.waiting_for = "it has not begun"
        self._ledger_at = ledger_at
        self._on_change = on_change
        self._world: World | None = None
        self._lag: LagReader | None = None
        self._jobs: Jobs | None = None
        self._reconciler: Reconciler | None = None
        self._pushing = Pushing(settings, self._samples) if settings.otlp_endpoint else None
        self.observer = Observer(settings, self._running, lambda: self.waiting_for)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._start, name="controller-start", daemon=True)

    @property
    def is_ready(self) -> bool:
        return self._lag is not None

    @property
    def world(self) -> World:
        if self._world is None or self._lag is None:
            raise Unavailable(f"the controller is starting: {self.waiting_for}", hint="try again in a moment")
        return self._world

    @property
    def store(self) -> Store:
        return self.world.store

    @property
    def lag(self) -> LagReader:
        if self._lag is None:
            raise Unavailable(f"the controller is starting: {self.waiting_for}", hint="try again in a moment")
        return self._lag

    @property
    def jobs(self) -> Jobs:
        if self._jobs is None:
            raise Unavailable(f"the controller is starting: {self.waiting_for}", hint="try again in a moment")
        return self._jobs

    def start(self) -> None:
        self._thread.start()
        self.observer.start()
        if self._pushing is not None:
            self._pushing.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=2.0)
        if self._pushing is not None:
            self._pushing.stop()
        self.observer.stop()
        if self._reconciler is not None:
            self._reconciler.stop()
        if self._jobs is not None:
            self._jobs.stop()
        if self._world is not None:
            self._world.reports.stop()
            self._world.dead_letters.stop()
            self._world.groups.close()
            self._world.clusters.close()
            self._world.counts.stop()
            self._world.ledger.close()

    def _running(self) -> tuple[World, LagReader] | None:
        return None if self._world is None or self._lag is None else (self._world, self._lag)

    def _samples(self, now: float) -> Iterable[Sample]:
        sight = self.observer.sight
        return samples(self._world, sight, now) if self._world is not None else samples_of_parts(sight)

    def _start(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            try:
                self._begin()
                return
            except PenstockError as error:
                self.waiting_for = error.message
            except Exception as error:
                logger.exception("the controller could not begin")
                self.waiting_for = str(error)
            logger.warning("not started yet: %s", self.waiting_for)
            self._stopping.wait(backoff_seconds(attempt))
            attempt += 1

    def _begin(self) -> None:
        settings = self.settings
        connection = home(settings.bootstrap_servers, "penstock-controller", settings.kafka_secret_file)
        self.waiting_for = f"Kafka at {settings.bootstrap_servers}"
        connection.check()
        admin = connection.admin()
        copies = settings.core_replication_factor
        wanted = [TopicSpec(name, 1, copies, COMPACTED) for name in CORE_TOPICS]
        wanted.append(TopicSpec(TELEMETRY_TOPIC, 1, copies, SHORT_LIVED))
        wanted.append(TopicSpec(DEAD_LETTERS_TOPIC, 1, copies, RECORDS))
        wanted.append(TopicSpec(DELIVERIES_TOPIC, 1, copies, LOGGED))
        create_missing(admin, wanted)
        self.waiting_for = READING
        secrets = Secrets(settings.secrets_path)
        java_files.forget_orphans(settings.secrets_path)
        store, contract = KafkaStore(connection, secrets, Limits.of(settings)), Contract(connection)
        reports = Reports(connection, settings.dispatcher_stale_seconds, self._on_query)
        try:
            with ThreadPoolExecutor() as side_by_side:
                for done in [side_by_side.submit(read) for read in (store.load, contract.load, reports.start)]:
                    done.result()
        except BaseException:
            reports.stop()  # the next try makes another
            raise
        world = World(
            settings=settings,
            connection=connection,
            admin=admin,
            groups=Groups(connection),
            store=store,
            contract=contract,
            reports=reports,
            counts=Counts(connection, settings.metrics_subscriptions).start(),
            receiver=Receiver(settings.probe_url),
            ledger=self._ledger_at(connection),
            secrets=secrets,
            clusters=Clusters(connection, settings.secrets_path, AddressPolicy(settings.private_addresses)),
            dead_letters=DeadLetterIndex(connection).start(),
        )
        store.listen(self._on_change)
        store.listen(self.observer.note_change)
        self._world = world
        self._reconciler = Reconciler(world, Work())
        self._reconciler.start()
        self._jobs = Jobs(world)
        self._lag = LagReader(world)
        logger.info("controller ready: %d resources", len(store.list()))

    def _on_query(self, topic: str) -> None:
        if self._reconciler is not None:
            self._reconciler.on_query(topic)
