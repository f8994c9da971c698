"""What pausing and resuming note on a resource. Values in, values out."""

import pytest

from penstock.control import names
from penstock.control.pausing import BY_HAND, pause_notes, resume_notes
from penstock.errors import Rejected


def test_a_pause_has_a_reason_and_an_end_only_if_one_was_given() -> None:
    assert pause_notes({}) == {names.PAUSED: BY_HAND, names.PAUSED_UNTIL: None}
    until = "2026-12-24T18:00:00Z"
    assert pause_notes({"reason": "tea", "until": until}) == {names.PAUSED: "tea", names.PAUSED_UNTIL: until}


@pytest.mark.parametrize("field", ["reason", "until"])
def test_what_is_no_text_is_refused_by_its_name(field: str) -> None:
    with pytest.raises(Rejected, match=field):
        pause_notes({field: 5})


def test_a_resume_takes_the_pause_away_and_calls_back_who_was_gone() -> None:
    notes = resume_notes({})
    assert (notes[names.PAUSED], notes[names.PAUSED_UNTIL]) == (None, None)
    assert notes[names.RESUMED]
