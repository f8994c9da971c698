"""The event: its attributes as text, its data as bytes. Every form decodes to this and encodes from it."""

import msgspec

REQUIRED = ("specversion", "id", "source", "type")
CORE = frozenset((*REQUIRED, "datacontenttype", "dataschema", "subject", "time"))


class Event(msgspec.Struct, frozen=True):
    """A CloudEvents 1.0 event.

    ``attributes`` holds every context attribute in its canonical string form, ``datacontenttype`` among them:
    HTTP and Kafka headers know nothing but text. ``data`` is None when the event has none; empty data is kept
    apart from that wherever the form can tell them apart, which HTTP's binary mode cannot.
    """

    attributes: dict[str, str]
    data: bytes | None = None

    @property
    def content_type(self) -> str | None:
        return self.attributes.get("datacontenttype")

    @property
    def partition_key(self) -> str | None:
        """What Kafka orders by: the extension ``partitionkey``, else the subject."""
        return self.attributes.get("partitionkey") or self.attributes.get("subject")
