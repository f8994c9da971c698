"""Dead letters for tests, as workers write them."""

from time import time
from typing import Any

import msgspec

from penstock.contract.model import DEAD_LETTERS_TOPIC, DeadLetter, encode
from penstock.kafka.connection import KafkaConnection
from tests.control.conftest import TOPIC

EVENT = b'{"specversion":"1.0","id":"%s","source":"/s","type":"t","data_base64":"aGk="}'
LONG_AGO = 100_000.0  # seconds: old enough that nobody takes it for a present failure


def letter(uid: str, offset: int, code: int, reason: str, **more: Any) -> DeadLetter:
    id_ = f"e{offset}"
    known: dict[str, Any] = {
        "id": id_, "source": "/s", "type": "t", "kind": "Trigger", "namespace": "default", "name": "audit",
        "uid": uid, "topic": TOPIC, "partition": 0, "offset": offset, "outcome": "given up", "reason": reason,
        "code": code, "attempts": 1, "time": time() - LONG_AGO + offset,
        "event": msgspec.Raw(EVENT % id_.encode()), "answer": "no" if code else "",
    }  # fmt: skip
    return DeadLetter(**{**known, **more})


def write(kafka: KafkaConnection, *letters: DeadLetter) -> None:
    producer = kafka.producer()
    for each in letters:
        producer.produce(DEAD_LETTERS_TOPIC, encode(each), each.key.encode())
    assert producer.flush(10) == 0


def the_fifty(uid: str, **more: Any) -> list[DeadLetter]:
    """503×40, timeout×7, 400×3."""
    failures = [(503, "status 503")] * 40 + [(0, "timed out after 1.5 s")] * 7 + [(400, "status 400")] * 3
    return [letter(uid, n, code, reason, **more) for n, (code, reason) in enumerate(failures)]
