"""Dead letters and jobs in the browser: groups, the question before a redrive, undo, progress."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import System
from tests.dashboard.axe import findings
from tests.dashboard.conftest import Visits
from tests.dashboard.shop import Shop
from tests.waiting import until


@pytest.fixture(scope="module")
def shop(penstock_up: System) -> Iterator[Shop]:
    """503×40, timeout×7, 400×3: fifty dead letters of one subscription."""
    opened = Shop(penstock_up, "dead-shop").open()
    for n in range(50):
        opened.send(f"order-{n}", n=n)
    opened.sink.wait_for(50, path="/billing", timeout_seconds=90)
    yield opened
    opened.close()


def of_shop(page: Page) -> Page:
    """Only the letters of this module's subscription: the system is shared."""
    page.get_by_label("Search by id, type, reason").fill("dead-shop-billing")
    return page


def test_fifty_failures_are_three_groups_and_two_clicks_redrive_forty(visit: Visits, shop: Shop) -> None:
    """Kept promise: groups with a sample; a plan with count, target, rate and a warning; then it happens once."""
    page = of_shop(visit("#/deadletters"))
    groups = page.get_by_role("region", name="Groups of dead letters").locator("tbody tr")
    expect(groups).to_have_count(3)
    until(lambda: [each.split("\t")[2] for each in groups.all_inner_texts()] == ["40", "7", "3"], "40, 7, 3")
    kinds = [groups.nth(n).locator(".status").first.inner_text() for n in range(3)]
    assert kinds == ["answered 503", "timeout", "answered 400"]
    expect(groups.nth(0)).to_contain_text("database is read-only")
    expect(groups.nth(0)).to_contain_text("still failing")

    before = shop.sink.count("/billing")
    page.get_by_role("button", name="Redrive 40 letters of Trigger/default/dead-shop-billing, answered 503").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("40 events")
    expect(question).to_contain_text(f"{shop.sink.url}/billing")
    expect(question).to_contain_text("its subscriber still fails")
    assert question.get_by_label("Events per second").input_value() == "100"
    assert findings(page) == []
    shop.heal()
    question.get_by_role("button", name="Redrive 40").click()
    shop.sink.wait_for(before + 40, path="/billing")
    expect(groups).to_have_count(2)
    again = [each.headers["ce-id"] for each in shop.sink.at("/billing")[before:]]
    assert sorted(again) == sorted(f"order-{n}" for n in range(40))

    page.get_by_role("link", name="Watch it").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.locator("aside.drawer")).to_contain_text("40 of 40")
    expect(page.locator("aside.drawer .status").first).to_have_text("done")


def test_one_can_be_undone_within_five_seconds(visit: Visits, shop: Shop) -> None:
    """Kept promise: nothing is sent before the five seconds are over, and Undo takes it back."""
    page = of_shop(visit("#/deadletters"))
    row = page.get_by_role("region", name="Dead letters", exact=True).locator("tr[data-key]", has_text="order-48")
    before = shop.sink.count("/billing")
    row.get_by_role("button", name="Redrive").click()
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("nothing was sent")
    expect(row).to_be_visible()
    page.goto(f"{shop.system.admin_url}/#/jobs")
    expect(page.locator("tr[data-key]").first).to_contain_text("cancelled")
    assert shop.sink.count("/billing") == before


def test_one_and_all_since_it_are_sent(visit: Visits, shop: Shop) -> None:
    """Kept promise: a letter's drawer shows event and answer; it and all after it go with one question."""
    page = of_shop(visit("#/deadletters"))
    letters = page.get_by_role("region", name="Dead letters", exact=True).locator("tr[data-key]")
    oldest = letters.last  # the newest stands first
    id_ = oldest.locator("td").first.inner_text()
    oldest.locator("td").nth(1).click()
    drawer = page.locator("aside.drawer")
    expect(drawer.get_by_role("heading", name=id_)).to_be_visible()
    expect(drawer).to_contain_text('"order": 17')
    before, waiting = shop.sink.count("/billing"), letters.count()
    drawer.get_by_role("button", name="Redrive all since this one").click()
    page.get_by_role("dialog").get_by_role("button", name=f"Redrive {waiting}", exact=True).click()
    shop.sink.wait_for(before + waiting, path="/billing")
    expect(page.get_by_role("region", name="Dead letters", exact=True)).to_have_count(0)
    expect(drawer).to_contain_text("sent again")


def test_an_unknown_letter_and_an_unknown_job_say_so(visit: Visits) -> None:
    page = visit(f"#/deadletters?open={quote('nobody/0/1', safe='')}")
    expect(page.locator("aside.drawer")).to_contain_text("It was sent again, or retention has taken it.")
    page = visit("#/jobs?open=00000000")
    expect(page.locator("aside.drawer")).to_contain_text("There is no such job")
