"""LIKE as SQL whose time is linear in the value, whatever the pattern and the value are.

    a%b_c%d   ──▶   \\A a (?>.*?b.c) .* d \\z       each piece at the first place where it fits, and never again

Spark's own LIKE tries all places of each piece with all places of the next: a value of 1,500 characters took minutes.
Pieces have a fixed length, so the first place is as good as any: whatever follows has the most room. The group
``(?>…)`` keeps the JVM from trying others. In: SQL of a text, and a pattern. Called by ``cesql_sql``.
"""

from itertools import groupby

from penstock.errors import Rejected
from penstock.filter.sql_text import literal

LONGEST_PIECE = 256  # characters between two %: the value is compared with all of them, at each of its places
MOST_PIECES = 100

Piece = list[str | None]  # None: any character


def like(text: str, pattern: str) -> str:
    """A condition, which is NULL if the text is NULL. Raises Rejected for a pattern that could take too long."""
    pieces = _pieces(pattern)
    if len(pieces) > 1 and max(map(len, pieces)) > LONGEST_PIECE:
        raise Rejected(
            f"LIKE takes at most {LONGEST_PIECE} characters before the first %, between two % and after the last"
        )
    if len(pieces) > MOST_PIECES:
        raise Rejected(f"LIKE takes at most {MOST_PIECES - 1} %")
    if not any(None in piece for piece in pieces):
        words = ["".join(filter(None, piece)) for piece in pieces]
        match words:
            case [word]:
                return f"{text} = {literal(word)}"
            case [word, ""]:
                return f"startswith({text}, {literal(word)})"
            case ["", word]:
                return f"endswith({text}, {literal(word)})"
            case ["", word, ""]:
                return f"contains({text}, {literal(word)})"
    return f"{text} RLIKE {literal(_expression(pieces))}"


def _pieces(pattern: str) -> list[Piece]:
    """The parts between the %; several % in a row count as one."""
    pieces: list[Piece] = [[]]
    characters = iter(enumerate(pattern))
    for at, character in characters:
        if character == "\\" and pattern[at + 1 : at + 2] in ("%", "_"):
            pieces[-1].append(next(characters)[1])
        elif character == "%":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces


def _expression(pieces: list[Piece]) -> str:
    first, *others = map(_piece, pieces)
    if not others:
        return f"(?s)\\A{first}\\z"
    *middle, last = others
    found = f"(?s)\\A{first}" + "".join(f"(?>.*?{each})" for each in middle)
    return f"{found}.*{last}\\z" if last else found


def _piece(piece: Piece) -> str:
    """A run of _ becomes a count, since the JVM's matcher recurses for each part of an expression."""
    return "".join(_run(character, sum(1 for _ in run)) for character, run in groupby(piece))


def _run(character: str | None, count: int) -> str:
    if character is None:
        return f".{{{count}}}"
    return (character if character.isalnum() or not character.isascii() else f"\\{character}") * count
