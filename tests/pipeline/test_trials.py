"""Promises of the answers about filters that the dispatcher gives on its port: nothing in a question is run."""

import asyncio
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.questions import Trials

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
CALL = "x') OR java_method('java.lang.System', 'setProperty', 'attacked', 'yes') IS NOT NULL OR ('"


@pytest.mark.parametrize(
    "filters",
    [
        *([{dialect: {CALL: "x"}}] for dialect in ("exact", "prefix", "suffix", "attributes")),
        [{"any": [{"not": {"prefix": {CALL: "x"}}}]}],
        [{"cesql": "java_method('a', 'b') = 'c'"}],
        [{"penstock.dev/cesql-data": "data['a\\'] = 1"}],
        [{CALL: {}}],
        [{}],
        [{"exact": []}],
        [{"exact": {"type": {"a": 1}}}],
        [{"all": [5]}],
        [{"cesql": "note LIKE '%" + "a" * 300 + "%'"}],
    ],
)
@pytest.mark.parametrize("reasons", [True, False])
def test_an_invalid_filter_is_not_tried_and_the_others_are(
    spark: SparkSession, filters: list[dict[str, Any]], reasons: bool
) -> None:
    """Kept promise: a question with invalid names runs nothing, and is answered for all other filters."""
    good = [{"exact": {"type": "t"}}]
    body = {"filters": [good, filters, good], "events": [EVENT], "reasons": reasons}
    (verdicts,) = asyncio.run(Trials(spark).answer(json.dumps(body).encode()))["verdicts"]
    assert [each["matched"] for each in verdicts] == [True, False, True]
    assert verdicts[1]["because"].startswith("the filter is invalid: filters")
    (row,) = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'attacked') AS found").collect()
    assert row.found in (None, "null")
