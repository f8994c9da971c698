"""The ``penstock`` command: the table of all commands, and how every one of them ends.

Errors are at most three lines on stderr (what failed and why, ``hint:``); a traceback only with ``--debug``.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some of several failed, 130 Ctrl-C; `wait` has one of its own.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError  # typer has no public names for wrong usage

from penstock import __version__
from penstock.child import RUN_VARIABLE
from penstock.cli.lazy import Entry, app_of
from penstock.cli.options import TOKEN_FILE
from penstock.cli.output import complain
from penstock.errors import Misused, PenstockError
from penstock.visible import visible

SYSTEM, RESOURCES, EVENTS, PARTS = "The system", "Resources", "Events", "The parts alone"

COMMANDS = (
    Entry("up", "up:up", "Start everything here: Kafka, controller, receiver and dispatcher.", SYSTEM),
    Entry("down", "down:down", "End what `up` started.", SYSTEM),
    Entry("status", "status:status", "How the system and its parts are.", SYSTEM),
    Entry("dashboard", "dashboard:dashboard", "A link that opens the dashboard in a browser, once.", SYSTEM),
    Entry("top", "top:top", "What flows, what waits and what fails, live.", SYSTEM),
    Entry("lag", "lag:lag", "How far behind each subscription is.", SYSTEM),
    Entry("logs", "logs:logs", "What all parts have said, merged by time.", SYSTEM),
    Entry("settings", "settings:settings", "The settings in force and where each came from.", SYSTEM),
    Entry("sizing", "sizing:sizing", "The memory that deliveries may take at most.", SYSTEM),
    Entry("fetch", "fetch:fetch", "Fetch what this machine lacks, so that nothing needs the network.", SYSTEM),
    Entry("must-gather", "must_gather:must_gather", "One file with everything that support needs.", SYSTEM),
    Entry("profile", "profile:profile", "Where a running process spends its time, as a flame graph.", SYSTEM),
    Entry("apply", "resources:apply", "Create or change resources from YAML.", RESOURCES),
    Entry("get", "resources:get", "List resources, or show one.", RESOURCES),
    Entry("describe", "resources:describe", "All about one resource, for reading.", RESOURCES),
    Entry("delete", "resources:delete", "Delete resources.", RESOURCES),
    Entry("wait", "resources:wait", "Wait until a resource is in a condition.", RESOURCES),
    Entry("pause", "pausing:pause", "Stop delivering to a subscriber for a while.", RESOURCES),
    Entry("resume", "pausing:resume", "Go on delivering where it was paused.", RESOURCES),
    Entry("send", "send:send", "Send events to a broker, a channel, a sink or a URL.", EVENTS),
    Entry("tail", "tail:tail", "Events of a broker or channel as they come.", EVENTS),
    Entry(
        "explain", "explain:explain", "Where an event is: who wanted it, why others did not, every attempt.", EVENTS
    ),
    Entry("cesql", "cesql:cesql", "Try a CESQL expression on an event.", EVENTS),
    Entry(
        "trigger", "trigger:trigger", "Try a trigger's filter on events; move a trigger to another position.", EVENTS
    ),
    Entry("deadletters", "deadletters:deadletters", "What was not delivered, and sending it once more.", EVENTS),
    Entry("jobs", "jobs:jobs", "Work in the background: how far it is, and cancelling it.", EVENTS),
    Entry("receiver", "receiver:receiver", "HTTP to Kafka.", PARTS),
    Entry("dispatcher", "dispatcher:dispatcher", "Kafka to subscribers, with Spark.", PARTS),
    Entry("controller", "controller:controller", "Resources, statuses and the admin API.", PARTS),
)

HELP = """CloudEvents in over HTTP, kept in Kafka, delivered to everybody who asked.

\b
penstock up --detach
penstock apply -f broker.yaml
penstock send broker/default --type order.created --source /shop
"""

app = app_of(COMMANDS, HELP)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")] = False,
    token_file: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_FILE, help="The file with the token of the admin API.", metavar="FILE"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    from penstock.access.private_files import keep_private
    from penstock.telemetry import logs

    if token_file:
        os.environ[TOKEN_FILE] = token_file
    is_part = any(entry.name == context.invoked_subcommand and entry.panel == PARTS for entry in COMMANDS)
    if is_part:
        keep_private()
    logs.configure(os.environ.get("PENSTOCK_LOG_LEVEL", "INFO" if is_part else "WARNING"), debug=debug)


def run(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the ``penstock`` command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_exit_code(_global_first(given)))


def _global_first(arguments: list[str]) -> list[str]:
    """``--debug`` and ``--token-file FILE`` may stand anywhere on the command line."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own: list[str] = []
    moved: list[str] = []
    rest = iter(arguments[:end])
    for each in rest:
        if each == "--debug":
            moved.insert(0, each)
        elif each.startswith("--token-file="):
            moved.append(each)
        elif each == "--token-file":
            moved += [each, *[value for value in [next(rest, None)] if value is not None]]
        else:
            own.append(each)
    return [*moved, *own, *arguments[end:]]


def _misused(error: ClickException, arguments: Sequence[str]) -> None:
    """Wrong usage in two lines, as any other error; a group of commands without one shows its help instead."""
    context = getattr(error, "ctx", None)
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    named = next((each for each in arguments if any(each == entry.name for entry in COMMANDS)), "")
    path = context.command_path if context is not None else f"penstock {named}".strip()
    message = " ".join(error.format_message().split())
    complain(Misused(message[:1].lower() + message[1:], hint=f"{path} --help"))


def _exit_code(arguments: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        result = command.main(args=arguments, prog_name="penstock", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except ClickException as error:
        _misused(error, arguments)
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has left
        return 1
    except Exception as error:
        if "--debug" in arguments[:1]:
            sys.stderr.write(visible(traceback.format_exc()))
            return 1
        if RUN_VARIABLE in os.environ and not isinstance(error, PenstockError):
            # into the log of a part, where somebody will look for it
            sys.stderr.write(visible(traceback.format_exc()))
        complain(error)
        return 2 if isinstance(error, Misused) else 1


if __name__ == "__main__":
    run()
