"""What a KafkaSource wants: the records of topics that are there already, as events, at one sink."""

from typing import Any, get_args

import msgspec

from penstock.contract.model import Cluster, Order, RecordsAsEvents, Subscription
from penstock.control import credentials, egress, names, starts
from penstock.control.addresses import resolve
from penstock.control.clusters import cluster_of, complaint
from penstock.control.conditions import Condition, false, true
from penstock.control.egress import Find, Plan
from penstock.control.ingress import SECRET_REFUSED, Surroundings, Topic
from penstock.control.kinds import SECRET, Resource, is_being_deleted, name_of, namespace_of, spec_of, uid_of
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import secret_files, security

SERVED = "ConsumerGroup"
SECRET_MISSING = "SecretMissing"
STOPPING = (SECRET_REFUSED, SECRET_MISSING)  # its login may no longer be used, so what runs ends, too
MECHANISMS = get_args(security.Mechanism)
FIELDS = {  # of spec.net, by the key that the same thing has in the Secret of a broker or sink
    "ca.crt": "tls.caCert",
    "user.crt": "tls.cert",
    "user.key": "tls.key",
    "user": "sasl.user",
    "password": "sasl.password",
    "sasl.mechanism": "sasl.type",
}


def plan(source: Resource, around: Surroundings, find: Find) -> Plan:
    namespace, spec = namespace_of(source), spec_of(source)
    sink = resolve(spec["sink"], namespace, around.lookup)
    delivery = spec.get("delivery") or {}
    dead = egress.dead_letter_sink(delivery, namespace, None, around.lookup)
    connected, topics = _topics(source, around, find)
    wanted = [str(each) for each in spec["topics"]]
    subscriptions: tuple[Subscription, ...] = ()
    if sink.url and (dead is None or dead.url):
        subscriptions = tuple(
            msgspec.structs.replace(
                egress.common(source, topic, group_of(source), sink.url),
                delivery=egress.delivery_of(source, delivery, dead),
                order=_order(spec),
                gear=egress.gear_of(source),
                records=RecordsAsEvents(
                    names.record_source(namespace, name_of(source), topic.name), _key_type(source)
                ),
                extensions=dict((spec.get("ceOverrides") or {}).get("extensions") or {}),
            )
            for topic in topics
        )
    # A topic that was made after the source holds only what came after it.
    known = starts.noted_starts(source)
    is_newer = bool(topics) and all(each.name in known for each in topics)
    return Plan(
        served=SERVED,
        conditions=(egress.resolved("SinkProvided", sink, dead), connected),
        topics=topics,
        missing=tuple(each for each in wanted if each not in {topic.name for topic in topics}),
        is_blind=connected.status != "True" and connected.reason not in STOPPING,
        names_topics=connected.status == "True",
        begin=starts.asked(spec.get("initialOffset"), is_newer=is_newer),
        subscriptions=subscriptions,
        shown={
            "sinkUri": sink.url,
            "deadLetterSinkUri": dead.url if dead else None,
            "consumers": int(spec.get("consumers") or 1),
        },
        waits_for="waits for its topics or its sink",
    )


def _topics(source: Resource, around: Surroundings, find: Find) -> tuple[Condition, tuple[Topic, ...]]:
    """Those of its topics that are there, and whether its Kafka could be asked."""
    spec = spec_of(source)
    try:
        cluster = cluster_of_source(source, around)
    except credentials.Refused as error:
        around.secrets.remove(*kept_secret(source))
        return false("ConnectionEstablished", SECRET_REFUSED, f"{error.message}; {error.hint}"), ()
    except Misconfigured as error:
        if not _names_missing_secret(source, around):
            return false("ConnectionEstablished", "SecretInvalid", error.message), ()
        around.secrets.remove(*kept_secret(source))
        return false("ConnectionEstablished", SECRET_MISSING, error.message), ()
    try:
        found = find(cluster, [str(each) for each in spec["topics"]])
    except PenstockError as error:
        if isinstance(error, Unavailable) and cluster.is_home:
            raise
        why = complaint(cluster, error.message, around.settings)
        return false("ConnectionEstablished", "KafkaUnavailable", why), ()
    return true("ConnectionEstablished"), tuple(found[each] for each in spec["topics"] if each in found)


def cluster_of_source(source: Resource, around: Surroundings) -> Cluster:
    """Its credentials come from keys of any Secrets; together they are kept as one that no user can name."""
    servers = ",".join(spec_of(source).get("bootstrapServers") or [])
    data = _credentials(source, around)
    if data is None:
        around.secrets.remove(*kept_secret(source))
        return cluster_of(servers, None, around.lookup, around.settings)
    _check(data)
    without = cluster_of(servers, None, around.lookup, around.settings)  # refuses invalid servers
    if not without.is_home:
        _check_servers(source, servers, around)
    namespace, name = kept_secret(source)
    version = around.secrets.kept(namespace, name, data)
    own = around.settings.bootstrap_servers  # for home: the source may list another server beside one of ours
    return Cluster(without.bootstrap_servers or own, f"{namespace}/{name}", version)


def _check(data: dict[str, bytes]) -> None:
    """Raises Misconfigured in the words of the source: it may take a certificate from a key of any name."""
    try:
        security.parse("spec.net", data)
    except Misconfigured as error:
        key, _, why = error.message.removeprefix("Secret spec.net: ").partition(" ")
        raise Misconfigured(f"spec.net.{FIELDS.get(key, key)} {why}") from None


def kept_secret(source: Resource) -> tuple[str, str]:
    return credentials_of(namespace_of(source), name_of(source))


def credentials_of(namespace: str, name: str) -> tuple[str, str]:
    """Namespace and name under which the credentials of a source are kept. No namespace of a user has a dot."""
    return f"kafkasources.{namespace}", name


def _credentials(source: Resource, around: Surroundings) -> dict[str, bytes] | None:
    """In the form of the Secrets of brokers and sinks; None when it needs none."""
    net = spec_of(source).get("net") or {}
    sasl, tls = (net.get(part) or {} for part in ("sasl", "tls"))
    has_sasl, has_tls = bool(sasl.get("enable")), bool(tls.get("enable"))
    if not has_sasl and not has_tls:
        return None
    protocol = "SASL_SSL" if has_sasl and has_tls else "SASL_PLAINTEXT" if has_sasl else "SSL"
    data = {"protocol": protocol.encode()}
    holders = _holders(source, sasl, around) if has_sasl else {}
    if has_sasl:
        data |= _login(source, sasl, around, holders, has_tls=has_tls)
    if has_tls:
        for field, key in (("caCert", "ca.crt"), ("cert", "user.crt"), ("key", "user.key")):
            if (value := _looked_up(source, tls.get(field), around)) is not None:
                data[key] = value
        if "user.crt" not in data:
            data["user.skip"] = b"true"
        if ca := credentials.pinned_ca(data.get("ca.crt", b""), holders):
            data["ca.crt"] = ca
    return data


def _holders(source: Resource, sasl: dict[str, Any], around: Surroundings) -> dict[str, secret_files.Data]:
    """The data of the Secrets that user and password come from, if these keys may be used."""
    namespace = namespace_of(source)
    holders = {}
    for field in ("user", "password"):
        reference = (sasl.get(field) or {}).get("secretKeyRef")
        if reference:
            name = str(reference["name"])
            shown = f"{namespace}/{name}"
            secret = around.lookup(SECRET.name, namespace, name)
            credentials.check_key(field, str(reference["key"]), secret, shown)
            holders[shown] = around.secrets.read(namespace, name)
    return holders


def _login(
    source: Resource,
    sasl: dict[str, Any],
    around: Surroundings,
    holders: dict[str, secret_files.Data],
    *,
    has_tls: bool,
) -> dict[str, bytes]:
    """Mechanism, user and password, if their Secrets allow this use."""
    own = next((each for data in holders.values() if (each := credentials.mechanism_of(data))), "PLAIN")
    asked = _looked_up(source, sasl.get("type"), around)
    mechanism = asked.decode("latin-1").strip() if asked else own
    if mechanism not in MECHANISMS:  # a source may name any key, so no message quotes its value
        raise Misconfigured(f"spec.net.sasl.type is unknown; valid are {', '.join(MECHANISMS)}")
    for shown, data in holders.items():
        credentials.check_protection(data, shown, has_tls=has_tls, mechanism=mechanism)
    return {
        "sasl.mechanism": mechanism.encode("latin-1"),
        "user": _looked_up(source, sasl.get("user"), around) or b"",
        "password": _looked_up(source, sasl.get("password"), around) or b"",
    }


def _check_servers(source: Resource, servers: str, around: Surroundings) -> None:
    """Every Secret that the source names may list the servers that it is for."""
    for shown, secret in _named_secrets(source, around).items():
        if secret is not None:
            credentials.check_servers(servers, secret, shown)


def _names_missing_secret(source: Resource, around: Surroundings) -> bool:
    return any(secret is None or is_being_deleted(secret) for secret in _named_secrets(source, around).values())


def _named_secrets(source: Resource, around: Surroundings) -> dict[str, Resource | None]:
    """By namespace and name; None: it does not exist."""
    namespace, net = namespace_of(source), spec_of(source).get("net") or {}
    fields = [
        field for part in ("sasl", "tls") for field in (net.get(part) or {}).values() if isinstance(field, dict)
    ]
    found = {str(field["secretKeyRef"]["name"]) for field in fields if field.get("secretKeyRef")}
    return {f"{namespace}/{name}": around.lookup(SECRET.name, namespace, name) for name in sorted(found)}


def _looked_up(source: Resource, reference: Any, around: Surroundings) -> bytes | None:
    if not reference or not reference.get("secretKeyRef"):
        return None
    namespace, asked = namespace_of(source), reference["secretKeyRef"]
    found = around.secrets.read(namespace, str(asked["name"]))
    if asked["key"] not in found:
        if asked.get("optional"):
            return None
        raise Misconfigured(f"Secret {namespace}/{asked['name']} has no key {asked['key']}")
    return found[asked["key"]]


def group_of(source: Resource) -> str:
    return str(spec_of(source).get("consumerGroup") or names.source_group(uid_of(source)))


def _order(spec: dict[str, Any]) -> Order:
    orders: dict[str | None, Order] = {"unordered": "unordered", "key": "key"}
    return orders.get(spec.get("ordering"), "ordered")


def _key_type(source: Resource) -> Any:
    return (source["metadata"].get("labels") or {}).get(names.KEY_TYPE_LABEL) or "string"
