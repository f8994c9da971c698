"""apply, get, describe, delete and wait: resources as kubectl's users know them."""

import contextlib
import time
from typing import Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.options import SOME_FAILED
from penstock.cli.output import kubernetes_list, say, show, show_json, show_yaml
from penstock.visible import visible_line, visible_message

TIMED_OUT = 5
DELETE_SECONDS = 30.0
LOOK_SECONDS = 0.1
KIND_HELP = "A kind such as broker, trigger, kafkachannel, subscription, kafkasource or kafkasink; KIND/NAME"

Files = Annotated[
    list[str], typer.Option("--filename", "-f", help="A file, a directory, or - for stdin.", metavar="FILE|DIR|-")
]


def apply(
    filename: Files,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.Output = "name",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Creates or changes resources from YAML.

    \b
    penstock apply -f orders.yaml
    penstock apply -f manifests/ -n shop
    penstock apply -f orders.yaml --dry-run
    cat trigger.yaml | penstock apply -f -

    Knative's YAML works unchanged. Exits with 1 when nothing could be applied, 3 when only some of it could.
    """
    from penstock.cli.client import Client
    from penstock.cli.manifests import resources

    options.checked(output, "name", "json", "yaml")
    client = Client(server)
    act = _try_one if dry_run else _apply_one

    def apply_one(manifest: Any) -> Any:
        stored, lines = act(client, *_placed(manifest.body, namespace))
        for line in lines:
            (show if output == "name" else say)(line)
        return stored

    stored = _each(resources(filename), apply_one, lambda manifest: manifest.where)
    if output != "name":
        _show_objects(stored, output, single=len(stored) == 1)


def _placed(body: Any, namespace: str) -> tuple[Any, Any]:
    """Its kind, and the object with a namespace."""
    from penstock.control.kinds import BY_NAME
    from penstock.control.validate_kind import kind_problems
    from penstock.errors import Rejected

    problems = kind_problems(body)
    if problems:
        lines = [f"{p.field}: {p.message}" if p.field else p.message for p in problems]
        raise Rejected("\n".join(["the object is invalid", *map(visible_message, lines)]))
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    return BY_NAME[body["kind"]], {
        **body,
        "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace},
    }


def _apply_one(client: Any, kind: Any, body: Any) -> tuple[Any, list[str]]:
    """The stored object, and what to say about it."""
    from penstock.errors import Rejected

    deadline = time.monotonic() + DELETE_SECONDS
    while True:
        try:
            resource, verdict = client.apply(kind, body)
            return resource, [f"{kind.name.lower()}/{resource['metadata']['name']} {verdict}"]
        except Rejected as error:
            if "still being deleted" not in error.message or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)


def _try_one(client: Any, kind: Any, body: Any) -> tuple[Any, list[str]]:
    """The same for a dry run, with the fields that would change."""
    from penstock.cli.changes import changes
    from penstock.cli.client import NotFound

    resource, verdict = client.apply(kind, body, dry_run=True)
    name = resource["metadata"]["name"]
    told = [f"{kind.name.lower()}/{name} {verdict} (dry run)"]
    if verdict == "configured":
        with contextlib.suppress(NotFound):  # deleted in between
            told += [
                f"  {visible_line(each)}"
                for each in changes(client.one(kind, body["metadata"]["namespace"], name), resource)
            ]
    return resource, told


def _each(items: list[Any], act: Any, shown: Any) -> list[Any]:
    """Does it for every item; failures are told and counted: 1 when all failed, 3 when some did."""
    from penstock.errors import PenstockError, Unavailable

    done, failed = [], 0
    for item in items:
        try:
            done.append(act(item))
        except PenstockError as error:
            if len(items) == 1 or (isinstance(error, Unavailable) and not done and not failed):
                raise  # the only one, or a server that is not there: main says it
            failed += 1
            say(f"error: {shown(item)}: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
    if failed:
        raise typer.Exit(SOME_FAILED if done else 1)
    return done


def get(  # noqa: PLR0913 - the options kubectl's users expect
    kind: Annotated[str, typer.Argument(help=f"{KIND_HELP}, or all.", autocompletion=complete.kinds)],
    name: Annotated[list[str] | None, typer.Argument(help="Only these.", autocompletion=complete.names)] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of every namespace.")] = False,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.Output = "table",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing changes.")] = False,
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Lists resources, or shows one.

    \b
    penstock get brokers
    penstock get trigger audit -o yaml
    penstock get triggers -A -o wide
    penstock get kafkachannels,subscriptions
    penstock get all -A
    penstock get triggers -w
    """
    from penstock.cli import listing
    from penstock.cli.client import Client
    from penstock.cli.targets import targets

    options.checked(output, "table", "wide", "json", "yaml", "name")
    asked = targets(kind, name or [])
    where = None if all_namespaces else namespace
    client = Client(server)
    if watch:
        listing.watch(client, asked, where, output)
        return
    single = len(asked) == 1 and asked[0].name is not None
    listing.show(listing.fetch(client, asked, where), output, where, single=single, client=client)


def _show_objects(objects: list[Any], output: str, *, single: bool) -> None:
    value = objects[0] if single else kubernetes_list(objects)
    show_json(value) if output == "json" else show_yaml(value)


def describe(
    kind: Annotated[str, typer.Argument(help=f"{KIND_HELP}.", autocompletion=complete.kinds)],
    name: Annotated[list[str] | None, typer.Argument(autocompletion=complete.names)] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Tells everything about a resource: conditions, settings, positions, what is wrong.

    \b
    penstock describe trigger audit
    penstock describe broker/orders -o json
    """
    from penstock.cli import describing
    from penstock.cli.client import Client
    from penstock.cli.targets import named

    options.checked(output, "table", "json")
    client = Client(server)
    described = [describing.look(client, each, namespace) for each in named(kind, name or [])]
    if output == "json":
        show_json(described[0].as_json() if len(described) == 1 else [each.as_json() for each in described])
        return
    show("\n\n".join(describing.text(each) for each in described))


def delete(  # noqa: PLR0913 - the options kubectl's users expect
    kind: Annotated[str | None, typer.Argument(help=f"{KIND_HELP}.", autocompletion=complete.kinds)] = None,
    name: Annotated[list[str] | None, typer.Argument(autocompletion=complete.names)] = None,
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Those in a file.", metavar="FILE|DIR|-")
    ] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    everything: Annotated[bool, typer.Option("--all", help="All of the kind in the namespace.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="What is gone already is fine.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it is really gone.")] = True,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Deletes resources. The topic of a broker or a channel goes with it, and so do the events that are still in it.

    Whoever reads goes before what is read. Who depends on it and stays is told on stderr.

    \b
    penstock delete trigger audit
    penstock delete broker/orders
    penstock delete -f orders.yaml
    penstock delete triggers --all
    """
    from penstock.cli import deleting
    from penstock.cli.client import Client, NotFound
    from penstock.cli.targets import named

    if (kind is None) == (filename is None):
        raise typer.BadParameter("give either KIND NAME or -f FILE")
    if everything and (name or "/" in (kind or "")):
        raise typer.BadParameter("--all deletes everything of a kind: give it without a name")
    options.checked(output, "json", "table")
    client = Client(server)
    if filename is not None:
        doomed = _targets_in(filename, namespace)
    elif everything:
        doomed = _all_of(client, kind or "", namespace)
    else:
        doomed = [(each, namespace) for each in named(kind or "", name or [])]
    doomed = deleting.readers_first(doomed)

    def delete_one(item: Any) -> None:
        target, where = item
        try:
            left = deleting.left_behind(client, target, where, doomed)
            deleting.warn(left, where)
            client.delete(target.kind, where, target.name)
        except NotFound:
            if not ignore_not_found:
                raise
            return
        if wait:
            _until_gone(client, target, where)
        _told(output, target, where, "deleted", dependents=left)

    _each(doomed, delete_one, lambda item: item[0].shown)


def _told(output: str, target: Any, namespace: str, result: str, **more: Any) -> None:
    """One line for one resource: for people, or JSON for machines."""
    if output == "json":
        what = {"kind": target.kind.name, "namespace": namespace, "name": target.name, "result": result, **more}
        show_json(what, line=True)
    else:
        show(f"{target.shown} {result}")


def _all_of(client: Any, word: str, namespace: str) -> list[Any]:
    from penstock.cli.targets import Target, targets

    found = [
        (Target(each.kind, resource["metadata"]["name"]), namespace)
        for each in targets(word, [])
        for resource in client.listing(each.kind, namespace)
    ]
    if not found:
        say(f"nothing to delete in namespace {namespace}")
    return found


def _targets_in(filename: list[str], namespace: str) -> list[Any]:
    from penstock.cli.manifests import resources
    from penstock.cli.targets import Target
    from penstock.control.kinds import BY_NAME
    from penstock.control.validate_kind import kind_problems
    from penstock.errors import Rejected

    doomed = []
    for manifest in resources(filename):
        problems = kind_problems(manifest.body)
        metadata = manifest.body.get("metadata") if isinstance(manifest.body, dict) else None
        if problems or not isinstance(metadata, dict) or not metadata.get("name"):
            why = "; ".join(f"{p.field}: {p.message}" for p in problems) or "metadata.name: is missing"
            raise Rejected(f"{manifest.where} does not name a resource\n{why}")
        target = Target(BY_NAME[manifest.body["kind"]], str(metadata["name"]))
        doomed.append((target, metadata.get("namespace") or namespace))
    return doomed


def _until_gone(client: Any, target: Any, namespace: str) -> None:
    from penstock.cli.client import NotFound
    from penstock.errors import Unavailable

    deadline = time.monotonic() + DELETE_SECONDS
    while time.monotonic() < deadline:
        try:
            if "deletionTimestamp" not in client.one(target.kind, namespace, target.name)["metadata"]:
                return  # somebody has made it anew
        except NotFound:
            return
        time.sleep(LOOK_SECONDS)
    raise Unavailable(f"{target.shown} is still being deleted after {DELETE_SECONDS:g} s", hint="penstock status")


def wait(
    target: Annotated[list[str], typer.Argument(help="KIND/NAME …", autocompletion=complete.targets)],
    for_: Annotated[str, typer.Option("--for", help="condition=TYPE[=STATUS], or delete.")] = "condition=Ready",
    timeout: Annotated[str, typer.Option(help="How long at most: 60s, 2m, 500ms.")] = "60s",
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Waits until a condition holds.

    \b
    penstock wait broker/orders --for=condition=Ready
    penstock wait trigger/audit trigger/bill --for=condition=Ready --timeout=2m
    penstock wait broker/orders --for=condition=Ready=False
    penstock wait broker/orders --for=delete

    Exits with 5, and the condition's reason, when the time is up.
    """
    from penstock.cli import waiting
    from penstock.cli.client import Client
    from penstock.cli.targets import named

    options.checked(output, "json", "table")
    asked = waiting.asked(for_)
    deadline = time.monotonic() + options.seconds(timeout)
    client = Client(server)
    for each in named(target[0], target[1:]):
        reason = waiting.until(client, each, namespace, asked, deadline)
        if reason is not None:
            say(f"error: {each.shown} did not come to {asked.shown} within {timeout}\n{reason}")
            say(f"hint: penstock describe {each.kind.name.lower()} {each.name} -n {namespace}")
            raise typer.Exit(TIMED_OUT)
        _told(output, each, namespace, asked.done)
