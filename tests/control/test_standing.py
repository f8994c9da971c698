"""How a subscription stands, in numbers: limits as the workers keep them, times as Kafka keeps them."""

import pytest

from penstock.contract.model import Delivery, Order, Subscription
from penstock.control.standing import consumed, in_flight_limit, in_seconds
from penstock.pipeline.worker import share


def subscription(order: Order = "unordered", max_in_flight: int = 0) -> Subscription:
    delivery = Delivery(max_in_flight=max_in_flight)
    return Subscription(
        uid="u", kind="Trigger", namespace="n", name="t", topic="x", group="g", subscriber_url="http://x/",
        delivery=delivery, order=order,
    )  # fmt: skip


@pytest.mark.parametrize("most", [0, 1, 10, 1000])
def test_the_limit_is_what_the_workers_keep_together(most: int) -> None:
    agreed = subscription(max_in_flight=most)
    assert in_flight_limit(agreed, 4, 32) == 4 * share(agreed.delivery, 32, 4).window


def test_in_order_one_request_is_under_way_in_each_partition() -> None:
    assert in_flight_limit(subscription("ordered"), 4, 32) == 4


def test_what_was_read_is_added_up_over_partitions() -> None:
    assert consumed({("a", "t", 0): 2, ("a", "t", 1): 3, ("b", "t", 0): 2}) == {"a": 5, "b": 2}


def test_for_ever_is_no_length_of_time() -> None:
    assert in_seconds(-1) == -1
    assert in_seconds(1500) == 1.5
