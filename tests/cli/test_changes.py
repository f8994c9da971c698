"""What a dry run says would change: values in, lines out."""

from typing import Any

from penstock.cli.changes import changes
from tests.control.objects import annotated, config_map, secret, source, stored, trigger


def test_fields_are_named_by_their_path() -> None:
    old = stored(trigger(filter={"attributes": {"type": "a", "source": "/x"}}, delivery={"retry": 1}))
    new = stored(trigger(filter={"attributes": {"type": "b", "source": "/x"}}))
    assert changes(old, new) == ['spec.filter.attributes.type: "a" -> "b"', 'spec.delivery: {"retry": 1} -> (none)']


def test_lists_are_compared_place_by_place_while_they_are_as_long() -> None:
    old, new, longer = (stored(source(topics=topics)) for topics in (["a", "b"], ["a", "c"], ["a", "b", "c"]))
    assert changes(old, new) == ['spec.topics[1]: "b" -> "c"']
    assert changes(old, longer) == ['spec.topics: ["a", "b"] -> ["a", "b", "c"]']


def test_keys_with_dots_stand_in_brackets() -> None:
    old, new = stored(config_map(default_topic_partitions="1")), stored(config_map(default_topic_partitions="2"))
    assert changes(old, new) == ['data[default.topic.partitions]: "1" -> "2"']
    noted = stored(annotated(config_map(default_topic_partitions="1"), **{"penstock.dev/paused": "é"}))
    assert changes(old, noted) == ['metadata.annotations[penstock.dev/paused]: (none) -> "é"']


def test_what_the_store_sets_is_no_change() -> None:
    old: dict[str, Any] = stored(trigger(), "uid-1", status={"conditions": []})
    assert changes(old, {**stored(trigger(), "uid-2"), "status": {}}) == []


def test_of_a_secret_only_the_names_of_keys_are_told() -> None:
    def kept(keys: str, version: str) -> Any:
        notes = {"penstock.dev/secret-keys": keys, "penstock.dev/secret-version": version}
        return stored({**annotated(secret(), **notes), "stringData": {}})

    assert changes(kept("a,b", "1"), kept("a,b", "2")) == ["data: other values, which are not shown"]
    assert changes(kept("a", "1"), kept("a,b", "2")) == ["keys: a -> a,b"]
    assert changes(kept("a", "1"), kept("a", "1")) == []
