"""Filters, dialect by dialect: every case is a trigger, and all of them see the same events."""

from typing import Any

import pytest

from tests.conformance.sending import ids, send
from tests.conformance.stage import ORDERED, Stage

CREATED, DELETED, PING = "com.shop.order.created", "com.shop.order.deleted", "com.shop.ping"
EVENTS: dict[str, dict[str, Any]] = {
    "eu": {"type_": CREATED, "source": "/shop/eu", "region": "eu-west", "n": "5", "flag": "true"},
    "us": {"type_": DELETED, "source": "/shop/us", "region": "us-east", "n": "-3", "flag": "false"},
    "case": {"type_": CREATED, "source": "/shop/EU", "region": "EU-WEST"},
    "uni": {"type_": PING, "source": "/shop/eu", "name": "Grüße 100%"},
    "bare": {"type_": PING, "source": "/shop/eu"},
}
ALL = set(EVENTS)
NONE: set[str] = set()


def attributes(**wanted: str) -> dict[str, Any]:
    return {"filter": {"attributes": wanted}}


def filters(*wanted: dict[str, Any]) -> dict[str, Any]:
    return {"filters": list(wanted)}


def cesql(text: str) -> dict[str, Any]:
    return filters({"cesql": text})


# By name: the part of the trigger's spec, and the ids of the events that match, no others.
CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "no-filter": ({}, ALL),
    "no-attributes": ({"filter": {}}, ALL),
    "no-filters": ({"filters": []}, ALL),
    "attributes": (attributes(type=PING), {"uni", "bare"}),
    "attributes-are-all-required": (attributes(type=CREATED, source="/shop/eu"), {"eu"}),
    "attributes-extension": (attributes(region="us-east"), {"us"}),
    "attributes-case-counts": (attributes(region="Eu-West"), NONE),
    "attributes-empty-means-present": (attributes(region=""), {"eu", "us", "case"}),
    "attributes-empty-and-value": (attributes(region="", type=CREATED), {"eu", "case"}),
    "attributes-missing": (attributes(color="red"), NONE),
    "filters-replace-attributes": (attributes(type=PING) | filters({"exact": {"region": "us-east"}}), {"us"}),
    "empty-filters-replace-nothing": (attributes(type=PING) | filters(), {"uni", "bare"}),
    "filters-are-all-required": (filters({"exact": {"type": CREATED}}, {"prefix": {"region": "eu"}}), {"eu"}),
    "exact": (filters({"exact": {"type": DELETED}}), {"us"}),
    "exact-several": (filters({"exact": {"type": CREATED, "region": "eu-west"}}), {"eu"}),
    "exact-case-counts": (filters({"exact": {"region": "EU-west"}}), NONE),
    "exact-missing": (filters({"exact": {"color": "red"}}), NONE),
    "exact-beyond-ascii": (filters({"exact": {"name": "Grüße 100%"}}), {"uni"}),
    "exact-is-no-pattern": (filters({"exact": {"region": "eu%"}}), NONE),
    "prefix": (filters({"prefix": {"type": "com.shop.order."}}), {"eu", "us", "case"}),
    "prefix-several": (filters({"prefix": {"type": "com.shop.order.", "region": "us"}}), {"us"}),
    "prefix-whole-value": (filters({"prefix": {"region": "eu-west"}}), {"eu"}),
    "prefix-case-counts": (filters({"prefix": {"region": "E"}}), {"case"}),
    "prefix-missing": (filters({"prefix": {"color": "r"}}), NONE),
    "prefix-is-no-pattern": (filters({"prefix": {"type": "com_shop"}}), NONE),
    "suffix": (filters({"suffix": {"type": ".created"}}), {"eu", "case"}),
    "suffix-several": (filters({"suffix": {"type": ".created", "source": "/eu"}}), {"eu"}),
    "suffix-whole-value": (filters({"suffix": {"region": "us-east"}}), {"us"}),
    "suffix-case-counts": (filters({"suffix": {"region": "WEST"}}), {"case"}),
    "suffix-missing": (filters({"suffix": {"color": "d"}}), NONE),
    "suffix-percent": (filters({"suffix": {"name": "0%"}}), {"uni"}),
    "all": (filters({"all": [{"exact": {"type": CREATED}}, {"suffix": {"source": "/eu"}}]}), {"eu"}),
    "any": (filters({"any": [{"exact": {"type": DELETED}}, {"suffix": {"source": "/EU"}}]}), {"us", "case"}),
    "any-beside-missing": (filters({"any": [{"prefix": {"color": "r"}}, {"exact": {"type": DELETED}}]}), {"us"}),
    "not": (filters({"not": {"exact": {"type": CREATED}}}), {"us", "uni", "bare"}),
    "not-exact-missing": (filters({"not": {"exact": {"region": "eu-west"}}}), ALL - {"eu"}),
    "not-prefix-missing": (filters({"not": {"prefix": {"region": "eu"}}}), ALL - {"eu"}),
    "not-suffix-missing": (filters({"not": {"suffix": {"region": "east"}}}), ALL - {"us"}),
    "not-not": (filters({"not": {"not": {"exact": {"type": DELETED}}}}), {"us"}),
    "nested": (
        filters({"any": [{"all": [{"exact": {"type": CREATED}}, {"not": {"prefix": {"region": "eu"}}}]},
                         {"not": {"any": [{"exact": {"source": "/shop/eu"}}, {"prefix": {"region": "E"}}]}}]}),
        {"case", "us"},
    ),
    "cesql": (cesql(f"type = '{DELETED}'"), {"us"}),
    "cesql-unequal": (cesql(f"type <> '{CREATED}'"), {"us", "uni", "bare"}),
    "cesql-and-or": (cesql(f"type = '{PING}' OR (type = '{CREATED}' AND region = 'eu-west')"), {"eu", "uni", "bare"}),
    "cesql-not": (cesql(f"NOT (type = '{PING}')"), {"eu", "us", "case"}),
    "cesql-like": (cesql("type LIKE 'com.shop.%.created'"), {"eu", "case"}),
    "cesql-like-one": (cesql("source LIKE '/shop/_u'"), {"eu", "uni", "bare"}),
    "cesql-in": (cesql("source IN ('/shop/us', '/shop/EU')"), {"us", "case"}),
    "cesql-exists": (cesql("EXISTS region"), {"eu", "us", "case"}),
    "cesql-not-exists": (cesql("NOT EXISTS region"), {"uni", "bare"}),
    "cesql-number": (cesql("EXISTS n AND n > 0"), {"eu"}),
    "cesql-arithmetic": (cesql("EXISTS n AND n * 2 + 1 = -5"), {"us"}),
    "cesql-boolean": (cesql("EXISTS flag AND flag = TRUE"), {"eu"}),
    "cesql-function": (cesql("EXISTS region AND LOWER(region) = 'eu-west'"), {"eu", "case"}),
    "cesql-length": (cesql("LENGTH(id) = 4"), {"case", "bare"}),
    "cesql-keywords-in-any-case": (cesql("exists Region and left(region, 2) = 'us'"), {"us"}),
    "cesql-beyond-ascii": (cesql("EXISTS name AND name LIKE 'Grü%'"), {"uni"}),
    "cesql-missing-attribute": (cesql("color = 'red'"), NONE),
    "cesql-missing-for-some": (cesql("region = 'us-east'"), {"us"}),
    "cesql-cast-fails": (cesql("INT(type) > 0"), NONE),
    "cesql-division-by-zero": (cesql("1 / (LENGTH(id) - LENGTH(id)) = 0"), NONE),
    "cesql-result-is-a-number": (cesql("LENGTH(id)"), NONE),
    "cesql-result-is-text": (cesql("type"), NONE),
    "cesql-in-any": (filters({"any": [{"cesql": "color = 'red'"}, {"exact": {"type": DELETED}}]}), {"us"}),
}  # fmt: skip

INVALID: dict[str, dict[str, Any]] = {
    "cesql-that-does-not-parse": cesql("type = AND 5"),
    "cesql-empty": cesql(""),
    "cesql-function-that-is-none": cesql("NOSUCHFUNCTION(type) = 1"),
    "dialect-that-is-none": filters({"regex": {"type": ".*"}}),
    "two-dialects-in-one": filters({"exact": {"type": "a"}, "prefix": {"type": "a"}}),
    "name-with-upper-case": filters({"exact": {"Type": "a"}}),
    "name-with-a-dash": filters({"prefix": {"my-name": "a"}}),
    "attributes-with-a-wrong-name": attributes(my_name="a"),
    "invalid-inside": filters({"all": [{"not": {"cesql": "("}}]}),
}


@pytest.fixture(scope="module")
def filtered(stage: Stage) -> None:
    """All triggers are ready, all events were sent, and somebody who wants all of them has got the last one.

    Events come in order here, so a trigger that has got a later event will not get an earlier one any more.
    """
    url = stage.broker("filters")
    stage.trigger("everything", "filters", ORDERED)
    for name, (spec, _) in CASES.items():
        stage.trigger(name, "filters", ORDERED, **spec)
    for name in ("everything", *CASES):
        stage.until_ready("Trigger", name)
    for id_, each in EVENTS.items():
        send(url, id_, **each)
    send(url, "last", "com.shop.last", source="/last")
    stage.subscriber.wait_for(len(EVENTS) + 1, "/everything", 60)


@pytest.mark.usefixtures("filtered")
@pytest.mark.parametrize("name", CASES)
def test_filter(stage: Stage, name: str) -> None:
    """A trigger gets the events that match its filters, and no others."""
    expected = CASES[name][1]
    came = ids(stage.subscriber.wait_for(len(expected), f"/{name}"))
    assert sorted(set(came) - {"last"}) == sorted(expected)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_filter_is_refused(stage: Stage, name: str) -> None:
    """A filter that cannot be read is refused when it is applied, with the reason."""
    spec = {"broker": stage.name("filters"), "subscriber": stage.to("/"), **INVALID[name]}
    answer = stage.api.create(stage.resource("Trigger", f"invalid-{name}", spec))
    assert 400 <= answer.status < 500
    assert answer.body
    assert stage.api.find("Trigger", stage.name(f"invalid-{name}")) is None
