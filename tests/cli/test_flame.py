"""A flame graph shows each stack as wide as it was often, and is one file that any browser takes."""

from xml.etree import ElementTree

from penstock.cli.flame import MARGIN, WIDTH, svg

SVG = "{http://www.w3.org/2000/svg}"


def boxes(text: str) -> dict[str, tuple[float, float]]:
    """Left end and width of each frame, by its name."""
    found = {}
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert rect is not None
        found[str(title.text).rpartition(" (")[0]] = float(rect.attrib["x"]), float(rect.attrib["width"])
    return found


def test_a_frame_is_as_wide_as_it_was_seen_often_and_stands_on_its_caller() -> None:
    shown = boxes(svg("x", {("main", "read"): 3, ("main", "write", "flush"): 1}))
    whole = WIDTH - 2 * MARGIN
    assert shown["all"] == (MARGIN, whole)
    assert shown["main"] == (MARGIN, whole)
    assert shown["read"] == (MARGIN, whole * 3 / 4)
    assert shown["flush"] == shown["write"] == (MARGIN + whole * 3 / 4, whole / 4)


def test_names_cannot_break_out_of_the_file() -> None:
    assert "<script>" in boxes(svg("<b>", {("<script>", "&"): 1}))


def test_nothing_seen_is_an_empty_graph() -> None:
    assert "0 samples" in svg("x", {})
    ElementTree.fromstring(svg("x", {}))
