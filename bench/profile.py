"""How long and how much: the whole benchmark, and the quick look at it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Full load is bounded by a number of events, so that the drain after it is bounded too."""

    rates: tuple[float, ...] = (200.0, 1000.0)
    generator_seconds: float = 4.0
    settle_seconds: float = 30.0  # a virtual machine goes on compiling for a while after its last work
    idle_seconds: float = 15.0
    burst_events: int = 40_000
    warm_seconds: float = 90.0  # until the compilers of both virtual machines are done
    steady_seconds: float = 15.0
    baseline_seconds: float = 8.0
    full_seconds: float = 12.0
    full_events_one: int = 60_000
    full_events_ten: int = 15_000
    backlog_events: int = 250_000
    hanging_seconds: float = 60.0
    hour_events: int = 360_000
    hour_seconds: float = 150.0
    idle_brokers: int = 100
    many_triggers: int = 500
    many_channels: int = 50
    cost_rounds: int = 12
    switch_turns: int = 120
    switch_seconds: float = 2.0
    cost_seconds: float = 6.0
    telling_turns: int = 160  # even
    consumer_events_one: int = 12_000
    consumer_events_ten: int = 1_500


WHOLE = Profile()
QUICK = Profile(
    rates=(1000.0,),
    generator_seconds=2.0,
    settle_seconds=1.0,
    idle_seconds=3.0,
    burst_events=4_000,
    warm_seconds=4.0,
    steady_seconds=4.0,
    baseline_seconds=2.0,
    full_seconds=4.0,
    full_events_one=10_000,
    full_events_ten=2_000,
    backlog_events=30_000,
    hanging_seconds=20.0,
    hour_events=10_000,
    hour_seconds=10.0,
    idle_brokers=10,
    many_triggers=50,
    many_channels=5,
    cost_rounds=2,
    switch_turns=8,
    cost_seconds=3.0,
    telling_turns=20,
    consumer_events_one=3_000,
    consumer_events_ten=300,
)
