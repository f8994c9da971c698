"""What the pages say while a part is away, and before the controller is ready."""

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from penstock.ports import free_port
from tests.conftest import PENSTOCK, System
from tests.dashboard.conftest import Visits
from tests.waiting import until

ADDRESSES = ("#/", "#/map", "#/brokers", "#/subscriptions", "#/topics", "#/resources", "#/deadletters", "#/jobs")


def _listens(system: System) -> bool:
    try:
        with urllib.request.urlopen(system.admin_url + "/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def lonely_controller(folder: Path) -> Iterator[System]:
    """A controller whose Kafka is not there."""
    admin, kafka = free_port(), free_port()
    system = System("http://127.0.0.1:1", f"http://127.0.0.1:{admin}", f"127.0.0.1:{kafka}", folder)
    command = [*PENSTOCK, "controller", "--admin-port", str(admin), "--bootstrap-servers", system.bootstrap_servers]
    with (folder / "controller.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, "PENSTOCK_DATA_DIR": str(folder)}
        )
        try:
            until(lambda: _listens(system), "the controller listens", 30)
            yield system
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with lonely_controller(tmp_path_factory.mktemp("lonely")) as system:
        yield system


def test_every_page_opens_without_kafka_and_says_why(browser: Browser, lonely: System) -> None:
    """Kept promise: cause, address and remedy on every page, instead of an empty system or a blank screen."""
    visits = Visits(browser, lonely)
    visits.allow("503 (Service Unavailable)")
    page = visits(wait=False)
    for address in ADDRESSES:
        page.goto(f"{lonely.admin_url}/{address}")
        expect(page.locator(".page h1")).to_be_visible()
        banner = page.locator("#banner")
        expect(banner).to_contain_text(lonely.bootstrap_servers)
        expect(banner).to_contain_text("penstock")
        shown = page.inner_text(".page")
        assert "yet" not in shown, f"{address} takes what it does not know for nothing: {shown}"
    visits.check()
