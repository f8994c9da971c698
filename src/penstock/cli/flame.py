"""A flame graph as SVG: how often each stack was seen, the callers below, the called above. Pure.

In: stacks from the outermost frame on, with how often each was seen. Out: one file that any browser shows; a frame's
full name and share appear under the pointer. Used by ``profile`` for what Java's recorder has seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

WIDTH = 1200
ROW = 17
MARGIN = 10
HEAD = 34
CHARACTER = 6.6  # width of one, in the font below
NARROWEST = 0.4  # pixels; what is narrower is left out

STYLE = (
    "text { font: 11px ui-monospace, monospace; } .head { font-size: 14px; } "
    "rect { stroke: #fff8; stroke-width: .5 } "
    "rect:hover { stroke: #000; stroke-width: 1 }"
)

Stacks = Mapping[tuple[str, ...], int]


@dataclass
class _Frame:
    name: str
    count: int = 0
    below: dict[str, "_Frame"] = field(default_factory=dict)


def svg(title: str, stacks: Stacks) -> str:
    root = _tree(stacks)
    drawn: list[str] = []
    deepest = _draw(root, 0, float(MARGIN), (WIDTH - 2 * MARGIN) / max(1, root.count), drawn, root.count)
    height = HEAD + (deepest + 1) * ROW + MARGIN
    placed = "".join(each.replace("@", str(height - MARGIN)) for each in drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fdfdf6"/>'
        f'<text class="head" x="{MARGIN}" y="22">{escape(title)} · {root.count} samples</text>{placed}</svg>\n'
    )


def _tree(stacks: Stacks) -> _Frame:
    root = _Frame("all")
    for stack, count in stacks.items():
        root.count += count
        at = root
        for name in stack:
            at = at.below.setdefault(name, _Frame(name))
            at.count += count
    return root


def _draw(root: _Frame, level: int, left: float, scale: float, drawn: list[str], total: int) -> int:
    """Frame by frame, without recursion: Java's stacks are deep. Returns the highest row."""
    deepest = level
    waiting = [(root, level, left)]
    while waiting:
        frame, at, x = waiting.pop()
        width = frame.count * scale
        if width < NARROWEST:
            continue
        deepest = max(deepest, at)
        drawn.append(_box(frame, at, x, width, total))
        for each in sorted(frame.below.values(), key=lambda below: below.name):
            waiting.append((each, at + 1, x))
            x += each.count * scale
    return deepest


def _box(frame: _Frame, level: int, left: float, width: float, total: int) -> str:
    """``@`` stands for the bottom, which is known when all is drawn."""
    share = f"{frame.name} ({frame.count} samples, {100 * frame.count / max(1, total):.1f} %)"
    fits = int((width - 4) / CHARACTER)
    name = frame.name if len(frame.name) <= fits else ".".join(frame.name.split(".")[-2:])  # the class is enough
    text = name if len(name) <= fits else name[: fits - 1] + "…" if fits > 2 else ""
    offset = (level + 1) * ROW
    label = f'<text x="{left + 3:.1f}" y="{ROW - 5}">{escape(text)}</text>' if text else ""
    return (
        f'<g transform="translate(0 @) translate(0 -{offset})"><title>{escape(share)}</title>'
        f'<rect x="{left:.1f}" width="{width:.1f}" height="{ROW - 1}" fill="{_colour(frame.name)}"/>{label}</g>'
    )


def _colour(name: str) -> str:
    """The same for the same name: warm for our code and what is called, cooler by package."""
    number = crc32(name.rpartition(".")[0].encode())
    return f"hsl({10 + number % 45} {60 + number // 64 % 30}% {62 + number // 4096 % 16}%)"
