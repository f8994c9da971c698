"""The parts that several kinds share: destinations (uri or ref), delivery settings, unknown fields."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.access.addresses import is_plain_authority
from penstock.control import names, times
from penstock.control.durations import seconds_of
from penstock.control.kinds import nearest
from penstock.control.validate_parts import address_problems, shown_briefly
from penstock.errors import Misconfigured
from penstock.filter.check import Problem
from penstock.kafka import tuning

BACKOFF_POLICIES = ("exponential", "linear")
FORMATS = ("binary", "json")
MOST_RETRIES = 2**31 - 1
LARGEST_BATCH = 1000
LONGEST_BATCH_WAIT_SECONDS = 60.0
MOST_IN_FLIGHT = 10_000
HIGHEST_RATE = 1_000_000.0
SHORTEST_TIMEOUT_SECONDS = 0.001
LONGEST_DURATION_SECONDS = 10 * 24 * 3600.0

_SECRET = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_DESTINATION = ("ref", "uri", "CACerts", "audience")
_REFERENCE = ("apiVersion", "kind", "name", "namespace", "group", "address")
_DELIVERY = ("deadLetterSink", "retry", "timeout", "backoffPolicy", "backoffDelay", "retryAfterMax", "format")


def is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def unknown_fields(body: Mapping[str, Any], known: Iterable[str], where: str) -> list[Problem]:
    """Fields that mean nothing here: refused, since a misspelt setting would otherwise be silently without effect."""
    names = list(known)
    found = []
    for field in body:
        if field not in names:
            near = nearest(str(field), names)
            advice = f"did you mean {near}?" if near else f"known are {', '.join(names)}"
            found.append(Problem(f"{where}.{field}" if where else str(field), f"unknown field; {advice}"))
    return found


def destination_problems(body: Any, where: str) -> list[Problem]:
    """A subscriber or dead letter sink: an absolute uri, or a ref, or a ref with a uri relative to it."""
    if not is_map(body):
        return [Problem(where, "must be an object with uri or ref")]
    if "ref" not in body and "kind" in body and "name" in body:
        return [Problem(where, "apiVersion, kind and name belong under ref: indent them below it")]
    found = unknown_fields(body, _DESTINATION, where)
    for field in ("CACerts", "audience"):
        if body.get(field) is not None:
            found.append(Problem(f"{where}.{field}", "is not supported yet"))
    ref, uri = body.get("ref"), body.get("uri")
    if ref is None and uri is None:
        return [*found, Problem(where, "needs a uri or a ref")]
    if ref is not None:
        found += _reference_problems(ref, f"{where}.ref")
    if uri is not None:
        found += _uri_problems(uri, f"{where}.uri", relative=ref is not None)
    return found


def _reference_problems(ref: Any, where: str) -> list[Problem]:
    if not is_map(ref):
        return [Problem(where, "must be an object with apiVersion, kind and name")]
    found = unknown_fields(ref, _REFERENCE, where)
    for field in ("kind", "name"):
        if not isinstance(ref.get(field), str) or not ref[field]:
            found.append(Problem(f"{where}.{field}", "is missing"))
    if not (ref.get("apiVersion") or ref.get("group")):
        found.append(Problem(f"{where}.apiVersion", "is missing"))
    return found


def _uri_problems(uri: Any, where: str, *, relative: bool) -> list[Problem]:
    if not isinstance(uri, str) or not uri:
        return [Problem(where, "must be text")]
    if not all(0x20 < ord(c) < 0x7F for c in uri):
        return [Problem(where, "must be ASCII without spaces; write other characters as %XX")]
    try:
        parts = urlsplit(uri)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError as error:
        return [Problem(where, f'"{uri}" is not a URI: {error}')]
    if relative and not parts.scheme and not parts.netloc:
        return []
    if relative:
        return [Problem(where, f'"{uri}" must be relative, since it is added to the address of the ref')]
    if parts.scheme not in ("http", "https"):
        return [Problem(where, f'"{uri}" must be absolute and begin with http:// or https://')]
    if not parts.hostname or not port_is_fine:
        return [Problem(where, f'"{uri}" has no host to connect to')]
    if "@" in parts.netloc.rpartition("@")[0]:
        return [Problem(where, "the user or the password has an @; write it as %40")]
    if not is_plain_authority(parts.netloc):
        return [Problem(where, f'"{uri}": {shown_briefly(parts.hostname)} is not a DNS name or an IP address')]
    return address_problems(unquote(parts.hostname), where)


def delivery_problems(delivery: Any, where: str) -> list[Problem]:
    if delivery is None:
        return []
    if not is_map(delivery):
        return [Problem(where, "must be an object")]
    found = unknown_fields(delivery, _DELIVERY, where)
    if delivery.get("deadLetterSink") is not None:
        found += destination_problems(delivery["deadLetterSink"], f"{where}.deadLetterSink")
    retry = delivery.get("retry")
    if retry is not None and (
        isinstance(retry, bool) or not isinstance(retry, int) or not 0 <= retry <= MOST_RETRIES
    ):
        found.append(Problem(f"{where}.retry", f'must be a whole number of at least 0, not "{retry}"'))
    for field, accepted in (("backoffPolicy", BACKOFF_POLICIES), ("format", FORMATS)):
        value = delivery.get(field)
        if value is not None and value not in accepted:
            found.append(Problem(f"{where}.{field}", f'must be {" or ".join(accepted)}, not "{value}"'))
    for field in ("timeout", "backoffDelay", "retryAfterMax"):
        found += _duration_problems(delivery.get(field), f"{where}.{field}", positive=field == "timeout")
    return found


def _duration_problems(value: Any, where: str, *, positive: bool) -> list[Problem]:
    if value is None:
        return []
    try:
        seconds = seconds_of(value) if isinstance(value, str) else None
    except ValueError:
        seconds = None
    if seconds is None:
        return [Problem(where, f'"{value}" is not an ISO 8601 duration such as PT0.2S, PT30S or P1D')]
    if positive and seconds < SHORTEST_TIMEOUT_SECONDS:
        return [Problem(where, "must be at least a millisecond, PT0.001S")]
    if seconds > LONGEST_DURATION_SECONDS:
        return [Problem(where, "must be at most ten days, P10D")]
    return []


def annotation_problems(annotations: Mapping[str, Any]) -> list[Problem]:
    """Annotations that steer delivery; each is text, as Kubernetes has it."""
    found = client_problems(annotations, names.CONSUMER)
    for name, most in ((names.BATCH, LARGEST_BATCH), (names.MAX_IN_FLIGHT, MOST_IN_FLIGHT)):
        value = annotations.get(name)
        if value is not None and not (_is_number(value, whole=True) and 1 <= int(value) <= most):
            found.append(Problem(_where(name), f'must be a whole number from 1 to {most:,}, not "{value}"'))
    rate = annotations.get(names.MAX_RATE)
    if rate is not None and not (_is_number(rate) and 0 < float(rate) <= HIGHEST_RATE):
        found.append(Problem(_where(names.MAX_RATE), f'must be events per second, such as 50 or 0.5, not "{rate}"'))
    secret = annotations.get(names.SIGNING_SECRET)
    if secret is not None and not (isinstance(secret, str) and _SECRET.fullmatch(secret)):
        found.append(Problem(_where(names.SIGNING_SECRET), f'"{secret}" is no name of a secret'))
    found += time_problems(annotations.get(names.PAUSED_UNTIL), _where(names.PAUSED_UNTIL), "")
    wait = annotations.get(names.BATCH_WAIT)
    found += _duration_problems(wait, _where(names.BATCH_WAIT), positive=False)
    if not found and wait is not None and seconds_of(wait) > LONGEST_BATCH_WAIT_SECONDS:
        found.append(Problem(_where(names.BATCH_WAIT), "must be at most a minute, PT1M"))
    return found


def client_problems(annotations: Mapping[str, Any], prefix: str) -> list[Problem]:
    """Settings of Kafka's clients, checked against the client's own list."""
    check = tuning.producer_settings if prefix == names.PRODUCER else tuning.consumer_settings
    found = []
    for name, value in annotations.items():
        if isinstance(name, str) and name.startswith(prefix):
            try:
                check({name.removeprefix(prefix): str(value)})
            except Misconfigured as error:
                found.append(Problem(_where(name), f"{error.message}; {error.hint}" if error.hint else error.message))
    return found


def start_problems(annotations: Mapping[str, Any]) -> list[Problem]:
    """Where a subscription begins."""
    asked = annotations.get(names.START)
    if asked in names.STARTS:
        return []
    return time_problems(asked, _where(names.START), f"{', '.join(names.STARTS)} or ")


def time_problems(value: Any, where: str, else_than: str) -> list[Problem]:
    if value is None:
        return []
    try:
        times.epoch_of(str(value))
    except ValueError as error:
        return [Problem(where, f'"{value}" is not {else_than}a time such as 2026-12-24T18:00:00Z: {error}')]
    return []


def _where(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def _is_number(value: Any, *, whole: bool = False) -> bool:
    return isinstance(value, str) and bool((_WHOLE if whole else _DECIMAL).fullmatch(value))
