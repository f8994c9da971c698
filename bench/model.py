"""What the benchmark finds out, as values: they become the table and, as they are, the JSON file."""

import msgspec

from bench.latency import Latency

PENSTOCK = "penstock"
CONSUMER = "simple consumer"
KAFKA = "kafka alone"
INGRESS = "ingress alone"
GENERATOR = "generator to bare sink"
TEN_TERMS = "ten CESQL terms"
EXACT_1000 = "1,000 exact filters"
CESQL_100 = "100 CESQL filters"
BROKER_WAY = "broker, ordered"
CHANNEL_WAY = "channel"
UNDISTURBED = "nine and a tenth that is well"
BESIDE_HANGING = "nine and a tenth that hangs"
HOUR_BEFORE = "three and a fourth that is well"
HOUR_MEANWHILE = "three and a fourth that is down"
HOUR_AFTER = "three and a fourth that catches up"
SHOWN = "as shown"
WITH_TRACES = "1 % traced"
WITHOUT_TRACES = "nothing traced"
AGAIN = ", again"  # like the one of that name in everything
FULL = "full"
UNORDERED, BATCHES = "unordered", "batches of 100"  # backlogs
ORDINARY = ", to an ordinary service"


def without(scenario: str) -> str:
    """The baseline of a filter scenario: one trigger without a filter, measured in turns with it."""
    return f"no filter beside {scenario}"


class Memory(msgspec.Struct, frozen=True):
    """Of one group of processes, in MB: resident counts shared pages in every process, proportional shares them."""

    processes: int
    resident: float
    proportional: float
    largest: float  # resident, of the largest single process


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One load on one arrangement."""

    scenario: str
    triggers: int
    load: str  # "200/s", "1000/s" or "full"
    sent: int
    acknowledged: int
    codes: dict[str, int]
    ingress: Latency  # until acknowledged
    whole_way: Latency = Latency()  # until the subscriber has it
    acknowledged_per_second: float
    deliveries: int = 0
    duplicates: int = 0
    missing: int = 0
    events_per_second: float = 0.0  # the whole way: events / (last arrival - first send)
    deliveries_per_second: float = 0.0
    drain_seconds: float = 0.0  # from the last acknowledgement to the last arrival
    generator_lag_p99: float = 0.0  # milliseconds
    cpu_us_per_event: dict[str, float] = {}  # by group of processes
    memory: dict[str, Memory] = {}


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of ``up`` while nothing happens."""

    when: str
    seconds: float
    core_percent: float
    core_percent_by_group: dict[str, float]
    resident: float
    proportional: float
    memory: dict[str, Memory]


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """A backlog that one trigger got from its first event to its last."""

    variant: str
    events: int
    duplicates: int
    seconds: float  # from the first arrival to the last
    events_per_second: float


class IdleBrokers(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that nobody uses: what the dispatcher costs, and how long their first event takes."""

    brokers: int
    core_percent: float
    megabytes: float  # proportional, of the dispatcher with its workers
    first_event_ms: list[float]
    later_event_ms: float


class Hour(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an hour of traffic for a subscriber that was down meanwhile."""

    events: int
    missing: int
    out_of_order: int
    twice: int
    drain_seconds: float  # from its return to the last event


class Many(msgspec.Struct, frozen=True, kw_only=True):
    """Many resources applied at once."""

    triggers: int
    channels: int
    apply_seconds: float  # until the command has ended
    ready_seconds: float  # from its beginning until all were ready
    controller_megabytes: float  # resident, afterwards


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What Penstock shows of itself, and what generator and sink have counted. Latencies in milliseconds."""

    rate: float  # of the events that were offered, in a second
    accepted_shown: int
    accepted_sent: int
    delivered_shown: int
    delivered_seen: int
    in_per_second_shown: float
    in_per_second_sent: float
    delivered_per_second_shown: float
    delivered_per_second_seen: float
    whole_way_mean_shown: float
    whole_way_mean_seen: float
    whole_way_p50_shown: float
    whole_way_p50_seen: float
    whole_way_p99_shown: float
    whole_way_p99_seen: float


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """How long it takes to say where an event is, among so many."""

    records: int
    first_seconds: float  # of a session that has not searched yet
    seconds: list[float]  # of the next ones


class Ratio(msgspec.Struct, frozen=True):
    """A figure of Penstock over the same figure of a baseline in the same run."""

    what: str
    penstock: float
    baseline: float
    ratio: float


class Target(msgspec.Struct, frozen=True):
    what: str
    target: str
    measured: float | None  # None: not part of this run
    met: bool | None


class Machine(msgspec.Struct, frozen=True):
    cores: int
    cpu: str
    memory_gb: float
    system: str
    versions: dict[str, str]


class Telling(msgspec.Struct, frozen=True):
    """Processor time of one delivering loop for a delivery, µs, without telemetry and with it."""

    without_us: float
    with_us: float
    ratio: float


class Turn(msgspec.Struct, frozen=True):
    """A few seconds of a closed loop, with telemetry or without."""

    is_on: bool
    events_per_second: float
    cpu_us_per_event: dict[str, float]  # by group of processes
    ends_us_per_event: float  # of generator and sink, whose work is always the same: how slow the machine was


class Compared(msgspec.Struct, frozen=True):
    """Turns with something over those without, neighbour by neighbour."""

    off: float
    on: float
    ratio: float
    error: float  # standard error of the ratio
    pairs: int


class Results(msgspec.Struct, kw_only=True):
    """All of one `make bench`; filled as it goes, so that a failure still shows what was measured."""

    date: str
    quick: bool
    machine: Machine
    up_seconds: float | None = None
    idle: list[Idle] = []
    runs: list[Run] = []
    change_seconds: list[float] = []  # until a change among 1,000 triggers was in force
    drains: list[Drain] = []
    hanging_worker_megabytes: float | None = None  # of all workers, at most, while one of ten subscribers hung
    hanging_estimate_megabytes: float | None = None  # by `penstock sizing`
    idle_brokers: IdleBrokers | None = None
    hour: Hour | None = None
    many: Many | None = None
    explained: list[Explained] = []
    truth: list[Truth] = []
    telling: Telling | None = None
    turns: list[Turn] = []
    ratios: list[Ratio] = []
    targets: list[Target] = []
    seconds: float = 0.0

    def find(self, scenario: str, triggers: int, load: str) -> Run | None:
        return next(
            (r for r in self.runs if (r.scenario, r.triggers, r.load) == (scenario, triggers, load)),
            None,
        )

    def events_per_second(self, scenario: str) -> float | None:
        """Under full load; of several runs, all their events over all their time."""
        runs = [r for r in self.runs if (r.scenario, r.load) == (scenario, FULL) and r.events_per_second]
        if not runs:
            return None
        seconds = sum(r.deliveries / r.deliveries_per_second for r in runs)
        return sum(r.deliveries / max(r.triggers, 1) for r in runs) / seconds

    def drain_rate(self, variant: str) -> float | None:
        """Events per second; of several turns, all their events over all their time."""
        turns = [each for each in self.drains if each.variant == variant]
        return sum(each.events for each in turns) / sum(each.seconds for each in turns) if turns else None
