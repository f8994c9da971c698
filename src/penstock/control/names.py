"""Names that Knative fixed, and ours beside them: annotations, topics, groups."""

BROKER_CLASS = "eventing.knative.dev/broker.class"
BROKER_CLASSES = ("Kafka", "kafka")
EXTERNAL_TOPIC = "kafka.eventing.knative.dev/external.topic"
DELIVERY_ORDER = "kafka.eventing.knative.dev/delivery.order"
ORDERS = ("ordered", "unordered", "key")
BATCH = "penstock.dev/delivery.batch"  # events in a request
BATCH_WAIT = "penstock.dev/delivery.batch-wait"  # how long an incomplete batch waits, ISO 8601
MAX_IN_FLIGHT = "penstock.dev/delivery.max-in-flight"  # requests at once
MAX_RATE = "penstock.dev/delivery.max-rate"  # events per second
PAUSED = "penstock.dev/paused"  # the reason, or any other text
PAUSED_UNTIL = "penstock.dev/paused-until"  # ISO 8601, with a time zone
RESUMED = "penstock.dev/resumed"  # when a subscriber that was gone was said to be back
SIGNING_SECRET = "penstock.dev/delivery.signing-secret"
START = "penstock.dev/start"  # or a time, ISO 8601
STARTS = ("earliest", "latest")
GEAR = "penstock.dev/delivery.gear"  # on a trigger, or on a broker for all of its triggers
GEARS = ("auto", "live", "bulk")
PRODUCER = "penstock.dev/producer."  # and a setting of Kafka's producer, for what is sent to a resource
CONSUMER = "penstock.dev/consumer."  # and a setting of Kafka's consumer, for what is delivered
BROKER_LABEL = "eventing.knative.dev/broker"
KEY_TYPE_LABEL = "kafkasources.sources.knative.dev/key-type"
KEY_TYPES = ("string", "int", "float", "byte-array")
CONTENT_MODES = ("structured", "binary")
SYSTEM_NAMESPACE = "knative-eventing"
CHANNEL_CONFIG = "kafka-channel-config"  # a ConfigMap there, for all channels
OLD_SECRET_LABEL = "eventing-kafka.knative.dev/kafka-secret"  # on a Secret there: of the former distributed channel
SERVICE_DOMAIN = "svc.cluster.local"

# What reconciling notes in status.annotations.
NOTED_TOPIC = "penstock.dev/topic"
NOTED_TOPIC_ID = "penstock.dev/topic-id"
NOTED_PARTITIONS = "penstock.dev/partitions"
NOTED_START = "penstock.dev/start-positions"
NOTED_OWNED = "penstock.dev/topic-owned"  # "true": we have made the topic, and it goes with the resource
SECRET_KEYS = "penstock.dev/secret-keys"  # on a stored Secret: the names of what is in it
SECRET_SERVERS = "penstock.dev/secret-servers"  # and the servers, in the form of the former distributed channel
SECRET_VERSION = "penstock.dev/secret-version"  # on a stored Secret: which of its contents it is, without saying them
SECRET_FOR = "penstock.dev/servers"  # on a Secret: the Kafka servers that it is for, host:port with commas
SECRET_KAFKA_KEYS = "penstock.dev/kafka-keys"  # on a Secret: further keys whose values sources may send to Kafka
NOTED_CLUSTER = "penstock.dev/cluster"  # where the topic is, unless it is at home


def broker_topic(namespace: str, name: str) -> str:
    return f"knative-broker-{namespace}-{name}"


def trigger_group(namespace: str, name: str) -> str:
    return f"knative-trigger-{namespace}-{name}"


def channel_topic(namespace: str, name: str) -> str:
    return f"knative-messaging-kafka.{namespace}.{name}"


def channel_hosts(namespace: str, name: str) -> tuple[str, ...]:
    """The host names under which senders in a cluster know a channel."""
    short = f"{name}-kn-channel.{namespace}"
    return (f"{short}.{SERVICE_DOMAIN}", f"{short}.svc", short)


def subscription_group(namespace: str, channel: str, uid: str) -> str:
    return f"kafka.{namespace}.{channel}.{uid}"


def source_group(uid: str) -> str:
    """Of a source that names none."""
    return f"knative-kafka-source-{uid}"


def record_source(namespace: str, name: str, topic: str) -> str:
    """The attribute ``source`` of events that a KafkaSource makes of records."""
    return f"/apis/v1/namespaces/{namespace}/kafkasources/{name}#{topic}"
