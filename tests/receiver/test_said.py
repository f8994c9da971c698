"""What the receiver says about events that it refuses, for whoever asks for that much."""

import logging
from typing import Any, cast

import pytest

from penstock.contract.model import Route
from penstock.errors import Rejected
from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.inflight import Inflight
from penstock.receiver.request import Request
from penstock.telemetry.logs import fields_of


def refuse() -> None:
    nowhere = cast(Any, None)  # neither routes nor Kafka are asked any more
    request = Request(b"POST", b"/default/shop", [(b"ce-id", b"42"), (b"ce-source", b"/web"), (b"ce-type", b"")])
    request.route = Route("/default/shop", "shop-topic")
    Ingress(nowhere, nowhere, Inflight(1, 1)).refused(request, answers.rejected(Rejected("no type")))


def test_a_refused_event_is_named_in_debug(caplog: pytest.LogCaptureFixture) -> None:
    """Kept promise: its id leads to the reason."""
    with caplog.at_level(logging.DEBUG, "penstock.receiver"):
        refuse()
    (record,) = caplog.records
    assert record.getMessage() == "/default/shop refused with 400: bad event"
    assert fields_of(record) == {"event": "42", "source": "/web", "topic": "shop-topic", "status": 400}


def test_otherwise_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A sender that goes wrong a thousand times a second does not fill the disk."""
    with caplog.at_level(logging.INFO, "penstock.receiver"):
        refuse()
    assert not caplog.records
