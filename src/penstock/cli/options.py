"""Options that several commands share, so that they read and behave the same everywhere."""

from typing import Annotated

import typer

from penstock.cli import complete
from penstock.errors import Misused

SOME_FAILED = 3  # exit code: of several, some

DEFAULT_SERVER = "http://127.0.0.1:8090"
DEFAULT_NAMESPACE = "default"
TOKEN_FILE = "PENSTOCK_TOKEN_FILE"

Server = Annotated[
    str,
    typer.Option("--server", envvar="PENSTOCK_SERVER", help="The admin API.", metavar="URL", show_default=True),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="The namespace.", metavar="NAME", autocompletion=complete.namespaces)
]
Output = Annotated[str, typer.Option("--output", "-o", help="json, yaml, wide or table.", metavar="FORMAT")]
PlainOutput = Annotated[str, typer.Option("--output", "-o", help="json or table.", metavar="FORMAT")]
DocumentOutput = Annotated[str, typer.Option("--output", "-o", help="yaml or json.", metavar="FORMAT")]

DataDir = Annotated[
    str, typer.Option(envvar="PENSTOCK_DATA_DIR", help="The data directory that `up` was given.", metavar="DIR")
]

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", help="A further host name of the admin API; may be repeated.", metavar="NAME"),
]
RequireToken = Annotated[
    bool, typer.Option("--require-token", help="Require the admin token also on this machine.", show_default=False)
]


def access_flags(allowed_hosts: list[str] | None, *, require_token: bool) -> dict[str, str | None]:
    """As settings; None: not given."""
    return {
        "allowed_hosts": ",".join(allowed_hosts) if allowed_hosts else None,
        "admin_auth": "always" if require_token else None,
    }


def checked(output: str, *accepted: str) -> str:
    """The output format, if the command knows it."""
    if output not in accepted:
        raise typer.BadParameter(f'"{output}" is not one of {", ".join(accepted)}', param_hint="-o")
    return output


def seconds(text: str) -> float:
    """``60s``, ``2m``, ``500ms``, ``1h`` or a bare number of seconds."""
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)):
        if text.endswith(unit):
            number = text.removesuffix(unit) if unit else text
            try:
                value = float(number)
            except ValueError:
                break
            if value >= 0:
                return value * factor
    raise Misused(f'"{text}" is not a length of time', hint="60s, 2m, 500ms or 1h")
