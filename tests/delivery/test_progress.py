"""Promises of a lane's progress: nothing unfinished is ever called done, and nothing finished is repeated."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.delivery.progress import Progress

offset_steps = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=60)


@given(start=st.integers(0, 50), steps=offset_steps, seed=st.integers(), share=st.floats(0, 1))
def test_a_restart_repeats_exactly_the_unfinished(
    start: int, steps: list[tuple[int, bool]], seed: int, share: float
) -> None:
    """Kept promise: after a kill, the successor takes on what was not finished and nothing else."""
    dice = random.Random(seed)
    rows, offset = [], start - 1
    for step, is_wanted in steps:  # offsets with holes, as retention and transactions leave them
        offset += step
        rows.append((offset, is_wanted))
    first = Progress(start)
    taken = []
    for offset, is_wanted in rows:
        if is_wanted:
            first.take_on(offset)
            taken.append(offset)
        else:
            first.pass_by(offset)
    finished = {each for each in taken if dice.random() < share}
    for each in sorted(finished, key=lambda _: dice.random()):
        first.finish(each)

    second = Progress(first.position, first.beyond())
    repeated = {offset for offset, is_wanted in rows if is_wanted and not second.is_done(offset)}
    assert repeated == set(taken) - finished
    assert all(each >= first.position for each in set(taken) - finished)


@given(steps=offset_steps, cuts=st.lists(st.integers(0, 60), max_size=5), seed=st.integers())
def test_any_number_of_restarts_loses_and_repeats_nothing_finished(
    steps: list[tuple[int, bool]], cuts: list[int], seed: int
) -> None:
    """Kept promise: through a chain of kills each wanted offset is finished once, and none is skipped."""
    dice = random.Random(seed)
    rows, offset = [], -1
    for step, is_wanted in steps:
        offset += step
        rows.append((offset, is_wanted))
    wanted = [offset for offset, is_wanted in rows if is_wanted]
    finished: list[int] = []
    position: int = 0
    beyond: tuple[tuple[int, int], ...] = ()
    for cut in [*cuts, len(rows)]:
        progress = Progress(position, beyond)
        is_last = cut == len(rows)
        for offset, is_wanted in rows[:cut]:
            if offset < position:
                continue  # Spark starts at the position
            if not is_wanted or progress.is_done(offset):
                progress.pass_by(offset)
                continue
            progress.take_on(offset)
            if is_last or dice.random() < 0.5:
                progress.finish(offset)
                finished.append(offset)
        position, beyond = progress.position, progress.beyond()
    assert sorted(finished) == wanted
    assert position == (rows[-1][0] + 1)


@given(start=st.integers(0, 20), steps=offset_steps, seed=st.integers())
def test_the_position_never_passes_an_open_offset_nor_goes_back(
    start: int, steps: list[tuple[int, bool]], seed: int
) -> None:
    """Kept promise: the position is at most the first open offset, and only grows."""
    dice = random.Random(seed)
    progress = Progress(start)
    still_open: set[int] = set()
    offset, highest = start - 1, start
    for step, is_wanted in steps:
        offset += step
        if is_wanted:
            progress.take_on(offset)
            still_open.add(offset)
        else:
            progress.pass_by(offset)
        if still_open and dice.random() < 0.6:
            each = dice.choice(sorted(still_open))
            progress.finish(each)
            still_open.discard(each)
        assert progress.position >= highest
        assert progress.position <= min(still_open, default=offset + 1)
        highest = progress.position


@given(wanted=st.sets(st.integers(0, 40)), seed=st.integers(), reads=st.integers(0, 41))
def test_what_a_predecessor_finishes_after_the_hand_over_is_not_repeated(
    wanted: set[int], seed: int, reads: int
) -> None:
    """Kept promise: a lane that was held back goes on with exactly what its predecessor has not finished."""
    dice = random.Random(seed)
    old = Progress(0)
    for offset in sorted(wanted):
        old.take_on(offset)
    old.pass_by(40)
    early = {each for each in wanted if dice.random() < 0.3}
    for each in early:
        old.finish(each)
    new = Progress(old.position, old.beyond())
    taken = [each for each in sorted(wanted) if each < reads and not new.is_done(each)]
    for each in taken:
        new.take_on(each)
    late = {each for each in wanted - early if dice.random() < 0.3}
    for each in late:
        old.finish(each)
    assert set(new.catch_up(old.position, old.beyond())) == late & set(taken)
    repeated = [each for each in sorted(wanted) if each >= reads and not new.is_done(each)]
    for each in repeated:
        new.take_on(each)
    still_open = set(taken + repeated) - late
    assert still_open == wanted - early - late
    for each in still_open:
        new.finish(each)
