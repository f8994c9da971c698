"""The dashboard where a token is required: signing in by a link, and what it shows without a session."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.ports import free_port
from tests.attacks.admin_port import AdminPort, admin_port
from tests.conftest import System
from tests.dashboard.axe import findings
from tests.dashboard.conftest import Theme, Visits

TITLE = "You are not signed in"


def visits_of(browser: Browser, admin: AdminPort) -> Visits:
    visits = Visits(browser, System("http://127.0.0.1:1", f"http://{admin.host}", "", admin.data_dir))
    visits.allow("401 (Unauthorized)")
    visits.allow("503 (Service Unavailable)")
    visits.allow("net::ERR_")
    visits.allow("403 (Forbidden)")
    return visits


def link(admin: AdminPort) -> str:
    path = str(admin.data_dir / "run" / "admin.token")
    return admin.run("dashboard", "--no-open", "--token-file", path).stdout.strip()


def overflow(page: Page) -> int:
    """By how many pixels the page or its frame is too wide."""
    parts = "[document.documentElement, ...document.querySelectorAll('#top')]"
    return int(page.evaluate(f"Math.max(...{parts}.map((each) => each.scrollWidth - each.clientWidth))"))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_without_a_session_the_dashboard_says_how_to_get_one(
    browser: Browser, tmp_path: Path, size: tuple[int, int], theme: Theme
) -> None:
    """Kept promise: one clear and accessible page instead of errors, which goes on by itself."""
    with admin_port(tmp_path, "--require-token") as admin:
        visits = visits_of(browser, admin)
        page = visits("#/subscriptions", size=size, theme=theme, wait=False)
        expect(page.locator("h1")).to_have_text(TITLE)
        expect(page.locator(".command code")).to_have_text("penstock dashboard")
        expect(page.locator("#banner")).to_be_empty()
        assert findings(page) == []
        assert overflow(page) <= 0
        page.screenshot(path=tmp_path / "signed-out.png")

        other = visits.tab(page.context)
        used = link(admin)
        other.goto(used)
        expect(other.locator("body[data-feed=live]")).to_be_visible()
        assert "code=" not in other.url
        expect(page.locator("body[data-feed=live]")).to_be_visible()  # without a click
        expect(page.locator("h1")).not_to_have_text(TITLE)

        page.context.clear_cookies()
        other.goto(used)
        expect(other.locator("h1")).to_have_text("This link no longer works")
        assert findings(other) == []
        assert overflow(other) <= 0
        other.screenshot(path=tmp_path / "used-link.png")
        visits.check()


def test_a_session_that_has_ended_shows_the_way_back(browser: Browser, tmp_path: Path) -> None:
    """Kept promise: after a restart of the controller all sessions are gone, and the open page shows what to do."""
    port = free_port()
    with admin_port(tmp_path, "--require-token", port=port) as admin:
        visits = visits_of(browser, admin)
        page = visits(link(admin).partition("/")[2].partition("/")[2].partition("/")[2], wait=False)
        expect(page.locator("body[data-feed=live]")).to_be_visible()
    with admin_port(tmp_path, "--require-token", port=port) as admin:
        expect(page.locator("h1")).to_have_text(TITLE)
        visits.tab(page.context).goto(link(admin))
        expect(page.locator("h1")).not_to_have_text(TITLE)
        visits.check()
