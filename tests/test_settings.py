"""Promises of settings: flags over environment over defaults, and a clear word when a value makes no sense."""

from dataclasses import dataclass
from typing import Literal

import pytest

from penstock.errors import Misconfigured
from penstock.settings import in_force, load, setting


@dataclass(frozen=True)
class Example:
    port: int = setting(8080, "a number")
    rate: float = setting(1.5, "a fraction")
    is_loud: bool = setting(False, "a switch")
    mode: Literal["live", "batch"] = setting("live", "a choice")
    folder: str | None = setting(None, "may be absent")
    password: str = setting("", "not for everybody", secret=True)


@dataclass(frozen=True)
class Addressed:
    url: str = setting("", "an address")


def test_flags_win_over_the_environment_and_the_environment_over_defaults() -> None:
    """Kept promise: one order of precedence, and None among the flags means not given."""
    environ = {"PENSTOCK_PORT": "1", "PENSTOCK_RATE": "2.5", "PENSTOCK_IS_LOUD": "yes", "PENSTOCK_MODE": "batch"}
    settings = load(Example, {"port": 9, "rate": None}, environ)
    assert settings == Example(port=9, rate=2.5, is_loud=True, mode="batch")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PENSTOCK_PORT", "many"), ("PENSTOCK_IS_LOUD", "perhaps"), ("PENSTOCK_MODE", "fast"), ("PENSTOCK_RATE", "x")],
)
def test_a_value_that_makes_no_sense_is_named(variable: str, value: str) -> None:
    """Kept promise: the message names the variable and what it holds."""
    with pytest.raises(Misconfigured, match=f"{variable} is '{value}'"):
        load(Example, environ={variable: value})


def test_secrets_are_masked_where_settings_are_shown() -> None:
    """Kept promise: what is in force can be shown to anybody."""
    rows = {row.name: row for row in in_force(Example, environ={"PENSTOCK_PASSWORD": "hush"})}
    assert (rows["password"].value, rows["password"].origin) == ("********", "environment")
    (shown,) = in_force(Addressed, environ={"PENSTOCK_URL": "http://me:hush@host/"})
    assert shown.value == "http://********@host/"
    assert (rows["port"].value, rows["port"].origin, rows["port"].variable) == ("8080", "default", "PENSTOCK_PORT")


def test_a_flag_that_is_none_of_the_choices_is_named() -> None:
    """Kept promise: a misspelt word on the command line does not become a mode of its own."""
    with pytest.raises(Misconfigured, match="--mode is 'Live'; it must be one of live, batch"):
        load(Example, {"mode": "Live"}, {})
