"""What ARCHITECTURE.md tells about adding a kind: none of the tables may forget one."""

from penstock.cli import columns, describing_kinds
from penstock.control import egress_steps, ingress_steps, validate
from penstock.control.kinds import EGRESS, INGRESS, KINDS, WITH_STATUS, WITHOUT_STATUS, Kind


def names(*kinds: Kind) -> set[str]:
    return {kind.name for kind in kinds}


def test_every_kind_is_in_every_table() -> None:
    """Kept promise: a kind that is served is checked, listed and described."""
    for table in (validate._RULES, columns._COLUMNS, columns._CELLS, describing_kinds._FACTS):
        assert set(table) == names(*KINDS)


def test_every_kind_with_a_status_is_reconciled() -> None:
    assert names(*WITH_STATUS, *WITHOUT_STATUS) == names(*KINDS)
    assert set(ingress_steps.CONFIGURE) == names(*INGRESS)
    assert set(egress_steps.PLAN) == set(egress_steps.GROUP) == names(*EGRESS)


def test_every_word_means_one_kind() -> None:
    words = [word for kind in KINDS for word in {*kind.words}]
    assert len(words) == len(set(words))
