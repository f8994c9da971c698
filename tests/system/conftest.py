"""What a test starts ends with it, even when it fails: the next one has the machine to itself."""

from collections.abc import Iterator

import pytest

from tests.conftest import System
from tests.system import resources
from tests.system.sender import MakeSender, Sender


@pytest.fixture
def make_sender() -> Iterator[MakeSender]:
    """Makes senders that are at work: ``sender = make_sender(url, 100)``."""
    made: list[Sender] = []

    def make(url: str, rate: int, name: str = "sent") -> Sender:
        made.append(Sender(url, rate, name=name).start())
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of what it has applied."""
    yield
    left, resources.applied[:] = list(resources.applied), []
    if left:
        system: System = request.getfixturevalue("penstock_up")
        resources.remove(system, *left)
