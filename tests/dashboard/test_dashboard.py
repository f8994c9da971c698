"""The dashboard on a running system, seen with a real Chromium."""

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from tests.conftest import System
from tests.dashboard.conftest import PATIENCE_MS, Theme, Visits
from tests.dashboard.scene import BROKER, QUIET, Scene, set_up, take_down
from tests.sink import Sink
from tests.waiting import until

expect.set_options(timeout=PATIENCE_MS)

PAGES = (
    "#/", "#/map", "#/map?view=table", "#/brokers", f"#/brokers/Broker/default/{BROKER}", "#/subscriptions",
    "#/subscriptions/Trigger/default/failing", "#/subscriptions?open=Trigger%2Fdefault%2Fall",
    f"#/topics?open=knative-broker-default-{BROKER}", f"#/resources?open=Broker%2Fdefault%2F{BROKER}", "#/events",
    "#/deadletters", "#/jobs", "#/playground", "#/no/such/page",
)  # fmt: skip


@pytest.fixture(scope="module")
def scene(penstock_up: System) -> Iterator[Scene]:
    sink = Sink().start()
    made = set_up(penstock_up, sink)
    made.send(3, "bad")  # one trigger always has something that fails
    sink.wait_for(3, path="/failing", timeout_seconds=30)
    yield made
    take_down(made)
    sink.stop()


def mark(page: Page) -> None:
    """What a reload would wipe out."""
    page.evaluate("window.untouched = true")


def is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.untouched === true"))


def number(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    assert found, text
    return int(found[0].replace(",", ""))


def names(page: Page) -> list[str]:
    return page.locator(".table tr[data-key] td:first-child").all_inner_texts()


@pytest.mark.usefixtures("scene")
def test_the_first_load_is_quick_small_and_full_of_numbers(visit: Visits) -> None:
    """Kept promise: painted within a second, less than 150 kB for all pages together, every part is shown."""
    page = visit("#/")
    expect(page.locator(".tile")).to_have_count(7)
    expect(page.locator(".parts li.good")).to_have_count(4)
    assert "All well" in page.inner_text(".page") or page.locator(".attention li .button").count() > 0
    for address in PAGES:
        page.goto(f"{visit.system.admin_url}/{address}")
        page.wait_for_selector(".page h1")
    sizes = "performance.getEntriesByType('resource').filter(e => e.name.includes('/static/'))"
    loaded = page.evaluate(f"{sizes}.reduce((all, e) => all + e.encodedBodySize, 0)")
    assert 10_000 < loaded < 150_000

    def painted() -> float:
        page.goto("about:blank")
        page.goto(f"{visit.system.admin_url}/")
        page.wait_for_selector(".tile")
        return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))

    assert min(painted() for _ in range(3)) < 1000  # the best: others may use the machine too


def test_numbers_change_without_a_reload_and_are_true(scene: Scene, visit: Visits) -> None:
    """Kept promise: what is sent is what is shown, in the broker, its trigger and the overview."""
    broker = visit(f"#/brokers/Broker/default/{BROKER}")
    trigger = visit("#/subscriptions/Trigger/default/all")
    overview = visit("#/")
    for page in (broker, trigger, overview):
        mark(page)
    accepted, delivered = scene.accepted(), scene.row("all")["totals"]["delivered"]
    shown = broker.locator(".facts div", has_text="Accepted").locator("dd")
    done = trigger.locator(".numbers > div", has_text="Delivered").locator("span").last
    until(lambda: number(shown.inner_text()) == accepted, "the page shows what was accepted before", 30)
    rate = overview.locator(".tile b").first
    scene.send(60)
    until(lambda: float(rate.inner_text().removesuffix("/s").replace("< ", "") or 0) > 0, "events come in", 30)
    until(lambda: number(shown.inner_text()) == accepted + 60, "60 more were accepted", 30)
    until(lambda: number(done.inner_text()) == delivered + 60, "60 more were delivered", 30)
    assert all(is_marked(page) for page in (broker, trigger, overview))


@contextmanager
def frozen(system: System) -> Iterator[None]:
    """The controller neither answers nor ends: the worst kind of cut."""
    pid = system.pid("controller")
    kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        kill(pid, signal.SIGCONT)


def test_a_lost_feed_is_said_within_5_seconds_and_catches_up(scene: Scene, visit: Visits) -> None:
    """Kept promise: numbers that stand still say so, and go on by themselves."""
    visit.allow("net::ERR_")
    page = visit(f"#/brokers/Broker/default/{BROKER}")
    mark(page)
    number_shown = page.locator(".facts div", has_text="Accepted").locator("dd span")
    took: list[float] = []
    while not took or (took[-1] >= 5.5 and len(took) < 3):  # the best of three: one may be delayed
        before = scene.accepted()
        with frozen(scene.system):
            began = time.monotonic()
            page.wait_for_selector("#banner p", timeout=30_000)
            took.append(time.monotonic() - began)
            banner = page.inner_text("#banner")
            assert scene.system.admin_url in banner
            assert "penstock status" in banner
            assert float(number_shown.evaluate("e => getComputedStyle(e).opacity")) < 0.6
            scene.send(5)
        page.wait_for_selector("#banner p", state="detached", timeout=30_000)
        until(lambda total=before + 5: number(number_shown.inner_text()) == total, "it has caught up", 30)  # type: ignore[misc]
    assert min(took) < 5.5  # half a second for the browser and this test
    assert is_marked(page)


@pytest.mark.usefixtures("scene")
def test_a_link_brings_back_filters_and_drawer(visit: Visits) -> None:
    """Kept promise: four filters and an open drawer are in the URL, and a fresh browser shows the same."""
    page = visit("#/subscriptions")
    page.fill("[data-search]", "quiet-1")
    page.get_by_label("Delivering", exact=True).select_option("idle")
    page.get_by_label("Ready", exact=True).select_option("True")
    page.get_by_label("From", exact=True).select_option(f"Broker/default/{BROKER}")
    page.get_by_role("button", name="Name").click()
    expect(page.locator("tbody tr")).to_have_count(10)
    page.locator("tr", has_text="quiet-13").locator("td").nth(2).click()
    expect(page.locator(".drawer h2").first).to_have_text("Trigger/default/quiet-13")
    shown = names(page)

    fresh = visit(page.url.split("/", 3)[3])
    expect(fresh.locator("tbody tr[data-key]")).to_have_count(10)
    assert names(fresh) == shown == [f"quiet-1{n}" for n in range(10)]
    assert fresh.input_value("[data-search]") == "quiet-1"
    values = [fresh.get_by_label(label, exact=True).input_value() for label in ("Delivering", "Ready", "From")]
    assert values == ["idle", "True", f"Broker/default/{BROKER}"]
    expect(fresh.locator(".drawer h2").first).to_have_text("Trigger/default/quiet-13")
    fresh.keyboard.press("Escape")
    expect(fresh.locator(".drawer")).to_be_hidden()


def seconds_until_seen(here: Page, there: Page) -> float:
    """From the click on Pause to its sight in another browser; both run on this machine's clock."""
    there.evaluate(
        """() => { window.seen = new Promise(done => new MutationObserver(() => {
             if (document.querySelector("tr[data-key='Trigger/default/all']").innerText.includes("paused"))
               done(Date.now());
           }).observe(document.body, {subtree: true, childList: true, characterData: true})); }"""
    )
    here.evaluate(
        "() => addEventListener('click', () => { window.clicked = Date.now(); }, {once: true, capture: true})"
    )
    here.get_by_role("button", name="Pause all", exact=True).click()
    return float(there.evaluate("window.seen") - here.evaluate("window.clicked")) / 1000


def test_a_pause_is_seen_elsewhere_at_once_and_loses_nothing(scene: Scene, visit: Visits) -> None:
    """Kept promise: another browser sees it within a second; 500 sent are held, and all come after the resume."""
    here, there = visit("#/subscriptions"), visit("#/subscriptions?q=all")
    mark(there)
    row = there.locator("tr[data-key='Trigger/default/all']")
    until(lambda: scene.row("all")["lag"] == 0 and scene.subscribers() == QUIET + 2, "it has nothing to do", 30)
    before = len(scene.sink.at("/all"))
    for attempt in range(3):  # the best: others may use the machine too
        took = seconds_until_seen(here, there)
        if took < 1.0:
            break
        until(lambda: scene.subscribers() == QUIET + 1, "the dispatcher has let go of it")
        here.get_by_role("button", name="Resume all", exact=True).click()
        expect(row).not_to_contain_text("paused")
        until(lambda: scene.subscribers() == QUIET + 2, "it is served again")
        assert attempt < 2, f"the other browser saw it after {took:.1f} s"
    until(lambda: scene.subscribers() == QUIET + 1, "the dispatcher has let go of it", 30)

    ids = scene.send(500)
    expect(row).to_contain_text("held 500", timeout=30_000)
    assert len(scene.sink.at("/all")) == before
    there.get_by_role("button", name="Resume all", exact=True).click()
    expect(here.locator("tr[data-key='Trigger/default/all']")).not_to_contain_text("paused")
    scene.sink.wait_for(before + 500, path="/all", timeout_seconds=60)
    came = {each.headers["ce-id"] for each in scene.sink.at("/all")[before:]}
    assert came == set(ids)
    until(lambda: "held" not in row.inner_text() and scene.row("all")["lag"] == 0, "nothing waits", 30)
    assert is_marked(there)


@pytest.mark.usefixtures("scene")
def test_25_rows_fit_on_a_laptop_and_numbers_stand_right(visit: Visits) -> None:
    """Kept promise: at 1440×900 at least 25 rows of 32 to 36 px and at most nine columns are seen at once."""
    page = visit(f"#/subscriptions?from=Broker%2Fdefault%2F{BROKER}")
    expect(page.locator("tbody tr")).to_have_count(QUIET + 2)
    boxes = [row.bounding_box() for row in page.locator("tbody tr").all()]
    assert sum(box is not None and box["y"] + box["height"] <= 900 for box in boxes) >= 25
    assert all(box is not None and 32 <= box["height"] <= 36 for box in boxes)
    assert page.locator("thead th").count() <= 9
    assert page.locator("td.number").first.evaluate("e => getComputedStyle(e).textAlign") == "right"


@pytest.mark.usefixtures("scene")
def test_it_is_usable_on_a_phone(visit: Visits) -> None:
    """Kept promise: at 390 px no page scrolls sideways, and all pages are reachable."""
    page = visit("#/", size=(390, 844))
    for address in PAGES:
        page.goto(f"{visit.system.admin_url}/{address}")
        page.wait_for_selector(".page h1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Topics").click()
    expect(page.locator("h1")).to_have_text("Topics")
    expect(page.locator("tbody tr").first).to_be_visible()


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(visit: Visits, theme: Theme) -> None:
    """Kept promise: axe has nothing serious to say of any page in either theme."""
    page = visit("#/", theme=theme)
    options = {"resultTypes": ["violations"]}
    if theme == "dark":  # only colours differ
        options["runOnly"] = ["color-contrast"]
    found = []
    page.evaluate(AXE_SCRIPT)
    for address in PAGES:
        page.goto(f"{visit.system.admin_url}/{address}")  # another hash: the document stays
        page.wait_for_selector(".page h1")
        for each in page.evaluate("options => axe.run(document, options)", options)["violations"]:
            if each["impact"] in ("serious", "critical"):
                found.append((address, each["id"], [node["html"][:120] for node in each["nodes"][:2]]))
    assert found == []


@pytest.mark.usefixtures("scene")
def test_the_keyboard_is_enough(visit: Visits) -> None:
    """Kept promise: search, rows, opening, pausing and help work without a mouse; nothing is taken while typing."""
    page = visit("#/subscriptions?sort=name")
    page.keyboard.press("/")
    page.keyboard.type("quiet-2j?")
    assert page.input_value("[data-search]") == "quiet-2j?"
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.press("Escape")
    expect(page.locator("tbody tr")).to_have_count(6)
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator("tr.chosen")).to_contain_text("quiet-20")
    page.keyboard.press("p")
    expect(page.locator("tr.chosen")).to_contain_text("paused")
    page.keyboard.press("p")
    expect(page.locator("tr.chosen")).not_to_contain_text("paused")
    page.keyboard.press("Enter")
    expect(page.locator(".drawer h2").first).to_have_text("Trigger/default/quiet-20")
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.help")).to_have_count(0)


@pytest.mark.usefixtures("scene")
def test_the_theme_is_kept(visit: Visits) -> None:
    """Kept promise: the switch wins over the system's theme, also after a reload."""
    page = visit("#/", theme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector(".tile")
    assert page.evaluate(ground) == dark


def test_a_subscription_tells_why_it_fails_and_when_it_tries_again(scene: Scene, visit: Visits) -> None:
    """Kept promise: n of max, the countdown, the answer of the subscriber, positions, the policy as an axis."""
    until(lambda: scene.row("failing")["retrying"] > 0, "it waits for its next try", 20)
    page = visit("#/subscriptions/Trigger/default/failing")
    expect(page.locator(".facts .state")).to_contain_text(re.compile(r"(retrying|failing|parked) \d+ of 20"))
    expect(page.locator(".card", has_text="Last errors")).to_contain_text("503")
    expect(page.locator(".bars li", has_text="5xx")).to_be_visible()
    expect(page.locator(".axis .point.failed").first).to_be_visible()
    expect(page.locator(".axis")).to_contain_text("20 s")
    expect(page.locator(".card", has_text="Filter").locator("pre").last).to_contain_text("type: bad")
    positions = page.locator(".card", has_text="Positions").locator("tbody tr")
    lags = [number(each.locator("td").last.inner_text()) for each in positions.all()]
    assert sum(lags) == scene.row("failing")["lag"] > 0


@pytest.mark.usefixtures("scene")
def test_the_map_and_its_table_say_the_same(visit: Visits) -> None:
    """Kept promise: who cannot see the map reads the table."""
    page = visit(f"#/map?q=default%2F{BROKER}")
    expect(page.locator("a.flow-node", has_text="failing")).to_be_visible()
    drawn = {text for text in page.locator("a.flow-node text").all_text_contents() if text != BROKER}
    page.get_by_role("button", name="Table").click()
    expect(page.locator("tbody tr")).to_have_count(QUIET + 2)
    assert set(names(page)) == {each for each in drawn if not each.isdigit()}
    assert "view=table" in page.url


def test_an_unknown_address_and_a_missing_resource_are_explained(visit: Visits) -> None:
    """Kept promise: an error page says what is wrong and leads on."""
    visit.allow("nobody")
    page = visit("#/no/such/page")
    expect(page.locator("h1")).to_have_text("There is no such page")
    page.get_by_role("link", name="the overview").click()
    expect(page.locator("h1")).to_have_text("Overview")
    page.goto(f"{visit.system.admin_url}/#/subscriptions/Trigger/default/nobody")
    expect(page.locator(".fault")).to_contain_text('trigger "nobody" does not exist')


@pytest.mark.usefixtures("scene")
def test_resources_are_shown_as_yaml_that_can_be_applied(scene: Scene, visit: Visits) -> None:
    """Kept promise: what the page prints is what `penstock apply` takes."""
    page = visit("#/resources?open=Trigger%2Fdefault%2Ffailing")
    yaml = page.locator(".drawer pre").inner_text()
    expect(page.locator(".conditions li", has_text="SubscriberResolved")).to_be_visible()
    told = scene.system.run("apply", "-f", "-", stdin=yaml)
    assert (told.stdout, told.returncode) == ("trigger/failing unchanged\n", 0), told.stderr
