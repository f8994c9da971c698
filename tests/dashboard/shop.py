"""A broker with subscribers that fail as an event's attribute ``n`` says, for pages about events and dead letters."""

import json
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, remove, trigger

DATA = b'{"order": 17, "note": "it\'s 100 % \xc3\xbcber"}'


@dataclass
class Shop:
    """``billing`` wants ``order.…``, fails by ``n`` and is not retried; ``audit`` takes an event the third time."""

    system: System
    name: str
    sink: Sink = field(default_factory=lambda: Sink().start())
    tries: Counter[str] = field(default_factory=Counter)
    resources: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"Broker/default/{self.name}"

    def open(self) -> "Shop":
        self.sink.answer("/billing", with_=self._bill)
        self.sink.answer("/audit", with_=self._audit)
        retry = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT0.4S"}
        self.resources = [
            broker(self.name),
            trigger(f"{self.name}-billing", self.name, f"{self.sink.url}/billing",
                    filters=[{"prefix": {"type": "order."}}], delivery={"timeout": "PT5S"}),
            trigger(f"{self.name}-audit", self.name, f"{self.sink.url}/audit",
                    filters=[{"cesql": "type LIKE 'audit.%' AND n = '0'"}], delivery=retry),
        ]  # fmt: skip
        apply(self.system, *self.resources)
        return self

    def close(self) -> None:
        remove(self.system, *self.resources)
        self.sink.stop()

    def heal(self) -> None:
        self.sink.answer("/billing", status=200)

    def send(self, id_: str, type_: str = "order.created", n: int = 0, data: bytes = DATA, **more: str) -> None:
        headers = {
            "ce-specversion": "1.0", "ce-id": id_, "ce-source": "/shop/checkout", "ce-type": type_,
            "ce-subject": f"customer-{n % 7}", "ce-n": str(n), "content-type": "application/json",
        }  # fmt: skip
        headers |= {f"ce-{name}": value for name, value in more.items()}
        url = f"{self.system.ingress_url}/default/{self.name}"
        urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20).read()

    def send_many(self, ids: list[str], type_: str, size: int = 100) -> None:
        """In batches, so that they come in a burst."""
        for begin in range(0, len(ids), size):
            events = [
                {"specversion": "1.0", "id": id_, "source": "/shop", "type": type_, "data": {"n": n}}
                for n, id_ in enumerate(ids[begin : begin + size])
            ]
            headers = {"content-type": "application/cloudevents-batch+json"}
            url = f"{self.system.ingress_url}/default/{self.name}"
            sent = urllib.request.Request(url, json.dumps(events).encode(), headers)
            urllib.request.urlopen(sent, timeout=30).read()

    def _bill(self, request: Request) -> Answer:
        n = int(request.headers["ce-n"])
        if n < 40:
            return Answer(503, b'{"error": "database is read-only"}')
        return Answer(200, delay_seconds=20.0) if n < 47 else Answer(400, b"amount must be positive")

    def _audit(self, request: Request) -> Answer:
        id_ = request.headers["ce-id"]
        self.tries[id_] += 1
        return Answer(500 if self.tries[id_] < 3 else 200)
