"""What axe finds on a page as it stands, with its drawers and questions open."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page


def findings(page: Page) -> list[tuple[str, list[str]]]:
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]
