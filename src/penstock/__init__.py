"""Penstock: CloudEvents in over HTTP, kept in Kafka, delivered to everybody who asked.

The files below, in the order in which an event meets them, are the way to read this package:

1. ``receiver/accept.py``    HTTP request to event, event to the broker's topic, 202
2. ``pipeline/stream.py``    topic to matched rows: the Spark query
3. ``delivery/deliver.py``   matched rows to lanes, lanes to subscribers, outcomes to the ledger

Around that path: ``event`` (what travels), ``filter`` (who wants it), ``contract`` (what the planes
agree on), ``kafka`` (where it is kept), ``control`` (what people applied), ``cli`` (what they type).
"""

__version__ = "0.1.0"
