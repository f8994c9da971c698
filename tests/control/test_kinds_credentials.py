"""A resource gets of a Secret only what it is meant to get, and only for servers that the Secret is for."""

from pathlib import Path
from typing import Any

import pytest

from penstock.contract.model import Cluster
from penstock.control import credentials, ingress, sinks, sources, subscriptions, triggers
from penstock.control.conditions import false, true
from penstock.control.credentials import Refused
from penstock.control.egress import MakePlan
from penstock.control.ingress import Configured, Findings, Surroundings
from penstock.control.kinds import Resource
from penstock.control.secrets import Secrets
from penstock.control.validate import problems
from penstock.errors import Misconfigured, Rejected
from penstock.kafka import java_files, secret_files, security
from penstock.kafka.topics import TopicSpec, TopicState
from tests.certificates import Authority, needs_openssl
from tests.control.objects import (
    NOON,
    annotated,
    broker,
    channel,
    secret,
    service,
    sink,
    source,
    stored,
    subscription,
    trigger,
)
from tests.control.test_kinds_plans import OLD_ORDERS, among, condition_of, finding, ready

STRANGER = ["stranger.example:9092"]
GUARDED = {"protocol": b"SASL_SSL", "sasl.mechanism": b"SCRAM-SHA-512", "user": b"alice", "password": b"hunter2"}


def key(name: str) -> dict[str, Any]:
    return {"secretKeyRef": {"name": "login", "key": name}}


def with_login(*, tls: bool = False, **sasl: str) -> Resource:
    fields = {field: key(name) for field, name in sasl.items()}
    net = {"sasl": {"enable": True, **fields}, **({"tls": {"enable": True}} if tls else {})}
    return stored(source(bootstrapServers=STRANGER, net=net))


def around(folder: Path, data: dict[str, bytes], **annotations: str) -> Surroundings:
    found = among(stored(annotated(secret(), **annotations)), secrets=folder)
    found.secrets.write("default", "login", data)
    return found


@pytest.mark.parametrize(("field", "taken"), [("user", "api-token"), ("password", "tls.key"), ("user", "password")])
def test_a_source_gets_only_the_keys_that_are_meant_for_it(tmp_path: Path, field: str, taken: str) -> None:
    """Kept promise: no other key of any Secret of the namespace is sent to a server of the source's choice."""
    given = around(tmp_path, {"user": b"u", "password": b"p", "api-token": b"hunter2", "tls.key": b"k"})
    keys = {"user": "user", "password": "password"} | {field: taken}
    named = with_login(user=keys["user"], password=keys["password"])
    with pytest.raises(
        Refused, match=f"spec.net.sasl.{field} names key '{taken}' of Secret default/login"
    ) as refused:
        sources.cluster_of_source(named, given)
    assert "hunter2" not in refused.value.message


def test_a_secret_may_list_further_keys(tmp_path: Path) -> None:
    given = around(tmp_path, {"who": b"alice", "word": b"x"}, **{"penstock.dev/kafka-keys": "who, word"})
    sources.cluster_of_source(with_login(user="who", password="word"), given)
    assert given.secrets.read("kafkasources.default", "legacy")["user"] == b"alice"


def test_credentials_for_tls_are_never_sent_without_it(tmp_path: Path) -> None:
    given = around(tmp_path, GUARDED)
    with pytest.raises(Refused, match="for a protocol with TLS"):
        sources.cluster_of_source(with_login(user="user", password="password", type="sasl.mechanism"), given)


def test_credentials_for_another_mechanism_are_never_sent_as_plain(tmp_path: Path) -> None:
    """Kept promise: PLAIN shows the password to the server, so a Secret for SCRAM is not used with it."""
    given = around(tmp_path, {**GUARDED, "saslType": b"PLAIN", "weaker": b"PLAIN"})
    with pytest.raises(Refused, match="a mechanism other than PLAIN"):
        sources.cluster_of_source(with_login(tls=True, user="user", password="password", type="weaker"), given)


def test_no_refusal_quotes_what_a_source_names_as_its_mechanism(tmp_path: Path) -> None:
    """Kept promise: ``spec.net.sasl.type`` may name any key of any Secret; no condition shows its value."""
    given = around(tmp_path, {**GUARDED, "api-token": b"hunter3"})
    named = with_login(tls=True, user="user", password="password", type="api-token")
    plan = sources.plan(named, given, finding(OLD_ORDERS))
    assert condition_of(plan, "ConnectionEstablished")[0] == "False"
    assert "hunter3" not in repr(plan)


def test_a_server_of_ours_beside_a_stranger_does_not_make_it_the_home_cluster(tmp_path: Path) -> None:
    """Kept promise: credentials go to the home cluster only by the addresses that the operator has named."""
    given = around(tmp_path, GUARDED, **{"penstock.dev/servers": "kafka.example:9093"})
    named = with_login(tls=True, user="user", password="password")
    named["spec"]["bootstrapServers"] = [given.settings.bootstrap_servers, *STRANGER]
    assert STRANGER[0] not in sources.cluster_of_source(named, given).bootstrap_servers


@needs_openssl
@pytest.mark.parametrize(("named", "is_kept"), [(None, True), ("same", True), ("empty", True), ("other", False)])
def test_a_ca_that_a_secret_pins_is_the_ca_of_the_source(tmp_path: Path, named: str | None, is_kept: bool) -> None:
    """Kept promise: user and password go only to servers with a certificate of the CA in their own Secret."""
    pinned, other = (Authority(tmp_path / name).certificate.encode() for name in ("pinned", "other"))
    given = around(tmp_path, {**GUARDED, "ca.crt": pinned})
    given.secrets.write("default", "cas", {"same": pinned, "other": other, "empty": b""})
    asking = with_login(tls=True, user="user", password="password")
    if named is not None:
        asking["spec"]["net"]["tls"]["caCert"] = {"secretKeyRef": {"name": "cas", "key": named}}
    if is_kept:
        sources.cluster_of_source(asking, given)
        assert given.secrets.read("kafkasources.default", "legacy")["ca.crt"] == pinned
    else:
        with pytest.raises(Refused, match=r"Secret default/login has a ca\.crt, and the source has another CA"):
            sources.cluster_of_source(asking, given)


def test_secrets_with_different_cas_are_not_used_together() -> None:
    """A password is not sent under the CA of the user's Secret; a Secret without a CA takes that of the other one."""
    assert credentials.pinned_ca(b"", {"a": {"ca.crt": b"1"}, "b": {}}) == b"1"
    assert credentials.pinned_ca(b"1", {"a": {}}) == b"1"
    assert credentials.pinned_ca(b"", {"a": {}}) == b""
    with pytest.raises(Refused, match="Secret b has a ca"):
        credentials.pinned_ca(b"", {"a": {"ca.crt": b"1"}, "b": {"ca.crt": b"2"}})


@pytest.mark.parametrize("changed", [{"penstock.dev/kafka-keys": "api-token"}, {"penstock.dev/servers": None}])
def test_what_a_secret_is_for_changes_only_with_its_values(tmp_path: Path, changed: dict[str, str | None]) -> None:
    """Kept promise: only somebody who knows a Secret can allow more servers for it, or more of its keys."""
    kept = Secrets(tmp_path)
    applied = annotated(secret(), **{"penstock.dev/servers": "kafka.example:9093"})
    old, _ = kept.stripped(applied)
    notes = {**old["metadata"]["annotations"], **changed}
    given = {name: text for name, text in notes.items() if text is not None}
    with pytest.raises(Rejected, match="who knows its values"):
        kept.stripped({**old, "metadata": old["metadata"] | {"annotations": given}}, old)
    assert kept.stripped(old, old)[1] is None


def test_without_a_type_the_mechanism_is_that_of_the_secret(tmp_path: Path) -> None:
    given = around(tmp_path, GUARDED)
    sources.cluster_of_source(with_login(tls=True, user="user", password="password"), given)
    kept = given.secrets.read("kafkasources.default", "legacy")
    assert (kept["sasl.mechanism"], kept["protocol"]) == (b"SCRAM-SHA-512", b"SASL_SSL")


def test_a_secret_names_the_servers_it_is_for(tmp_path: Path) -> None:
    """Kept promise: no other server gets its credentials, whatever a source or a sink names."""
    given = around(tmp_path, GUARDED, **{"penstock.dev/servers": "kafka.example:9093"})
    auth = {"secret": {"ref": {"name": "login"}}}
    refusal = r"Secret default/login is not for stranger\.example:9092"
    with pytest.raises(Refused, match=refusal):
        sources.cluster_of_source(with_login(tls=True, user="user", password="password"), given)
    with pytest.raises(Refused, match=refusal):
        sinks.configure(stored(sink(bootstrapServers=STRANGER, auth=auth)), given)


def test_a_refused_source_stops_and_its_copy_of_the_credentials_goes(tmp_path: Path) -> None:
    """Kept promise: a source that was accepted earlier is no longer served, and its condition has the reason."""
    given = around(tmp_path, GUARDED)
    given.secrets.write("kafkasources.default", "legacy", GUARDED)
    plan = sources.plan(with_login(user="user", password="password"), given, finding(OLD_ORDERS))
    assert condition_of(plan, "ConnectionEstablished") == ("False", "SecretRefused")
    assert not plan.subscriptions
    assert not plan.is_blind
    assert not secret_files.path_of(tmp_path, "kafkasources.default/legacy").exists()


def copies(folder: Path) -> list[Path]:
    """Files with a source's copy of its credentials."""
    return [each for each in folder.rglob("*") if each.is_file() and "kafkasources" in str(each)]


def test_a_source_whose_secret_is_deleted_stops_and_its_copy_of_the_credentials_goes(tmp_path: Path) -> None:
    """Kept promise: no file with the login of a deleted Secret stays, neither the copy nor what Java reads."""
    given = around(tmp_path, GUARDED)
    asked = with_login(tls=True, user="user", password="password")
    cluster = sources.cluster_of_source(asked, given)
    found = security.parse("login", secret_files.read(tmp_path, cluster.secret))
    java_files.java_settings(found, tmp_path, cluster.secret, cluster.version)
    assert len(copies(tmp_path)) >= 2
    given.secrets.remove("default", "login")
    plan = sources.plan(asked, among(secrets=tmp_path), finding(OLD_ORDERS))
    assert condition_of(plan, "ConnectionEstablished") == ("False", "SecretMissing")
    assert not plan.subscriptions
    assert not plan.is_blind
    assert copies(tmp_path) == []


def test_a_source_that_needs_no_login_any_more_keeps_none(tmp_path: Path) -> None:
    given = around(tmp_path, GUARDED)
    sources.cluster_of_source(with_login(tls=True, user="user", password="password"), given)
    assert copies(tmp_path)
    sources.cluster_of_source(stored(source(bootstrapServers=STRANGER)), given)
    assert copies(tmp_path) == []


@pytest.mark.parametrize(
    ("owner", "asking", "make_plan"),
    [
        (stored(broker()), stored(trigger()), triggers.plan),
        (stored(channel(), "channel-uid"), stored(subscription()), subscriptions.plan),
    ],
)
def test_nothing_is_read_from_servers_that_a_secret_excludes_later(
    owner: Resource, asking: Resource, make_plan: MakePlan
) -> None:
    """Kept promise: once penstock.dev/servers of a Secret leaves out the servers of a broker or channel, nobody reads
    there with its login. Where the readers had come to is kept."""
    far = Cluster(STRANGER[0], "default/login", "v1")
    owner = ready(
        owner, Configured(TopicSpec("t"), true("ConfigParsed"), cluster=far), TopicState("t", "topic-id", 1)
    )
    (served,) = make_plan(asking, among(owner), finding()).subscriptions
    assert served.cluster == far
    refused = (false("ConfigParsed", "SecretRefused", "not for these servers"), *ingress.unknown_from(1))
    owner = {**owner, "status": ingress.status(owner, Findings(refused, is_topic_known=False), NOON)}
    plan = make_plan(asking, among(owner), finding())
    assert (plan.subscriptions, plan.topics, plan.missing, plan.is_blind) == ((), (), (), False)
    assert ingress.topic_of(owner) is None
    accepted = Findings((true("ConfigParsed"), true("TopicReady")), is_topic_known=False)
    owner = {**owner, "status": ingress.status(owner, accepted, NOON)}
    assert make_plan(asking, among(owner), finding()).topics[0].topic_id == "topic-id"


def test_files_of_a_deleted_secret_do_not_stay(tmp_path: Path) -> None:
    """Kept promise: after a deletion at any time: with or without a controller, or while a client is made."""
    kept, found = (
        Secrets(tmp_path),
        security.parse("login", {"protocol": b"SASL_SSL", "user": b"a", "password": b"b"}),
    )
    folder = tmp_path / java_files.FOLDER / "default.login"
    kept.write("default", "login", {"password": b"b"})
    java_files.java_settings(found, tmp_path, "default/login", "v1")
    assert folder.exists()
    java_files.forget_orphans(tmp_path)
    assert folder.exists()
    kept.remove("default", "login")
    assert not folder.exists()
    with pytest.raises(Misconfigured, match="does not exist"):
        java_files.java_settings(found, tmp_path, "default/login", "v1")
    assert not folder.exists()
    folder.mkdir()
    java_files.forget_orphans(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize(
    "host",
    [
        "user:pw@169.254.169.254/x?y#", "a\r\nX-Evil: 1", "host:80", "a/b", "a b", "[::1]", "ä.example", "a..b", "",
        "169.254.169.254", "2852039166", "fd00:ec2::254", "x" * 300, "-a",
        "8.8.8.8\r\n@169.254.169.254/x?y#", "1.2.3.4%@169.254.169.254/x?y#", "1.2.3.4 @169.254.169.254/x",
        "8.8.8.8%\r\nX: y", "2001:db8::1%]@evil/", "fe80::1%eth0", "8.8.8.8\n",
        "0169.0254.0169.0254", "169.254.169.254.", "a.0x7f",
    ],
)  # fmt: skip
def test_an_external_name_is_a_host_and_nothing_else(host: str) -> None:
    assert [each.field for each in problems(service(externalName=host))] == ["spec.externalName"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "printer.example", "Printer.Example.", "my_host"])
def test_hosts_and_addresses_are_external_names(host: str) -> None:
    assert problems(service(externalName=host)) == []


@pytest.mark.parametrize(
    "server", ["169.254.169.254:9092", "[fd00:ec2::254]:9092", "100.100.100.200:80", "2852039166:1"]
)
def test_a_metadata_service_is_no_kafka_server(server: str) -> None:
    (problem,) = problems(source(bootstrapServers=[server]))
    assert problem.field == "spec.bootstrapServers[0]"
    assert "metadata service" in problem.message


@pytest.mark.parametrize(
    "server",
    [
        "8.8.8.8%:80",
        "8.8.8.8 @evil:80",
        "8.8.8.8\r\nx:80",
        "kafka:9092\r\n",
        "kafka:9092\tx",
        "SSL://kafka:9092",
        "[::1]x:1",
    ],
)
def test_a_server_is_a_host_and_a_port(server: str) -> None:
    """No part of the text is ignored when a server is read."""
    (problem,) = problems(source(bootstrapServers=[server]))
    assert problem.field == "spec.bootstrapServers[0]"


@pytest.mark.parametrize(
    "uri",
    [
        "http://a\\@169.254.169.254/", "http://a@b@c/", "http://8.8.8.8%/", "http://[fe80::1%25eth0]/", "http://a..b/",
        "http://[::1]x/", "http://%3169.254.169.254/",
    ],
)  # fmt: skip
def test_a_uri_names_one_host(uri: str) -> None:
    """A subscriber, a reply, a sink or a dead letter sink is for a host that all HTTP clients find."""
    dead = {"deadLetterSink": {"uri": uri}}
    for resource, field in (
        (trigger(subscriber={"uri": uri}), "spec.subscriber.uri"),
        (subscription(reply={"uri": uri}), "spec.reply.uri"),
        (source(sink={"uri": uri}), "spec.sink.uri"),
        (trigger(delivery=dead), "spec.delivery.deadLetterSink.uri"),
    ):
        assert [each.field for each in problems(resource)] == [field]


@pytest.mark.parametrize(
    "uri", ["http://u:p@a/", "http://a.:8080/x?y#z", "http://[::1]:80/", "http://127.1/", "http://my_host/"]
)
def test_a_uri_may_have_more_than_a_host(uri: str) -> None:
    """User, password, port and path are allowed."""
    assert problems(trigger(subscriber={"uri": uri})) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://u:p@host/t", "ftp://host/", "https:///t", "https://host/a b", "http://h:x/",
        "http://%3169.254.169.254/", "http://169.254.169.254%2f/", "http://a\\b/", "http://[fe80::1%25eth0]/",
        "http://a..b/", "http://[::1]x/",
    ],
)  # fmt: skip
def test_a_token_endpoint_is_a_plain_url(url: str) -> None:
    data = {"protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "tokenUrl": url, "user": "u", "password": "p"}
    with pytest.raises(Misconfigured, match="not an http or https URL"):
        security.parse("login", {name: value.encode() for name, value in data.items()})
