"""Resources in files: YAML with several documents, JSON, a directory of them, or stdin.

In: what stands behind ``-f``. Out: each object with where it stands, for messages. Used by apply and delete.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.cli.files import read_text
from penstock.cli.output import say
from penstock.errors import Rejected

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Manifest:
    where: str  # file and number of the document
    body: Any


class _Loader(yaml.SafeLoader):
    """Knows no dates: they stay text, as in Kubernetes. A key that stands twice is an error, not a surprise."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key != "<<" and key in seen:
                raise yaml.MarkedYAMLError(problem=f'"{key}" stands here twice', problem_mark=key_node.start_mark)
            seen.add(key if isinstance(key, str) else str(key))
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(sources: list[str]) -> list[Manifest]:
    """Everything in these files, directories or ``-``. Rejected names file, line and column of what is not YAML."""
    found = [manifest for source in sources for path in _files(source) for manifest in _documents(path)]
    if not found:
        raise Rejected(f"there is no resource in {', '.join(sources)}")
    return found


def resources(sources: list[str]) -> list[Manifest]:
    """The same without namespaces, which Knative's examples make first: here they need not be made."""
    kept = []
    for manifest in read(sources):
        body = manifest.body
        if isinstance(body, dict) and (body.get("apiVersion"), body.get("kind")) == ("v1", "Namespace"):
            say(f"{manifest.where}: the Namespace is left out; a namespace is there when something is in it")
        else:
            kept.append(manifest)
    return kept


def _files(source: str) -> list[str]:
    if source == "-":
        return [source]
    path = Path(source)
    if path.is_dir():
        files = sorted(str(each) for each in path.iterdir() if each.suffix in SUFFIXES and each.is_file())
        if not files:
            raise Rejected(f"there is no {', '.join(SUFFIXES)} file in {source}")
        return files
    return [source]


def _documents(path: str) -> Iterator[Manifest]:
    shown = "stdin" if path == "-" else path
    text = read_text(path, hint="-f takes a file, a directory or -")
    try:
        documents = [each for each in yaml.load_all(text, Loader=_Loader) if each is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Rejected(f"{shown}{at} is not YAML\n{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise Rejected(f"{shown} is not YAML\n{error}") from None
    for number, body in enumerate(documents, 1):
        where = f"{shown}, document {number}" if len(documents) > 1 else shown
        if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
            yield from (Manifest(f"{where}, item {i}", item) for i, item in enumerate(body["items"], 1))
        else:
            yield Manifest(where, body)
