"""Pages about events for everybody: no finding of axe, in light and dark, on a desk and in a hand."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.dashboard.conftest import Theme, Visits


@pytest.mark.parametrize(("theme", "size"), [("light", (1440, 900)), ("dark", (390, 844))])
@pytest.mark.parametrize("page_name", ["events", "deadletters", "jobs", "playground"])
def test_pages_about_events_have_no_findings(
    visit: Visits, page_name: str, theme: Theme, size: tuple[int, int]
) -> None:
    page = visit(f"#/{page_name}", theme=theme, size=size)
    page.wait_for_selector(".table")
    found = [(each["id"], [n["html"] for n in each["nodes"]]) for each in Axe().run(page).response["violations"]]
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
