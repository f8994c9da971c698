"""What the dispatcher answers over HTTP, on a port of its own: its metrics, and questions that need Spark.

    GET  /healthz, /readyz, /metrics
    POST /search, /verdicts          asked by the controller (control/explain.py)

Every handler runs in a thread of the listener. Searches use the session of the queries, in jobs of their own.
"""

from collections.abc import Mapping

from penstock.pipeline.running import Environment
from penstock.telemetry.exposition import CONTENT_TYPE
from penstock.telemetry.http import Answered, Handler


def routes(environment: Environment) -> Mapping[str, Handler]:
    def readyz(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(b"ok\n", "text/plain")

    def metrics(_query: Mapping[str, str], _body: bytes) -> Answered:
        return Answered(environment.vitals.text(), CONTENT_TYPE)

    return {"GET /readyz": readyz, "GET /metrics": metrics}
