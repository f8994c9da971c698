"""Promises of secured clusters, on a real one with every way in: each works with each client, mistakes are quick."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from tests.certificates import Authority, needs_openssl
from tests.kafka.secure import (
    MECHANISMS,
    PASSWORD,
    USER,
    SecureKafka,
    Way,
    connection,
    running,
    tls_server,
    token_endpoint,
)

from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Committed, Groups
from penstock.ports import free_port

pytestmark = needs_openssl
LONGEST_SECONDS = 30.0


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with running(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def tokens() -> Iterator[str]:
    with token_endpoint() as url:
        yield url


def works(kafka: KafkaConnection) -> None:
    """Every kind of client: admin, producer, consumer, groups."""
    topic, group = f"topic-{uuid.uuid4()}", f"group-{uuid.uuid4()}"
    kafka.check(LONGEST_SECONDS)
    topics.create_missing(kafka.admin(), [topics.TopicSpec(topic)])
    producer = kafka.producer()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(LONGEST_SECONDS) == 0
    consumer = kafka.consumer()
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(LONGEST_SECONDS)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == b"value"
    groups = Groups(kafka)
    groups.commit(group, topic, {0: 1}, "mark")
    assert groups.offsets([group]) == {group: {(topic, 0): Committed(1, "mark")}}
    groups.close()


def test_a_certificate_of_the_broker_is_enough_where_none_is_asked_for(secure: SecureKafka) -> None:
    """Kept promise: SSL without a certificate of our own (user.skip)."""
    works(
        secure.connection("TLS", **{"protocol": "SSL", "user.skip": "true", "ca.crt": secure.authority.certificate})
    )


def test_a_certificate_of_our_own_lets_us_in(secure: SecureKafka) -> None:
    """Kept promise: SSL with client certificates."""
    own = {"user.crt": secure.client.certificate, "user.key": secure.client.key}
    works(secure.connection("MUTUAL", **{"protocol": "SSL", "ca.crt": secure.authority.certificate, **own}))


@pytest.mark.parametrize("way", ["SASL", "SASLTLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_password_or_a_token_lets_us_in(secure: SecureKafka, tokens: str, way: Way, mechanism: str) -> None:
    """Kept promise: every mechanism, in plain text and over TLS."""
    works(secure.connection(way, **secure.password(way, mechanism), tokenUrl=tokens))


def refused(kafka: KafkaConnection, kind: type[PenstockError]) -> str:
    """What is said, by the check and by the client for groups; both soon."""
    said = []
    for ask in (lambda: kafka.check(LONGEST_SECONDS), lambda: Groups(kafka).offsets(["group"])):
        began = time.monotonic()
        with pytest.raises(PenstockError) as failure:
            ask()
        assert time.monotonic() - began < 2 * LONGEST_SECONDS
        said.append(failure.value)
    assert isinstance(said[0], kind), said
    text = " ".join(f"{each.message} {each.hint}" for each in said)
    assert PASSWORD not in text
    return said[0].message


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said_at_once(secure: SecureKafka, mechanism: str) -> None:
    """Kept promise: no silence and no endless tries; cluster and Secret are named."""
    began = time.monotonic()
    said = refused(secure.connection("SASLTLS", **secure.password("SASLTLS", mechanism, "wrong")), Misconfigured)
    assert time.monotonic() - began < 2 * LONGEST_SECONDS
    assert said.startswith(f"Kafka at {secure.address('SASLTLS')} (Secret tests/kafka) does not let us in")


def test_a_wrong_secret_for_tokens_is_said_in_time(secure: SecureKafka, tokens: str) -> None:
    """Kept promise: what the token endpoint refuses is an error of ours, too."""
    data = {**secure.password("SASL", "OAUTHBEARER", "wrong"), "tokenUrl": tokens}
    refused(secure.connection("SASL", **data), PenstockError)


def test_a_broker_that_somebody_else_has_signed_is_not_trusted(
    secure: SecureKafka, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kept promise: nothing is sent to a cluster whose certificate does not follow from ca.crt."""
    other = Authority(tmp_path_factory.mktemp("other"))
    data = {**secure.password("SASLTLS", "PLAIN"), "ca.crt": other.certificate}
    assert "certificate" in refused(secure.connection("SASLTLS", **data), Misconfigured)


def test_a_broker_whose_certificate_has_expired_is_not_trusted(tmp_path: Path) -> None:
    """Kept promise: that it has expired is said, soon, and nothing is sent."""
    authority = Authority(tmp_path)
    data = {"protocol": "SSL", "user.skip": "true", "ca.crt": authority.certificate}
    with tls_server(authority.keystore("stale", expired=True)) as address:
        began = time.monotonic()
        assert "expired" in refused(connection(address, data), Misconfigured)
        assert time.monotonic() - began < 2 * LONGEST_SECONDS


def test_without_a_certificate_nobody_gets_in_where_one_is_asked_for(secure: SecureKafka) -> None:
    """Kept promise: a cluster that wants a certificate says so, and we say it on."""
    data = {"protocol": "SSL", "user.skip": "true", "ca.crt": secure.authority.certificate}
    assert "certificate" in refused(secure.connection("MUTUAL", **data), PenstockError)


def test_a_cluster_that_is_not_there_is_said_in_time() -> None:
    """Kept promise: nobody waits longer than it takes to know."""
    data = {"protocol": "SASL_PLAINTEXT", "user": USER, "password": PASSWORD}
    assert "does not answer" in refused(connection(f"127.0.0.1:{free_port()}", data), Unavailable)
