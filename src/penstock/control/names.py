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
BROKER_LABEL = "eventing.knative.dev/broker"

# What reconciling notes in status.annotations.
NOTED_TOPIC = "penstock.dev/topic"
NOTED_TOPIC_ID = "penstock.dev/topic-id"
NOTED_PARTITIONS = "penstock.dev/partitions"
NOTED_START = "penstock.dev/start-positions"


def broker_topic(namespace: str, name: str) -> str:
    return f"knative-broker-{namespace}-{name}"


def trigger_group(namespace: str, name: str) -> str:
    return f"knative-trigger-{namespace}-{name}"
