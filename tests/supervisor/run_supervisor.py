"""A supervisor in a process of its own, over fake parts. Its arguments: FOLDER, then NAME:START:STOP[:WAY…] each."""

import sys
import uuid
from pathlib import Path

from penstock.child import RUN_VARIABLE, Command
from penstock.supervisor.part import Part, says_ready
from penstock.supervisor.rundir import RunDirectory
from penstock.supervisor.supervise import Event, Patience, Supervisor

folder = Path(sys.argv[1])
run_id = uuid.uuid4().hex


def part_of(description: str) -> Part:
    name, start, stop, *ways = description.split(":")
    ready = folder / f"{name}.ready"
    log = folder / "logs" / f"{name}.log"
    fake = str(Path(__file__).with_name("fake_part.py"))
    return Part(
        command=Command(name, [sys.executable, fake, name, str(folder), *ways], log, {RUN_VARIABLE: run_id}),
        is_ready=lambda pid: says_ready(ready, pid),
        log=log,
        start_rank=int(start),
        stop_rank=int(stop),
        patience_seconds=1.0,
        ready_file=ready,
    )


def show(event: Event) -> None:
    with (folder / "events").open("a") as events:
        events.write(f"{event.kind} {event.part} {event.text}".replace("\n", " | ") + "\n")


directory = RunDirectory(folder / "data")
with directory.claim():
    directory.end_leftovers()
    patience = Patience(deaths=3) if "--patience" in sys.argv else Patience()
    parts = [part_of(text) for text in sys.argv[2:] if text != "--patience"]
    Supervisor(parts, directory, run_id, show, {}).run(patience)
