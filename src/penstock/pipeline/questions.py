"""What the dispatcher answers over HTTP, on a port of its own: its metrics, and questions that need Spark.

    GET  /healthz, /readyz, /metrics
    POST /search, /verdicts          asked by the controller (contract/questions.py)

Every handler runs in a thread of the listener. Searches use the session of the queries, in jobs of their own.
"""

import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.contract.questions import decode_search, decode_verdicts
from penstock.errors import Rejected
from penstock.event.json_form import decode_event
from penstock.pipeline.running import Environment
from penstock.pipeline.search import Searches
from penstock.pipeline.trial import try_many
from penstock.telemetry.exposition import CONTENT_TYPE
from penstock.telemetry.http import LINES, Answered, Handler

MOST_EVENTS = 2000  # in a question for verdicts


def routes(environment: Environment) -> Mapping[str, Handler]:
    searches, trials = Searches(environment.session, environment.clusters), Trials(environment.session)

    def readyz(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(b"ok\n", "text/plain")

    def metrics(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(environment.vitals.text(), CONTENT_TYPE)

    def search(_query: Mapping[str, str], body: bytes) -> Answered:
        return Answered(content_type=LINES, lines=searches.search(decode_search(body)))

    def verdicts(_query: Mapping[str, str], body: bytes) -> Answered:
        return trials.answer(body)

    return {
        "GET /readyz": readyz,
        "GET /metrics": metrics,
        "POST /search": search,
        "POST /verdicts": verdicts,
    }


class Trials:
    """Filters tried on events, one question after the other, since large ones take memory."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._turn = threading.Lock()

    def answer(self, body: bytes) -> Answered:
        asked = decode_verdicts(body)
        if len(asked.events) > MOST_EVENTS:
            raise Rejected(f"these are {len(asked.events)} events; at most {MOST_EVENTS} are tried at once")
        events = [decode_event(bytes(each)) for each in asked.events]
        with self._turn:
            found = try_many(self._session, asked.filters, events, reasons=asked.reasons)
        rows = [[{"matched": each.matched, "because": each.because} for each in row] for row in found]
        return Answered.json({"verdicts": rows})
