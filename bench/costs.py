"""What traces cost: systems that differ in one setting, under the same load in turns, so that a slow phase of the
machine meets all of them; ``targets.py`` compares the runs of a round.

The system without is there twice: what its two copies differ by is what the machine does, not what tracing costs.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import AGAIN, WITH_TRACES, WITHOUT_TRACES
from bench.profile import Profile
from bench.system import System, SystemFailed, broker, trigger

NAME = "costs"
TRIGGERS = 10
TRACED_SHARE = 0.01
STEADY_RATE = 500.0


def _offers(profile: Profile) -> tuple[Offer, Offer]:
    """All that it can take, for events a second, and a steady rate, at which processor time is steadier too."""
    full = Offer(seconds=profile.full_seconds, events=profile.full_events_ten // 3)
    return full, Offer(STEADY_RATE, profile.cost_seconds)


def traces(bench: Bench) -> None:
    """One event in a hundred with all its spans, against none; the rest pays for being looked at."""
    with _collector() as url:
        traced = {
            "PENSTOCK_TRACE_EXPORTER": "otlp",
            "PENSTOCK_TRACE_SAMPLING": str(TRACED_SHARE),
            "PENSTOCK_TRACE_ENDPOINT": url,
        }
        off = {"PENSTOCK_TRACE_EXPORTER": "none"}
        in_turns(bench, {WITHOUT_TRACES: off, WITH_TRACES: traced, WITHOUT_TRACES + AGAIN: off})


@contextmanager
def _collector() -> Iterator[str]:
    """Takes spans and forgets them, in this process, whose time is not counted."""
    taken = 0

    class Taking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal taken
            taken += len(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, name="collector", daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()
    if not taken:
        raise SystemFailed("no span has come to the collector")


def in_turns(bench: Bench, ways: Mapping[str, Mapping[str, str]], triggers: int = TRIGGERS) -> None:
    """By the name of a way, the environment of its system. Every way gets each load as often as the others. Who is
    first changes with every round."""
    with ExitStack() as stack:
        benches, arrangements = {}, {}
        for way, environment in ways.items():
            with bench.step(f"penstock up, {way}"):
                system = stack.enter_context(System(bench.system.keep, environment))
                benches[way] = replace(bench, system=system)
                arrangements[way] = _arranged(benches[way], way, triggers)
        for way, arrangement in arrangements.items():
            benches[way].last_run = bench.last_run = bench.last_run + 2
            warm_up(benches[way], arrangement, bench.profile.warm_seconds / 2)
        for number in range(bench.profile.cost_rounds):
            order = list(arrangements.items())
            first = number % len(order)
            for offer in _offers(bench.profile):
                for way, arrangement in order[first:] + order[:first]:
                    benches[way].last_run = bench.next_run()
                    measure(benches[way], arrangement, offer)


def _arranged(bench: Bench, way: str, triggers: int) -> Arrangement:
    resources = [trigger(f"{NAME}-{n}", NAME, bench.sink.url(n)) for n in range(triggers)]
    bench.system.apply(broker(NAME), *resources)
    return Arrangement(way, triggers, bench.system.address(NAME))
