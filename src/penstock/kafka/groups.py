"""Consumer groups: what they have committed, setting it for one without members, removing one.

Made with kafka-python: the admin client of librdkafka aborts the whole process when a broker goes away during a
request to a group's coordinator (confluentinc/librdkafka, issue 4605). It also asks for many groups at once.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidGroupIdError,
    InvalidMetadataError,
    KafkaError,
    KafkaTimeoutError,
    NoError,
    NonEmptyGroupError,
    RetriableError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka import errors
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka.connection import KafkaConnection

TIMEOUT_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_GONE = (GroupIdNotFoundError.__name__, InvalidGroupIdError.__name__)
_IN_USE = (NonEmptyGroupError.__name__, UnknownMemberIdError.__name__)

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it logs reaches us as an error too


class Committed(NamedTuple):
    offset: int  # the next one to be consumed
    metadata: str


Offsets = dict[tuple[str, int], Committed]  # by topic and partition
Answer = TypeVar("Answer")


class Groups:
    """A client of its own, made when first needed and thrown away after a failure. May be shared by threads."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._client: Any = None
        self._lock = threading.Lock()

    def offsets(self, groups: Iterable[str]) -> dict[str, Offsets]:
        """What each group has committed; a group that does not exist has committed nothing."""
        names = sorted(set(groups))
        if not names:
            return {}
        answered = self._ask("offsets of groups cannot be read", lambda client: client.list_group_offsets(names))
        return {
            group: {
                (at.topic, at.partition): Committed(c.offset, c.metadata) for at, c in found.items() if c.offset >= 0
            }
            for group, found in answered.items()
        }

    def commit(self, group: str, topic: str, positions: Mapping[int, int], metadata: str) -> None:
        """Sets the group's offsets. Raises Misconfigured when somebody consumes with the group."""
        offsets = {TopicPartition(topic, p): OffsetAndMetadata(at, metadata, -1) for p, at in positions.items()}
        what = f"group {group} cannot be set"

        def request(client: Any) -> set[str]:
            return _lasting({error.__name__ for error in client.alter_group_offsets(group, offsets).values()})

        for outcome in self._ask(what, request) - {NoError.__name__}:
            raise _refusal(what, outcome)

    def delete(self, group: str) -> None:
        """Deletes it; one that is gone already is fine. Raises Misconfigured when somebody consumes with it."""
        what = f"group {group} cannot be deleted"
        outcomes = self._ask(what, lambda client: _lasting(set(client.delete_groups([group]).values())))
        for outcome in outcomes - {"OK", *_GONE}:
            raise _refusal(what, outcome)

    def close(self) -> None:
        with self._lock:
            self._forget_client()

    def _ask(self, what: str, request: Callable[[Any], Answer]) -> Answer:
        """Tries until the time is up: a coordinator that has just moved or begun is a matter of moments."""
        deadline = time.monotonic() + self._timeout_seconds
        with self._lock:
            while True:
                try:
                    if self._client is None:
                        self._client = self._connect(deadline)
                    return request(self._client)
                except KafkaError as error:
                    self._forget_client()  # it would ask a coordinator it remembers, for ever
                    is_passing = isinstance(error, RetriableError | KafkaTimeoutError)
                    if not is_passing or time.monotonic() + _PAUSE_SECONDS > deadline:
                        raise Unavailable(f"{what}: {error}") from error
                time.sleep(_PAUSE_SECONDS)

    def _connect(self, deadline: float) -> KafkaAdminClient:
        if self._connection.security is not None:  # kafka-python would try on with a password that is wrong
            self._connection.check(max(0.1, deadline - time.monotonic()))
        left_ms = max(100, int(1000 * (deadline - time.monotonic())))
        return KafkaAdminClient(
            **self._connection.group_client_config(), bootstrap_timeout_ms=left_ms, request_timeout_ms=5000
        )

    def _forget_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _lasting(outcomes: set[str]) -> set[str]:
    """The outcomes by name, unless one of them will pass: that one is raised, for another try."""
    for name in outcomes:
        error = getattr(errors, name, None)
        if error is not None and issubclass(error, RetriableError) and not issubclass(error, InvalidMetadataError):
            raise error  # (a topic that is gone would also count as passing)
    return outcomes


def _refusal(what: str, error_name: str) -> PenstockError:
    if error_name in _IN_USE:
        return Misconfigured(
            f"{what}: somebody consumes with it",
            hint="the groups of triggers belong to Penstock: give that consumer a group of its own",
        )
    return Unavailable(f"{what}: {error_name.removesuffix('Error')}")
