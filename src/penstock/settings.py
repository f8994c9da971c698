"""Settings of a process: a frozen dataclass each, read from flags, then the environment, then defaults.

A settings class lives in the room of its process (``receiver/settings.py`` …) and declares each field with
``setting(default, "what it does")``. The environment variable is always ``PENSTOCK_`` plus the field's name
in capitals. Fields marked secret are masked wherever settings are shown.
"""

import dataclasses
import os
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from penstock.errors import Misconfigured

S = TypeVar("S")

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")  # and the user, in a URL


def setting(default: Any, doc: str, *, secret: bool = False) -> Any:
    """A field of a settings class: its default and the line that explains it."""
    return dataclasses.field(default=default, metadata={"doc": doc, "secret": secret})


@dataclasses.dataclass(frozen=True)
class SettingInForce:
    """One row of ``penstock settings``."""

    name: str
    value: str
    origin: str  # "flag", "environment" or "default"
    variable: str
    doc: str


def variable_of(field_name: str) -> str:
    return "PENSTOCK_" + field_name.upper()


def load(cls: type[S], flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> S:
    """The settings in force; ``None`` among the flags means "not given"."""
    return cls(**{name: value for name, (value, _) in _gather(cls, flags, environ).items()})


def in_force(
    cls: type[Any], flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> list[SettingInForce]:
    """The same, with where each value came from, for people to read."""
    gathered = _gather(cls, flags, environ)
    rows = []
    for field in dataclasses.fields(cls):
        value, origin = gathered[field.name]
        shown = "********" if field.metadata.get("secret") and value else PASSWORD.sub("********@", str(value))
        rows.append(SettingInForce(field.name, shown, origin, variable_of(field.name), field.metadata["doc"]))
    return rows


def _gather(
    cls: type[Any], flags: Mapping[str, Any] | None, environ: Mapping[str, str] | None
) -> dict[str, tuple[Any, str]]:
    flags = flags or {}
    environ = os.environ if environ is None else environ
    hints = get_type_hints(cls)
    gathered: dict[str, tuple[Any, str]] = {}
    for field in dataclasses.fields(cls):
        variable = variable_of(field.name)
        if flags.get(field.name) is not None:
            gathered[field.name] = (_checked(field.name, flags[field.name], hints[field.name]), "flag")
        elif variable in environ:
            gathered[field.name] = (_parse(variable, environ[variable], hints[field.name]), "environment")
        else:
            gathered[field.name] = (field.default, "default")
    return gathered


def _checked(name: str, value: Any, kind: Any) -> Any:
    """A flag has its type already; whether it is one of a few words is seen here."""
    if get_origin(kind) is Literal and value not in get_args(kind):
        flag = "--" + name.replace("_", "-")
        raise Misconfigured(f"{flag} is {value!r}; it must be one of {', '.join(get_args(kind))}")
    return value


def _parse(variable: str, text: str, kind: Any) -> Any:
    """The text of an environment variable as the field's type (int, float, bool, str, Literal, or one | None)."""
    if isinstance(kind, types.UnionType):
        if text == "":
            return None
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is Literal:
        if text in get_args(kind):
            return text
        raise Misconfigured(f"{variable} is {text!r}; it must be one of {', '.join(get_args(kind))}")
    if kind is bool:
        if text.lower() in TRUE_WORDS:
            return True
        if text.lower() in FALSE_WORDS:
            return False
        raise Misconfigured(f"{variable} is {text!r}, which is neither true nor false", hint=f"{variable}=true")
    try:
        return kind(text)
    except ValueError:
        raise Misconfigured(f"{variable} is {text!r}, which is not of type {kind.__name__}") from None
