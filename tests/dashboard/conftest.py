"""A real Chromium on the dashboard of a running system.

No test may leave an error in the console, nor may a page ask a foreign host.

visit("#/subscriptions")                            a page in a fresh browser context, once it has been drawn
visit("#/", size=(390, 844), theme="dark")
visit.allow("net::ERR_")                           what a test provokes itself, such as a cut feed
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.conftest import System
from tests.tools import tool

DESK = (1440, 900)
PATIENCE_MS = 20_000  # the machine may be busy; what must be quick is measured

expect.set_options(timeout=PATIENCE_MS)

Theme = Literal["light", "dark"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = tool("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visits:
    """The pages of one test, and all that went wrong on them."""

    browser: Browser
    system: System
    faults: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def __call__(
        self, address: str = "#/", *, size: tuple[int, int] = DESK, theme: Theme = "light", wait: bool = True
    ) -> Page:
        viewport = {"width": size[0], "height": size[1]}
        context = self.browser.new_context(viewport=viewport, color_scheme=theme)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        self.contexts.append(context)
        page = self.tab(context)
        page.goto(f"{self.system.admin_url}/{address}")
        if wait:
            page.wait_for_selector("body[data-feed=live] .page h1")
        return page

    def tab(self, context: BrowserContext) -> Page:
        """Another tab beside the first, not gone anywhere yet."""
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(f"{error.message}\n{error.stack}"))
        page.on("request", self._look)
        return page

    def allow(self, text: str) -> None:
        """Errors with this text are meant."""
        self.allowed.append(text)

    def check(self) -> None:
        for context in self.contexts:
            context.close()
        unmeant = [each for each in self.faults if not any(text in each for text in self.allowed)]
        assert unmeant == []

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type} in the console: {message.text} {message.location}")

    def _look(self, request: Request) -> None:
        host = urlsplit(request.url).netloc
        if not request.url.startswith(("data:", "blob:")) and host != urlsplit(self.system.admin_url).netloc:
            self.faults.append(f"a request to {host}: {request.url}")


@pytest.fixture
def visit(browser: Browser, penstock_up: System) -> Iterator[Visits]:
    visits = Visits(browser, penstock_up)
    yield visits
    visits.check()
