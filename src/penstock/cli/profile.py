"""``penstock profile``: where a running process spends its time, as a flame graph.

Python processes are sampled from outside (py-spy); Java's by its own recorder (Flight Recorder, through jcmd).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.output import say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.supervisor.processes import Process

PARTS = ("receiver", "dispatcher", "worker", "controller", "kafka")
SAMPLES = "jdk.ExecutionSample,jdk.NativeMethodSample"
WAITING_NATIVE = (  # methods in which a thread waits for the kernel
    *("epollWait", "epollWait0", "EPoll.wait", "accept", "accept0", "poll0"),
    *("socketRead0", "SocketDispatcher.read0", "FileInputStream.readBytes", "waitForProcessExit0"),
)
SLACK_SECONDS = 20.0  # beside the recording itself


def profile(
    part: Annotated[str, typer.Argument(help=f"{', '.join(PARTS)}.", metavar="PART")],
    seconds: Annotated[float, typer.Option(help="How long to look.", metavar="SECONDS")] = 10.0,
    out: Annotated[
        str, typer.Option("--out", help="The graph; PART-TIME.svg when not given.", metavar="FILE.svg")
    ] = "",
    jvm: Annotated[
        bool, typer.Option("--jvm", help="Of the dispatcher: Spark's Java instead of its Python.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="path or json.", metavar="FORMAT")] = "path",
    data_dir: options.DataDir = ".penstock",
) -> None:
    """Records a running process for some seconds and writes a flame graph.

    \b
    penstock profile receiver
    penstock profile worker --seconds 30 --out worker.svg
    penstock profile dispatcher --jvm

    worker is the Python worker that is busiest now. The process goes on meanwhile, a little slower.
    """
    options.checked(output, "path", "json")
    _check(part, seconds, jvm)
    process = _chosen(part, Path(data_dir).expanduser().absolute(), is_java=jvm or part == "kafka")
    path = Path(out or f"{part}-{time.strftime('%Y%m%d-%H%M%S')}.svg").expanduser().absolute()
    record = _record_java if process.is_java else _record_python
    record(process, seconds, path)
    if output == "json":
        show_json({"path": str(path), "part": process.part, "pid": process.pid, "seconds": seconds})
    else:
        show(str(path))


def _check(part: str, seconds: float, jvm: bool) -> None:
    from penstock.control.kinds import nearest
    from penstock.errors import Misused

    if part not in PARTS:
        near = nearest(part, PARTS)
        raise Misused(
            f'there is no part "{part}"', hint=f"did you mean {near}?" if near else f"known are {', '.join(PARTS)}"
        )
    if jvm and part not in ("dispatcher", "kafka"):
        raise Misused(f"{part} has no Java in it", hint="penstock profile dispatcher --jvm")
    if not 0.5 <= seconds <= 3600:
        raise Misused("--seconds is a number from 0.5 to 3600", hint="penstock profile receiver --seconds 10")


def _chosen(part: str, data_dir: Path, *, is_java: bool) -> "Process":
    from penstock.errors import Unavailable
    from penstock.supervisor.processes import busiest, processes
    from penstock.supervisor.rundir import RunDirectory

    all_of_them = processes(RunDirectory(data_dir))
    name = "spark" if part == "dispatcher" and is_java else part
    found = [each for each in all_of_them if each.part == name and each.is_java == is_java]
    if found:
        return busiest(found)
    if not all_of_them:
        raise Unavailable(
            f"nothing runs in {data_dir}",
            hint="--data-dir or PENSTOCK_DATA_DIR names the directory that `up` was given",
        )
    if part == "worker":
        raise Unavailable(
            "there is no Python worker now: topics without events have none", hint="send some events, and try again"
        )
    raise Unavailable(
        f"{part} does not run here (a Kafka of your own is not looked into)"
        if part == "kafka"
        else f"{part} does not run now",
        hint="`penstock status` shows what runs",
    )


def _record_python(process: "Process", seconds: float, path: Path) -> None:
    from penstock.access.private_files import keep_private
    from penstock.cli import dumps
    from penstock.errors import Unavailable

    command = [dumps.py_spy(), "record", "--pid", str(process.pid), "--duration", str(max(1, round(seconds))),
               "--output", str(path), "--format", "flamegraph", "--rate", "200"]  # fmt: skip
    _require_writable(path)
    keep_private()  # only the owner may read code paths and names
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        try:
            with _bar(f"recording {process.part} (pid {process.pid})", seconds) as advance:
                advance(lambda: running.poll() is not None)
            code = running.wait(seconds + SLACK_SECONDS)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"py-spy did not end {SLACK_SECONDS:g} s after its time") from None
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
        said.seek(0)
        told = said.read()
    if "No stack counts found" in told:
        path.write_text(_nothing(process))
        say(f"{process.part} did nothing in these {seconds:g} s")
    elif code != 0 or not path.exists():
        raise dumps.explained("record", told)


def _record_java(process: "Process", seconds: float, path: Path) -> None:
    from penstock.access.private_files import keep_private
    from penstock.cli import dumps, flame

    name = f"penstock-{os.getpid()}"  # somebody else may be recording too
    dumps.java_tool(process.pid, "jcmd")
    reader = dumps.java_tool(process.pid, "jfr")
    _require_writable(path)
    keep_private()
    with tempfile.TemporaryDirectory(prefix="penstock-profile-") as folder:
        recorded = Path(folder, "recorded.jfr")
        dumps.jcmd(process.pid, "JFR.start", f"name={name}", "settings=profile")
        try:
            with _bar(f"recording {process.part} (pid {process.pid})", seconds) as advance:
                advance(lambda: False)
        finally:
            said = dumps.jcmd(process.pid, "JFR.stop", f"name={name}", f"filename={recorded}", seconds=60)
        if not recorded.exists():
            raise dumps.explained("JFR.stop", said)
        stacks = _stacks(_printed(reader, recorded))
    path.write_text(flame.svg(f"{process.part} (pid {process.pid}), {seconds:g} s", stacks))
    if not stacks:
        say(f"{process.part} did nothing in these {seconds:g} s")


def _printed(reader: Path, recorded: Path) -> Any:
    from penstock.errors import Unavailable

    answer = subprocess.run(
        [str(reader), "print", "--json", "--stack-depth", "64", "--events", SAMPLES, str(recorded)],
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if answer.returncode != 0:
        raise Unavailable(f"jfr could not read the recording: {answer.stderr.strip()[:200]}")
    return json.loads(answer.stdout)


def _stacks(recording: Any) -> "Counter[tuple[str, ...]]":
    """Stacks of threads that work; those that wait inside the kernel are left out."""
    found: Counter[tuple[str, ...]] = Counter()
    for event in recording["recording"]["events"]:
        trace = event["values"].get("stackTrace")
        frames = [_frame(each) for each in (trace or {}).get("frames", [])]
        if frames and not frames[0].endswith(WAITING_NATIVE):
            thread = (event["values"].get("sampledThread") or {}).get("javaName") or "a thread"
            found[(str(thread), *reversed(frames))] += 1
    return found


def _frame(frame: Any) -> str:
    method = frame["method"]
    owner = str((method.get("type") or {}).get("name") or "").replace("/", ".")
    return f"{owner}.{method['name']}" if owner else str(method["name"])


def _require_writable(path: Path) -> None:
    from penstock.errors import Misused

    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise Misused(f"--out {path} is no file that can be written", hint="penstock profile receiver --out x.svg")


def _nothing(process: "Process") -> str:
    from penstock.cli import flame

    return flame.svg(f"{process.part} (pid {process.pid})", {})


@contextmanager
def _bar(title: str, seconds: float) -> "Iterator[Any]":
    """Gives a function that waits until the time is over, or until it is told that all has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, quiet=not sys.stderr.isatty()), transient=True) as bars:
        task = bars.add_task(title, total=seconds)

        def wait(has_ended: Any) -> None:
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds and not has_ended():
                bars.update(task, completed=passed)
                time.sleep(0.1)

        yield wait
