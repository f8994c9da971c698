"""Text from others never controls the terminal: neither its control characters nor marks of direction."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import output, tail
from penstock.cli.output import Column
from penstock.visible import colour, escaped, visible, visible_line

HOSTILE = "\x1b[2J\x1b]0;title\x07 a\u202eb\u2066c\x9b31m\x00\x7f\r\ud800\U000e0041"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07 a\\u202eb\\u2066c\\x9b31m\\x00\\x7f\\r\\ud800\\U000e0041"


def is_harmless(text: str) -> bool:
    return all(each in "\n\t" or (each.isprintable() and each not in "\u202e\u2066") for each in text)


def test_control_characters_are_shown() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible("ä 😀 \n\t漢字 שלום") == "ä 😀 \n\t漢字 שלום"
    assert visible_line("a\nb\tc") == "a\\nb\\tc"


def test_only_our_own_colours_are_colours() -> None:
    """Kept promise: text from elsewhere cannot pass for ours."""
    assert visible(f"{colour('ok', '32')} \x1b[31mno\x1b[0m") == "\x1b[32mok\x1b[0m \\x1b[31mno\\x1b[0m"


@given(st.text(st.one_of(st.sampled_from(HOSTILE), st.characters())))
def test_no_text_gets_through(text: str) -> None:
    for shown in (visible(text), visible_line(text)):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        shown.encode()  # halves of surrogate pairs would end the command


@given(st.dictionaries(st.text(), st.text(st.one_of(st.sampled_from(HOSTILE), st.characters()))))
def test_json_and_yaml_keep_their_value(value: dict[str, str]) -> None:
    """Kept promise: machines read what was meant, and nothing in it commands a terminal."""
    shown = escaped(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("form", ["json", "yaml", "table", "text", "message", "error", "event"])
def test_every_form_of_output_is_harmless(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept promise: all text from others is printed through one place."""
    value: dict[str, Any] = {"name": HOSTILE, HOSTILE: ["a", HOSTILE]}
    if form == "json":
        output.show_json(value)
        shown = capsys.readouterr().out
        assert json.loads(shown) == value
    elif form == "yaml":
        plain = HOSTILE.replace("\ud800", "")
        output.show_yaml({"name": plain, plain: ["a", plain]})
        shown = capsys.readouterr().out
        assert yaml.safe_load(shown) == {"name": plain, plain: ["a", plain]}
    elif form == "table":
        output.show_table([Column("A"), Column("B")], [[HOSTILE, "x\nspoofed   True"], ["a", "b"]])
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) == 3
    elif form == "event":
        row = {"received": "2026-01-01T00:00:00.000Z", "partition": 0, "offset": 1, "type": HOSTILE, "id": HOSTILE}
        tail._take("event", {**row, "subject": HOSTILE, "data": HOSTILE + "\nx"}, as_json=False)
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) == 1
    else:
        if form == "text":
            output.show(HOSTILE)
        elif form == "message":
            output.say(HOSTILE)
        else:
            output.complain(ValueError(HOSTILE))
        found = capsys.readouterr()
        shown = found.out + found.err
    assert is_harmless(shown), ascii(shown)


def test_what_is_drawn_again_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    output.draw([HOSTILE, "b"], over=2)
    assert capsys.readouterr().out == f"\x1b[2F\x1b[J{SHOWN}\nb\n"
