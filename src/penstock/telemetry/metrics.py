"""Every metric of Penstock, with its unit and meaning. The only place where a metric's name is written.

Read by whoever exposes them (each process its own, the controller all), and by what is made from the list: the page
in the docs, Grafana's dashboards, the rules for alerts.

Labels are few and bounded: resources, topics and partitions, and words from closed lists. Never an event's id, type
or address.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Part = Literal["receiver", "worker", "dispatcher", "controller", "every"]

SUBSCRIPTION = ("kind", "namespace", "name")  # of the resource: Trigger, Subscription, KafkaSource
ADDRESS = ("kind", "namespace", "name")  # of the resource: Broker, KafkaChannel, KafkaSink; empty: an unknown address

# Why the receiver did not take an event.
REJECTIONS = (
    "bad event",  # 400: not a valid CloudEvent
    "bad request",  # 400, 408, 415, 431: not a proper request
    "unknown address",  # 404
    "wrong method",  # 405
    "too large",  # 413
    "not allowed",  # 401, 403
    "overloaded",  # 503: as much is under way as may be
    "kafka",  # 503: Kafka does not take it
    "not ready",  # 503: the contract has not been read yet, or the receiver is ending
    "failed",  # 500
)

# The class of the status that each of them is answered with.
REJECTION_CLASS = {
    reason: "5xx" if reason in ("overloaded", "kafka", "not ready", "failed") else "4xx" for reason in REJECTIONS
}

# How an attempt ended: the class of its status, or that there was none.
CLASSES = ("2xx", "3xx", "4xx", "5xx", "timeout", "error")

# How a subscription does; the number of a state is its place here.
STATES = ("idle", "delivering", "retrying", "failing", "parked", "paused", "not ready", "gone", "hanging")


@dataclass(frozen=True)
class Metric:
    name: str
    kind: Kind
    unit: str  # "events", "seconds", "bytes", … ; "" for a state that is 0 or 1
    help: str
    labels: tuple[str, ...] = ()
    part: Part = "controller"  # who counts it


ACCEPTED = Metric(
    "penstock_events_accepted_total",
    "counter",
    "events",
    "Events answered with 202: Kafka has them.",
    ADDRESS,
    "receiver",
)
REJECTED = Metric(
    "penstock_events_rejected_total",
    "counter",
    "requests",
    "Requests that were not accepted, by reason.",
    (*ADDRESS, "reason"),
    "receiver",
)
PRODUCED = Metric(
    "penstock_events_produced_total",
    "counter",
    "events",
    "Records written to Kafka and acknowledged.",
    ("topic",),
    "receiver",
)
PRODUCED_FORMER = Metric(
    "eventing_kafka_produced_msg_count",
    "counter",
    "events",
    "The same under the name that the distributed channel gave it.",
    ("topic",),
    "receiver",
)
INGRESS_SECONDS = Metric(
    "penstock_ingress_seconds",
    "histogram",
    "seconds",
    "From the whole request to its answer: the time that Kafka takes to acknowledge.",
    ADDRESS,
    "receiver",
)
INGRESS_IN_FLIGHT = Metric(
    "penstock_ingress_in_flight_events",
    "gauge",
    "events",
    "Events that wait for Kafka's acknowledgement.",
    (),
    "receiver",
)
INGRESS_CONNECTIONS = Metric(
    "penstock_ingress_connections", "gauge", "connections", "Open connections of senders.", (), "receiver"
)

CONSUMED = Metric(
    "penstock_records_consumed_total",
    "counter",
    "records",
    "Records that a topic's query has read, wanted or not.",
    ("topic", "partition"),
    "worker",
)
CONSUMED_FORMER = Metric(
    "eventing_kafka_consumed_msg_count",
    "counter",
    "records",
    "The same under the name that the distributed channel gave it; the consumer is the subscription's group.",
    ("consumer", "partition", "topic"),
    "worker",
)
BAD_RECORDS = Metric(
    "penstock_bad_records_total",
    "counter",
    "records",
    "Records that were skipped: those that are not CloudEvents; in Penstock's own topics, those that cannot be read.",
    ("topic",),
    "worker",
)
GAPS = Metric(
    "penstock_offset_gaps_total",
    "counter",
    "gaps",
    "Stretches of offsets without a record: normal after transactions and compaction.",
    ("topic",),
    "worker",
)
FILTER_ERRORS = Metric(
    "penstock_filter_errors_total",
    "counter",
    "events",
    "Events that a subscription's filter could not be evaluated for.",
    (*SUBSCRIPTION, "error"),
    "worker",
)
MATCHED = Metric(
    "penstock_events_matched_total",
    "counter",
    "events",
    "Events that a subscription's filter lets through.",
    SUBSCRIPTION,
    "worker",
)
FILTERED = Metric(
    "penstock_events_filtered_total",
    "counter",
    "events",
    "Events of the topic that a subscription's filter did not let through: read by its query, and not matched.",
    SUBSCRIPTION,
)
DELIVERED = Metric(
    "penstock_events_delivered_total",
    "counter",
    "events",
    "Events that the subscriber has taken.",
    SUBSCRIPTION,
    "worker",
)
ATTEMPTS = Metric(
    "penstock_delivery_attempts_total",
    "counter",
    "requests",
    "Requests to the subscriber, by class of the answer.",
    (*SUBSCRIPTION, "class"),
    "worker",
)
RETRIES = Metric(
    "penstock_delivery_retries_total",
    "counter",
    "requests",
    "Requests that repeat one that failed.",
    SUBSCRIPTION,
    "worker",
)
DEAD_LETTERED = Metric(
    "penstock_events_dead_lettered_total",
    "counter",
    "events",
    "Events that went to the dead letter sink.",
    SUBSCRIPTION,
    "worker",
)
GIVEN_UP = Metric(
    "penstock_events_given_up_total",
    "counter",
    "events",
    "Events that nobody took: no dead letter sink, or it failed too.",
    SUBSCRIPTION,
    "worker",
)
REPLIES = Metric(
    "penstock_replies_total",
    "counter",
    "events",
    "Events that subscribers sent back and that were passed on.",
    SUBSCRIPTION,
    "worker",
)
LOOPS_CUT = Metric(
    "penstock_reply_loops_cut_total",
    "counter",
    "events",
    "Replies and dead letters that were not passed on, since no hop was left.",
    SUBSCRIPTION,
    "worker",
)
OUTCOMES = Metric(
    "penstock_delivery_outcomes_total",
    "counter",
    "events",
    "What became of deliveries: all of the counts above under one name.",
    (*SUBSCRIPTION, "outcome"),
    "worker",
)
IN_FLIGHT = Metric(
    "penstock_delivery_in_flight",
    "gauge",
    "requests",
    "Requests that wait for the subscriber's answer.",
    SUBSCRIPTION,
    "worker",
)
IN_FLIGHT_LIMIT = Metric(
    "penstock_delivery_in_flight_limit",
    "gauge",
    "requests",
    "Requests that may wait for the subscriber's answer at once, in all partitions together.",
    SUBSCRIPTION,
)
UNFINISHED = Metric(
    "penstock_delivery_unfinished_events",
    "gauge",
    "events",
    "Events that workers hold for the subscriber: in flight, or waiting for a retry or their turn.",
    SUBSCRIPTION,
    "worker",
)
STATE = Metric(
    "penstock_subscription_state",
    "gauge",
    "",
    "How it does, as a number: " + ", ".join(f"{number} {state}" for number, state in enumerate(STATES)) + ".",
    SUBSCRIPTION,
)
PARKED = Metric(
    "penstock_subscription_parked", "gauge", "", "1 while a slow subscription has a query of its own.", SUBSCRIPTION
)
PAUSED = Metric("penstock_subscription_paused", "gauge", "", "1 while somebody has paused it.", SUBSCRIPTION)
OLDEST_WAITING = Metric(
    "penstock_oldest_waiting_seconds",
    "gauge",
    "seconds",
    "Age of the oldest event that is not finished; 0 when nothing waits.",
    SUBSCRIPTION,
)
LAG_EVENTS = Metric(
    "penstock_subscription_lag_events",
    "gauge",
    "events",
    "Events in the topic that a subscription has not finished.",
    SUBSCRIPTION,
)
LAG_SECONDS = Metric(
    "penstock_subscription_lag_seconds",
    "gauge",
    "seconds",
    "How far behind the newest event of the topic it is, as time between the two.",
    SUBSCRIPTION,
)
LAST_COMMIT = Metric(
    "penstock_partition_stalled_seconds",
    "gauge",
    "seconds",
    "How long the most stuck partition of a subscription has had events waiting without moving on.",
    SUBSCRIPTION,
)
KAFKA_TO_SUBSCRIBER = Metric(
    "penstock_kafka_to_subscriber_seconds",
    "histogram",
    "seconds",
    "From the record's time in Kafka to the beginning of the request that was answered well.",
    SUBSCRIPTION,
    "worker",
)
SUBSCRIBER_SECONDS = Metric(
    "penstock_subscriber_seconds",
    "histogram",
    "seconds",
    "From the beginning of a request to its answer: the subscriber's own time.",
    SUBSCRIPTION,
    "worker",
)
WHOLE_WAY = Metric(
    "penstock_whole_way_seconds",
    "histogram",
    "seconds",
    "From the receipt of an event to the subscriber's answer, retries and waiting included.",
    SUBSCRIPTION,
    "worker",
)
DEAD_LETTERS = Metric(
    "penstock_dead_letters", "gauge", "events", "Dead letters that have not been sent again.", SUBSCRIPTION
)
DEAD_LETTERS_BY_REASON = Metric(
    "penstock_dead_letters_by_reason",
    "gauge",
    "events",
    "The same by how their last attempt ended: the class of its status, timeout or error.",
    (*SUBSCRIPTION, "reason"),
)
OLDEST_DEAD_LETTER = Metric(
    "penstock_oldest_dead_letter_seconds", "gauge", "seconds", "Age of the oldest of them.", SUBSCRIPTION
)
RETENTION = Metric(
    "penstock_topic_retention_seconds", "gauge", "seconds", "How long a topic keeps events; -1: for ever.", ("topic",)
)
SUBSCRIPTION_RETENTION = Metric(
    "penstock_subscription_retention_seconds",
    "gauge",
    "seconds",
    "How long the topic that a subscription reads keeps events; of several the shortest; -1: for ever.",
    SUBSCRIPTION,
)

QUERY_STATE = Metric(
    "penstock_query_up", "gauge", "", "1 while the query of a topic runs.", ("topic", "gear"), "dispatcher"
)
BATCH_GAP = Metric(
    "penstock_spark_batch_gap_seconds",
    "histogram",
    "seconds",
    "Between the end of a batch and the beginning of the next: nothing flows meanwhile.",
    ("topic",),
    "dispatcher",
)
QUERY_STARTS = Metric(
    "penstock_query_starts_total",
    "counter",
    "starts",
    "Starts of a topic's query, take-overs included.",
    ("topic",),
    "dispatcher",
)
WORKERS = Metric("penstock_python_workers", "gauge", "processes", "Python workers of Spark.", (), "dispatcher")
WORKER_MEMORY = Metric(
    "penstock_python_worker_memory_bytes",
    "gauge",
    "bytes",
    "Resident memory of all Python workers.",
    (),
    "dispatcher",
)
JVM_HEAP = Metric("penstock_spark_heap_bytes", "gauge", "bytes", "Heap in use in Spark's driver.", (), "dispatcher")
SLOTS = Metric(
    "penstock_spark_slots", "gauge", "slots", "Task slots of Spark, by use.", ("state",), "dispatcher"
)  # free, used

RESOURCES = Metric("penstock_resources", "gauge", "resources", "Resources by kind and readiness.", ("kind", "ready"))
PART_UP = Metric("penstock_part_up", "gauge", "", "1 while a part of the system runs.", ("part",))
KAFKA_BROKERS = Metric("penstock_kafka_brokers", "gauge", "brokers", "Brokers of the home cluster that answer.")
KAFKA_OFFLINE = Metric("penstock_kafka_offline_partitions", "gauge", "partitions", "Partitions without a leader.")
KAFKA_UNDER_REPLICATED = Metric(
    "penstock_kafka_under_replicated_partitions",
    "gauge",
    "partitions",
    "Partitions with fewer copies in sync than they have.",
)
KAFKA_DISK = Metric("penstock_kafka_disk_bytes", "gauge", "bytes", "Size of the log of the home cluster, all copies.")
KAFKA_DISK_FREE = Metric(
    "penstock_kafka_disk_free_bytes", "gauge", "bytes", "Room that is left on the disk of the embedded Kafka."
)
TOPIC_END = Metric(
    "penstock_topic_end_offset", "gauge", "records", "End of a topic's partition.", ("topic", "partition")
)

TELEMETRY_DROPPED = Metric(
    "penstock_telemetry_dropped_total",
    "counter",
    "records",
    "What workers could not tell in time.",
    ("part",),
    "every",
)
SERIES_FOLDED = Metric(
    "penstock_metrics_folded_subscriptions",
    "gauge",
    "subscriptions",
    "Subscriptions beyond the limit, which share one series with the name `others`.",
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
BY_NAME = {metric.name: metric for metric in METRICS}
