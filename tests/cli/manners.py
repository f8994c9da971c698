"""How each command is called to see its manners: one entry for every command that there is.

A command without an entry fails the test. ``{broker}``, ``{trigger}``, ``{letter}`` stand for what is there on a
filled system; on an empty one nothing has these names.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    arguments: tuple[str, ...] = ()
    stdin: str = ""
    empty: int = 0  # exit code where there is nothing
    filled: int = 0  # exit code where there is something
    json: str = "value"  # what -o json gives: one value, lines, or "" for a command without it
    has_json_flag: bool = True  # or it is JSON anyway
    needs_server: bool = True
    is_slow: bool = False  # it takes seconds: only as JSON
    is_alike: bool = False  # whatever the system holds: once is enough


@dataclass(frozen=True)
class Leave:
    """It is not run here, only its help is looked at."""

    why: str


BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: manners-applied}
"""
TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: tried}
spec:
  broker: b
  filter: {attributes: {type: a}}
  subscriber: {uri: "http://127.0.0.1:9/"}
"""
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "a"}'

CALLS: dict[str, Call | Leave] = {
    "up": Leave("it starts a system; tests/supervisor/test_up.py runs it"),
    "receiver": Leave("it is a part and runs until it is ended"),
    "dispatcher": Leave("it is a part and runs until it is ended"),
    "controller": Leave("it is a part and runs until it is ended"),
    "down": Call(("--data-dir", "{nowhere}"), json="", needs_server=False, is_alike=True),
    "status": Call(),
    "dashboard": Call(("--no-open",), is_alike=True),
    "top": Call(("--once",)),
    "lag": Call(),
    "logs": Call(("controller",), json="lines", needs_server=False),
    "settings": Call(needs_server=False),
    "sizing": Call(("--subscriptions", "3", "--partitions", "4"), needs_server=False, is_alike=True),
    "fetch": Call(json="", needs_server=False, is_alike=True),
    "must-gather": Call(("--out", "{file}.zip"), needs_server=False, is_slow=True),
    "profile": Call(("controller", "--seconds", "1", "--out", "{file}.svg"), needs_server=False, is_slow=True),
    "apply": Call(("-f", "-"), stdin=BROKER),
    "get": Call(("all",)),
    "describe": Call(("trigger", "{trigger}"), empty=1),
    "delete": Call(("broker", "manners-applied", "--ignore-not-found"), json="lines"),
    "wait": Call(("broker/{broker}", "--timeout", "10s"), empty=1),
    "pause": Call(("trigger/{trigger}",), empty=1),
    "resume": Call(("trigger/{trigger}",), empty=1),
    "send": Call(("broker/{broker}", "--type", "t", "--source", "/manners"), empty=1),
    "explain": Call(("{letter}",), empty=1),
    "tail": Leave("it runs until Ctrl-C; tests/system/test_explain.py runs it"),
    "cesql": Call(("id = '1'",), has_json_flag=False, needs_server=False, is_alike=True),
    "trigger test": Call(
        ("-f", "{file}.yaml", "--event", "-"), stdin=EVENT, needs_server=False, is_slow=True, is_alike=True
    ),
    "trigger reset": Call(("{trigger}", "--to", "earliest", "--dry-run"), empty=1, json="lines"),
    "deadletters list": Call(json="lines"),
    "deadletters show": Call(("{letter}",), empty=1),
    "deadletters redrive": Call(("--all", "--trigger", "{trigger}", "--dry-run"), empty=1),
    "jobs list": Call(),
    "jobs show": Call(("nosuchjob",), empty=1, filled=1),
    "jobs cancel": Call(("nosuchjob",), empty=1, filled=1),
}
