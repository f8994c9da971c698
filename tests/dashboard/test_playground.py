"""The filter playground in the browser: verdicts as one types, by the evaluator that delivers."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import System
from tests.dashboard.axe import findings
from tests.dashboard.conftest import Visits
from tests.dashboard.shop import Shop


@pytest.fixture(scope="module")
def shop(penstock_up: System) -> Iterator[Shop]:
    """Twenty events: twelve orders, eight logins."""
    opened = Shop(penstock_up, "play-shop").open()
    opened.heal()
    for n in range(20):
        opened.send(f"play-{n}", "order.created" if n < 12 else "audit.login", n=n)
    yield opened
    opened.close()


def playground(visit: Visits, shop: Shop) -> Page:
    return visit("#/playground?" + urlencode({"of": shop.key}))


def verdicts(page: Page) -> Locator:
    return page.get_by_role("region", name="Verdicts").locator("tbody tr")


def test_verdicts_follow_the_filter_and_a_bad_one_points_at_its_column(visit: Visits, shop: Shop) -> None:
    """Kept promise: what is typed is tried on the last 20 events; a mistake is shown where it is."""
    page = playground(visit, shop)
    summary = page.locator(".state-line strong")
    expect(summary).to_have_text("12 of 20 events match.")
    expect(verdicts(page)).to_have_count(20)
    expression = page.get_by_label("Expression 1")
    expression.fill("type LIKE 'audit.%' AND n = '19'")
    expect(summary).to_have_text("1 of 20 events match.")
    expect(verdicts(page).filter(has_text="play-18")).to_contain_text("n = '19'")
    expression.fill("type LIKE 'audit.%' AND")
    expect(page.locator(".pointed")).to_contain_text("Column 24: the expression ends too early")
    expect(page.locator(".pointed pre")).to_have_text("type LIKE 'audit.%' AND\n" + " " * 23 + "^")
    expect(page.locator(".old")).to_be_visible()
    assert findings(page) == []
    expect(verdicts(page)).to_have_count(20)
    expression.fill("type LIKE 'audit.%'")
    expect(summary).to_have_text("8 of 20 events match.")
    expect(page.locator(".pointed")).to_have_count(0)


def test_conditions_are_joined_and_nested(visit: Visits, shop: Shop) -> None:
    """Kept promise: exact, prefix and suffix, all, any and none of them, and JSON for what is nested; all by URL."""
    page = playground(visit, shop)
    summary = page.locator(".state-line strong")
    page.get_by_label("Dialect 1").select_option("prefix")
    page.get_by_label("Attribute 1").fill("type")
    page.get_by_label("Value 1").fill("audit.")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Attribute 2").fill("id")
    page.get_by_label("Value 2").fill("play-3")
    expect(summary).to_have_text("0 of 20 events match.")
    page.get_by_label("Events match when").select_option("any")
    expect(summary).to_have_text("9 of 20 events match.")
    page.get_by_label("Events match when").select_option("not")
    expect(summary).to_have_text("11 of 20 events match.")
    expect(page.locator("pre.code")).to_contain_text("not:")
    fresh = visit("#" + page.url.partition("#")[2])
    expect(fresh.locator(".state-line strong")).to_have_text("11 of 20 events match.")
    page.get_by_label("Events match when").select_option("json")
    page.get_by_role("textbox", name="Filters as JSON").fill(
        '[{"all": [{"suffix": {"type": ".login"}}, {"not": {"exact": {"n": "12"}}}]}]'
    )
    expect(summary).to_have_text("7 of 20 events match.")
    page.get_by_role("textbox", name="Filters as JSON").fill('[{"exactly": {}}]')
    expect(page.locator(".pointed")).to_contain_text("unknown dialect")
