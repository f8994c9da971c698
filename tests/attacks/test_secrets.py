"""Attacks on Secrets: resources that want a Secret's user and password sent to a Kafka of the attacker."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.attacks.reconciling import Body, Reconciling, reconciling
from tests.attacks.stranger import Stranger
from tests.control.objects import annotated, broker, config_map, secret, sink, source
from tests.waiting import until

USER, PASSWORD, TOKEN = "alice-of-the-secret", "hunter2-of-the-secret", "token-of-the-secret"
LOGIN = {"user": USER, "password": PASSWORD, "api-token": TOKEN, "plain": "PLAIN", "old.user": USER}
SCRAM = {**LOGIN, "protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
OWN_SERVER = "kafka.example:9093"
MEANT = {"user": "user", "password": "password"}


@pytest.fixture(scope="module")
def controller(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    with reconciling(kafka, tmp_path_factory.mktemp("secrets")) as made:
        yield made


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    """One for all tests here, so that a later test sees what arrives late."""
    made = Stranger().start()
    yield made
    made.stop()


@pytest.fixture
def name() -> str:
    """Of the Secret and of the resource that wants it: a new one for each test."""
    return f"guarded-{uuid.uuid4().hex[:8]}"


def key(key_: str, of: str) -> Body:
    return {"secretKeyRef": {"name": of, "key": key_}}


def asking(name: str, servers: list[str], sasl: Mapping[str, str], tls: Body | None = None) -> Body:
    """A source that wants the values of these keys sent to these servers."""
    net: Body = {"sasl": {"enable": True, **{field: key(key_, name) for field, key_ in sasl.items()}}}
    if tls is not None:
        net["tls"] = tls
    return source(name, topics=["stolen"], bootstrapServers=servers, net=net)


def assert_nothing_is_sent(controller: Reconciling, stranger: Stranger, *sources: Body) -> None:
    """Also not when the source changes. The data plane cannot send it either: it has the contract and the files."""
    for each in sources:
        each["spec"]["consumers"] = 2
        changed = controller.put(each)
        assert changed.status == 200, changed
        generation = changed.error["metadata"]["generation"]
        until(lambda: controller.status(each).get("observedGeneration") == generation, "the change")  # noqa: B023
        assert controller.condition(each, "ConnectionEstablished", "False")["reason"] == "SecretRefused"
        assert f"kafkasources.default/{each['metadata']['name']}".encode() not in controller.contract()
        assert not list(controller.secrets_dir.glob(f"kafkasources.*/{each['metadata']['name']}.json"))
    for text in (USER, PASSWORD, TOKEN):
        assert text.encode() not in stranger.came
        assert text.encode() not in controller.contract()


@pytest.mark.parametrize("is_named", [False, True], ids=["for all servers", "for this server"])
def test_a_login_that_is_meant_for_the_server_is_sent(
    controller: Reconciling, stranger: Stranger, name: str, is_named: bool
) -> None:
    """Kept promise: a login that a source may send arrives. So the stranger would record one that leaks."""
    user, password = f"bob-{is_named}", f"meant-for-this-server-{is_named}"
    given = secret(name, protocol="SASL_PLAINTEXT", user=user, password=password)
    if is_named:
        given = annotated(given, **{"penstock.dev/servers": stranger.server})
    with controller.applied(given, asking(name, [stranger.server], MEANT)):
        until(lambda: user.encode() in stranger.came and password.encode() in stranger.came, "the login")


KEYS = {
    "another key as the user": {"user": "api-token", "password": "password"},
    "another key as the password": {"user": "user", "password": "api-token"},
    "the password as the user": {"user": "password", "password": "password"},
    "the user as the password": {"user": "user", "password": "user"},
    "a key of an older form": {"user": "old.user", "password": "password"},
    "a key that is not there": {"user": "user", "password": "passwort"},
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize(
    "data", [{**LOGIN, "protocol": "SASL_PLAINTEXT"}, LOGIN], ids=["SASL in clear", "no protocol"]
)
def test_only_the_keys_that_are_meant_are_sent(
    controller: Reconciling, stranger: Stranger, name: str, keys: dict[str, str], data: dict[str, str]
) -> None:
    """Kept promise: a source cannot have other keys of a Secret sent, and its condition names the field."""
    asked = asking(name, [stranger.server], keys)
    with controller.applied(secret(name, **data), asked):
        refused = controller.condition(asked, "ConnectionEstablished", "False")
        assert refused["reason"] == "SecretRefused"
        assert "spec.net.sasl." in refused["message"]
        assert_nothing_is_sent(controller, stranger, asked)


PROTECTED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "SCRAM and TLS": (SCRAM, MEANT),
    "SCRAM and TLS, asked for as PLAIN": (SCRAM, {**MEANT, "type": "plain"}),
    "SCRAM in clear, asked for as PLAIN": ({**SCRAM, "protocol": "SASL_PLAINTEXT"}, {**MEANT, "type": "plain"}),
    "PLAIN and TLS": ({**LOGIN, "protocol": "SASL_SSL"}, MEANT),
    "TLS in another spelling": ({**LOGIN, "protocol": " sasl_ssl "}, MEANT),
    "TLS of the older form": ({**LOGIN, "tls.enabled": "true"}, MEANT),
    "a CA": ({**LOGIN, "ca.crt": "any"}, MEANT),
    "SCRAM of the older form": ({**LOGIN, "saslType": "SCRAM-SHA-512"}, {**MEANT, "type": "plain"}),
}


@pytest.mark.parametrize(("data", "sasl"), PROTECTED.values(), ids=PROTECTED)
@pytest.mark.parametrize("tls", [None, {"enable": False}], ids=["no tls", "tls off"])
def test_a_login_is_never_sent_with_less_protection_than_its_secret_has(
    controller: Reconciling, stranger: Stranger, name: str, data: dict[str, str], sasl: dict[str, str],
    tls: Body | None,
) -> None:  # fmt: skip
    """Kept promise: user and password of a Secret for TLS or SCRAM are not sent as PLAIN without TLS."""
    asked = asking(name, [stranger.server], sasl, tls)
    with controller.applied(secret(name, **data), asked):
        refused = controller.condition(asked, "ConnectionEstablished", "False")
        assert refused["reason"] == "SecretRefused"
        assert f"Secret default/{name} is for a" in refused["message"]
        assert_nothing_is_sent(controller, stranger, asked)


def test_a_login_for_tls_is_not_sent_to_a_server_that_speaks_none(
    controller: Reconciling, stranger: Stranger, name: str
) -> None:
    """Kept promise: a source with TLS sends a server without TLS the start of a handshake, and no login."""
    asked = asking(name, [stranger.server], MEANT, {"enable": True})
    with controller.applied(secret(name, **SCRAM), asked):
        until(lambda: b"\x16\x03" in stranger.came, "the start of TLS")
        controller.condition(asked, "ConnectionEstablished", "False")
        for text in (USER, PASSWORD):
            assert text.encode() not in stranger.came


@pytest.mark.parametrize("field", ["user", "password"])
def test_a_user_or_a_password_alone_is_guarded_by_its_own_secret(
    controller: Reconciling, stranger: Stranger, name: str, field: str
) -> None:
    """Kept promise: taking the two from different Secrets evades neither's protection."""
    weak = secret(f"weak-{name}", user="mallory", password="mine", protocol="SASL_PLAINTEXT")
    asked = asking(f"weak-{name}", [stranger.server], MEANT)
    asked["spec"]["net"]["sasl"][field] = key(field, name)
    with controller.applied(weak, secret(name, **SCRAM), asked):
        assert controller.condition(asked, "ConnectionEstablished", "False")["reason"] == "SecretRefused"
        assert_nothing_is_sent(controller, stranger, asked)


@pytest.mark.parametrize("place", ["alone", "beside the right one", "in one text with the right one"])
def test_a_secret_goes_only_to_the_servers_that_it_names(
    controller: Reconciling, stranger: Stranger, name: str, place: str
) -> None:
    """Kept promise: with penstock.dev/servers no other server gets the login, also not beside one of the list."""
    servers = {
        "alone": [stranger.server],
        "beside the right one": [OWN_SERVER, stranger.server],
        "in one text with the right one": [f"{OWN_SERVER},{stranger.server}"],
    }[place]
    given = secret(name, protocol="SASL_PLAINTEXT", **LOGIN)
    asked = asking(name, servers, MEANT)
    with controller.applied(annotated(given, **{"penstock.dev/servers": OWN_SERVER}), asked):
        refused = controller.condition(asked, "ConnectionEstablished", "False")
        assert refused["reason"] == "SecretRefused"
        assert f"is not for {stranger.server}" in refused["message"]
        assert_nothing_is_sent(controller, stranger, asked)


@pytest.mark.parametrize("annotation", ["penstock.dev/servers", "penstock.dev/kafka-keys"])
def test_what_a_secret_is_for_is_not_changed_by_who_does_not_know_it(
    controller: Reconciling, stranger: Stranger, name: str, annotation: str
) -> None:
    """Kept promise: applying a Secret as it is shown, with other servers or keys, changes nothing."""
    given = annotated(secret(name, **LOGIN), **{"penstock.dev/servers": OWN_SERVER})
    asked = asking(name, [stranger.server], {"user": "api-token", "password": "password"})
    with controller.applied(given, asked):
        shown = controller.get(given)
        assert shown is not None
        assert "stringData" not in shown
        changed: dict[str, Any] = {**shown, "metadata": {**shown["metadata"]}}
        changed["metadata"]["annotations"] = {**shown["metadata"]["annotations"]}
        changed["metadata"]["annotations"][annotation] = (
            stranger.server if annotation == "penstock.dev/servers" else "api-token"
        )
        for answer in (controller.post(changed), controller.put(changed)):
            assert (answer.status, annotation in answer.error["error"]) == (400, True)
        assert controller.condition(asked, "ConnectionEstablished", "False")["reason"] == "SecretRefused"
        assert_nothing_is_sent(controller, stranger, asked)


@pytest.mark.parametrize("kind", ["sink", "broker"])
def test_servers_of_a_secret_hold_for_sinks_and_brokers_too(
    controller: Reconciling, stranger: Stranger, name: str, kind: str
) -> None:
    """Kept promise: neither spec.auth nor a ConfigMap leads a login to a server that the Secret does not name."""
    login = secret(name, protocol="SASL_PLAINTEXT", **{**LOGIN, "sasl.mechanism": "PLAIN"})
    given = annotated(login, **{"penstock.dev/servers": OWN_SERVER})
    if kind == "sink":
        auth = {"secret": {"ref": {"name": name}}}
        resources = [sink(name, topic="stolen", bootstrapServers=[stranger.server], auth=auth)]
    else:
        settings = config_map(name, bootstrap_servers=stranger.server)
        settings["data"]["auth.secret.ref.name"] = name
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
        resources = [settings, broker(name, config=reference)]
    with controller.applied(given, *resources):
        refused = controller.condition(resources[-1], "ConfigParsed", "False")
        assert refused["reason"] == "SecretRefused"
        assert f"is not for {stranger.server}" in refused["message"]
        assert_nothing_is_sent(controller, stranger)
