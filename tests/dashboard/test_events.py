"""Events in the browser: search, what became of one, a command that sends it again, the live tail."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import System
from tests.dashboard.axe import findings
from tests.dashboard.conftest import Visits
from tests.dashboard.shop import Shop
from tests.signals import kill
from tests.sink import Request
from tests.waiting import until

BURST = 1000


@pytest.fixture(scope="module")
def shop(penstock_up: System) -> Iterator[Shop]:
    """Ten orders, and one event that its subscriber takes the third time."""
    opened = Shop(penstock_up, "event-shop").open()
    opened.heal()
    for n in range(10):
        opened.send(f"found-{n}", n=n)
    opened.send("thrice", "audit.login", n=0, note="it's%20%22fine%22%20%C3%BC")
    opened.sink.wait_for(3, path="/audit", timeout_seconds=90)
    opened.sink.wait_for(10, path="/billing", timeout_seconds=90)
    yield opened
    opened.close()


def search(visit: Visits, shop: Shop, **asked: str) -> Page:
    return visit("#/events?" + urllib.parse.urlencode({"of": shop.key, **asked}))


def rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Events", exact=True).locator("tbody tr")


def verdict(page: Page, name: str) -> Locator:
    return page.locator(f"li.verdict[data-key='Trigger/default/{name}']")


def test_an_event_is_found_with_every_attempt(visit: Visits, shop: Shop) -> None:
    """Kept promise: 500, 500, 200 are three bars, with gaps as the log has them; who did not want it says why."""
    page = search(visit, shop, id="thrice")
    expect(rows(page)).to_have_count(1)
    rows(page).first.locator("td").nth(2).click()
    audit = verdict(page, "event-shop-audit")
    expect(audit).to_have_attribute("data-outcome", "DELIVERED")
    bars = audit.locator(".timeline .bar")
    expect(bars).to_have_count(3)
    assert [bars.nth(n).get_attribute("data-status") for n in range(3)] == ["500", "500", "200"]
    gaps = [int(each.get_attribute("data-ms") or 0) for each in audit.locator(".timeline .gap").all()]
    came = [each.received for each in shop.sink.at("/audit") if each.headers["ce-id"] == "thrice"][:3]
    measured = [(later - earlier) * 1000 for earlier, later in pairwise(came)]
    took = [int(bars.nth(n).get_attribute("data-ms") or 0) for n in range(3)]
    for gap, (spent, next_spent), whole in zip(gaps, pairwise(took), measured, strict=True):
        assert abs(gap + spent - whole) < 100 + spent + next_spent  # each came some time before it was answered
    filtered = verdict(page, "event-shop-billing")
    expect(filtered).to_have_attribute("data-outcome", "FILTERED")
    expect(filtered.locator(".because")).to_contain_text("order.")
    expect(page.locator("aside.drawer")).to_contain_text('"order": 17')
    assert findings(page) == []


def test_the_copied_command_sends_the_same_bytes(visit: Visits, shop: Shop) -> None:
    """Kept promise: body and ce- headers are byte for byte those of the delivery."""
    page = search(visit, shop, id="thrice")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    rows(page).first.locator("td").nth(2).click()
    verdict(page, "event-shop-audit").get_by_role("button", name="curl").click()
    expect(page.locator("#toasts")).to_contain_text("Copied")
    command = page.evaluate("navigator.clipboard.readText()")
    delivered = next(each for each in shop.sink.at("/audit") if each.headers["ce-id"] == "thrice")
    before = shop.sink.count("/audit")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=30)
    again = shop.sink.wait_for(before + 1, path="/audit")[-1]
    assert _essence(again) == _essence(delivered)
    page.locator("aside.drawer").get_by_role("button", name="Copy as JSON").click()
    until(lambda: page.evaluate("navigator.clipboard.readText()").startswith("{"), "the event as JSON")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (copied["id"], copied["note"], copied["data"]["order"]) == ("thrice", 'it\'s "fine" ü', 17)


def _essence(request: Request) -> tuple[dict[str, str], bytes]:
    names = [each for each in request.headers if each.startswith("ce-") or each == "content-type"]
    return {name: request.headers[name] for name in names}, request.body


def test_filters_and_drawer_come_back_from_the_address(visit: Visits, shop: Shop) -> None:
    """Kept promise: four filters and an open drawer by URL in a fresh browser are the same."""
    page = visit("#/events")
    page.get_by_label("In", exact=True).select_option(shop.key)
    page.get_by_label("Type (order.*)").fill("order.*")
    page.get_by_label("Source").fill("/shop/checkout")
    page.get_by_label("Subject").fill("customer-3")
    page.get_by_role("button", name="Search").click()
    expect(rows(page)).to_have_count(1)
    rows(page).first.locator("td").nth(2).click()
    expect(page.locator("aside.drawer h2").first).to_have_text("found-3")
    expect(verdict(page, "event-shop-billing")).to_be_visible()
    fresh = visit(page.url.partition("/#")[2].join(("#", "")))
    expect(rows(fresh)).to_have_count(1)
    expect(fresh.locator("aside.drawer h2").first).to_have_text("found-3")
    expect(verdict(fresh, "event-shop-billing")).to_be_visible()
    for label, value in (("Type (order.*)", "order.*"), ("Source", "/shop/checkout"), ("Subject", "customer-3")):
        assert fresh.get_by_label(label).input_value() == value
    assert fresh.get_by_label("In", exact=True).input_value() == shop.key


def test_an_empty_page_says_why(visit: Visits, shop: Shop) -> None:
    """Kept promise: nothing there, hidden by the filter, or older than what is kept."""
    page = search(visit, shop, subject="nobody")
    expect(page.locator(".empty")).to_contain_text("No event fits.")
    expect(page.locator(".empty")).to_contain_text("The filter hid 11 events")
    long_ago = (datetime.now(UTC) - timedelta(days=400)).strftime("%Y-%m-%dT%H:%M:%S")
    page = search(visit, shop, until=long_ago)
    expect(page.locator(".empty")).to_contain_text("That is older than what is kept.")


def test_rows_and_skips_of_a_tail_add_up(visit: Visits, shop: Shop) -> None:
    """Kept promise: of a burst of 1,000 every event is a row or a stated skip."""
    page = search(visit, shop, tail="1", type="burst.*")
    expect(page.locator(".live-mark")).to_contain_text("Live")
    shop.send_many([f"burst-{n}" for n in range(BURST)], "burst.event")
    counts = page.locator(".tail-counts")

    def told() -> tuple[int, int]:
        return int(counts.get_attribute("data-rows") or 0), int(counts.get_attribute("data-skipped") or 0)

    until(lambda: sum(told()) >= BURST, "rows and skips")
    shown, skipped = told()
    assert shown + skipped == BURST
    assert shown > 0
    expect(counts).to_contain_text("1,000 events since")
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Tail", exact=True)).to_be_visible()


def test_without_a_dispatcher_the_search_says_why_and_recovers(visit: Visits, shop: Shop) -> None:
    """Kept promise: the page says who is away and what to do; a search works again when he is back."""
    visit.allow("503")
    page = search(visit, shop)
    expect(rows(page).first).to_be_visible()
    killed = shop.system.pid("dispatcher")
    kill(killed)
    page.get_by_role("button", name="Search").click()
    fault = page.locator(".page-events .fault")
    expect(fault).to_contain_text("the dispatcher")
    expect(fault).to_contain_text("penstock logs dispatcher")
    expect(rows(page).first).to_be_visible()  # the last result stays
    until(lambda: shop.system.pid("dispatcher") not in (0, killed), "a new dispatcher", 120)

    until(lambda: _searches(shop), "a search that works", 120)
    page.get_by_role("button", name="Search").click()
    expect(fault).to_have_count(0, timeout=60_000)


def _searches(shop: Shop) -> bool:
    asked = urllib.request.Request(
        f"{shop.system.admin_url}/api/penstock/search",
        json.dumps({"of": shop.key}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        return b'"done"' in urllib.request.urlopen(asked, timeout=60).read()
    except OSError:
        return False
