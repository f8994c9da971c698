"""The contract: one record per resource in a compacted topic.

Written by the controller (``control``), followed by the receiver (routes) and the dispatcher
(subscriptions). The record's key is ``Kind/namespace/name``; a tombstone removes the resource.
Everything here is a plain value; unknown fields are ignored, so that planes of different versions can meet.
"""

import hashlib
from typing import Any, Literal

import msgspec

CONTRACT_TOPIC = "penstock-contract"
RESOURCES_TOPIC = "penstock-resources"
LEDGER_TOPIC = "penstock-ledger"
CLAIMS_TOPIC = "penstock-claims"
REPORT_TOPIC = "penstock-report"
DEAD_LETTERS_TOPIC = "penstock-deadletters"
ADDRESSEE = "penstock-to"  # a record header: the uid of the only subscription that shall have the event


_encoder = msgspec.json.Encoder()

Pin = Literal["auto", "live", "bulk"]  # the gear in which a subscription shall be served
Order = Literal["ordered", "unordered", "key"]  # in which a subscription gets its events


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Kafka cluster as a resource names it. Credentials are never here: only where they are, and which ones."""

    bootstrap_servers: str = ""  # none: home, the Kafka in which Penstock keeps its own topics
    secret: str = ""  # "namespace/name" of the Secret with the credentials; none: plain text, nobody is asked
    version: str = ""  # of that Secret: with another one, clients are made anew

    @property
    def is_home(self) -> bool:
        return not self.bootstrap_servers


HOME = Cluster()


def place_of(topic: str, cluster: Cluster) -> str:
    """``topic`` at home, ``topic@bootstrap`` elsewhere. A topic's name has no @."""
    return topic if cluster.is_home else f"{topic}@{cluster.bootstrap_servers}"


def topic_of(place: str) -> str:
    """The name that the topic has in its cluster."""
    return place.partition("@")[0]


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an ingress address leads."""

    path: str  # "/namespace/name", without a trailing slash
    topic: str
    content_mode: Literal["binary", "structured"] = "binary"
    hosts: tuple[str, ...] = ()  # host names that lead there too, whatever the path; in lower case, without a port
    cluster: Cluster = HOME
    settings: dict[str, str] = {}  # of the producer, as Kafka's own clients name them
    is_foreign: bool = False  # its topic is for others to read: records have nothing besides the event


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """How hard to try, and where an event goes that cannot be delivered."""

    retry: int = 0
    backoff_policy: Literal["exponential", "linear"] = "exponential"
    backoff_delay_seconds: float = 0.2
    timeout_seconds: float = 30.0
    retry_after_max_seconds: float | None = None
    dead_letter_url: str | None = None
    format: Literal["binary", "json"] = "binary"
    batch: int = 1  # events in a request; more than one: CloudEvents' batched form
    batch_wait_seconds: float = 0.05  # how long an incomplete batch waits
    max_in_flight: int = 0  # requests at once over all partitions; 0: the dispatcher's own window
    events_per_second: float = 0.0  # over all partitions; 0: no limit
    signing_secret: str = ""  # the name of a file with keys, in the folder of its namespace; none: nothing is signed


class RecordsAsEvents(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a source makes events of records that are none."""

    source: str  # the event's attribute of that name
    key_type: Literal["string", "int", "float", "byte-array"] = "string"


class Subscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """One receiver of a topic's events: a trigger, a channel's subscription, a source."""

    uid: str
    kind: str
    namespace: str
    name: str
    topic: str
    group: str  # the Kafka consumer group that shows its progress
    subscriber_url: str
    filters: tuple[dict[str, Any], ...] = ()  # as Knative writes them; see filter/
    delivery: Delivery = Delivery()
    order: Order = "unordered"
    paused: str = ""  # why nothing is delivered; empty: it is
    paused_until: float = 0.0  # seconds since the epoch; 0: until somebody resumes it
    gear: Pin = "auto"
    resumed: str = ""  # when somebody said that a subscriber which was gone is back
    reply_topic: str = ""  # where events go that the subscriber sends back; in the cluster of its topic
    reply_url: str = ""  # or the address that they are sent to; neither: they are dropped
    records: RecordsAsEvents | None = None  # of a source: what becomes of records that are no events; None: skipped
    extensions: dict[str, str] = {}  # attributes that every event gets on its way to the subscriber
    cluster: Cluster = HOME  # where its topic is
    settings: dict[str, str] = {}  # of the consumer, as Kafka's own clients name them

    @property
    def place(self) -> str:
        """Which topic it is, of all clusters together: what queries, reports and bells go by."""
        return place_of(self.topic, self.cluster)

    @property
    def version(self) -> str:
        """Another one for every change, and the same for who writes the contract and who reads it."""
        # A default is left out when it is the very object, not when it is equal to it; so it matters whether a value
        # was written by somebody or has been read. All have been read here.
        read = msgspec.json.decode(_encoder.encode(self), type=Subscription)
        return hashlib.blake2b(_encoder.encode(read), digest_size=6).hexdigest()

    def is_paused(self, now: float) -> bool:
        return bool(self.paused) and (not self.paused_until or now < self.paused_until)


class Agreement(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one resource means for the data plane: the value of a contract record."""

    uid: str
    generation: int
    routes: tuple[Route, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()


# Keys of the report topic.
HEARTBEAT = "dispatcher"
QUERY = "query/"  # the place of the topic follows, the value is a QueryReport
GONE = "gone/"  # the uid of a subscription follows, the value is a Gone


class QueryReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the dispatcher says about the query of one topic."""

    topic: str  # its place: the name at home, with @ and the cluster's address elsewhere
    state: Literal["starting", "running", "refused", "failed"]
    reason: str = ""
    subscriptions: tuple[str, ...] = ()  # uids it serves
    versions: tuple[str, ...] = ()  # of each of them, what it is served as (``Subscription.version``)
    apart: tuple[str, ...] = ()  # uids of those among them that have a query of their own: they are slow
    failures: dict[str, str] = {}  # by uid: why the subscription's own query does not run
    gear: Literal["live", "bulk", "cold"] = "live"
    since: float = 0.0  # seconds since the epoch
    warnings: tuple[str, ...] = ()  # events that retention will take before they are delivered
    refused: dict[str, str] = {}  # why a subscription is not served, by uid: its filter is invalid


class Gone(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subscriber answered 410: it wants nothing any more. True for this address, until somebody resumes it."""

    topic: str
    url: str
    resumed: str = ""  # of the subscription, when that was

    def is_about(self, subscription: Subscription) -> bool:
        return (self.url, self.resumed) == (subscription.subscriber_url, subscription.resumed)


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event that its subscriber did not take: the value of a record of the dead letters topic."""

    id: str  # of the event, like source and type
    source: str
    type: str
    kind: str  # of the resource that subscribes, like namespace and name
    namespace: str
    name: str
    uid: str
    topic: str
    partition: int
    offset: int
    outcome: str  # "dead-lettered": the sink has it; "given up": there is none, or it failed too
    reason: str
    code: int  # the status of the last answer, 0 for none
    attempts: int
    time: float  # seconds since the epoch
    event: msgspec.Raw  # in CloudEvents' JSON form
    redriven: float = 0.0  # when it was sent again
    answer: str = ""  # how the body of the last answer began
    topic_id: str = ""  # from Kafka; changes if the topic is created again. Earlier versions wrote none

    @property
    def key(self) -> str:
        """The key of its record: for each event and subscription, the last record counts."""
        return dead_letter_key(self.uid, self.topic_id, self.partition, self.offset)


def dead_letter_key(uid: str, topic_id: str, partition: int, offset: int) -> str:
    """A subscription may read several topics, and a topic may be made again: their dead letters stay separate."""
    return "/".join(each for each in (uid, topic_id, str(partition), str(offset)) if each)


_agreement_decoder = msgspec.json.Decoder(Agreement)
_report_decoder = msgspec.json.Decoder(QueryReport)
_gone_decoder = msgspec.json.Decoder(Gone)
_dead_letter_decoder = msgspec.json.Decoder(DeadLetter)


def encode(value: Agreement | QueryReport | Gone | DeadLetter) -> bytes:
    return _encoder.encode(value)


def decode_agreement(raw: bytes) -> Agreement:
    return _agreement_decoder.decode(raw)


def decode_dead_letter(raw: bytes) -> DeadLetter:
    return _dead_letter_decoder.decode(raw)


def decode_gone(raw: bytes) -> Gone:
    return _gone_decoder.decode(raw)


def decode_report(raw: bytes) -> QueryReport:
    return _report_decoder.decode(raw)
