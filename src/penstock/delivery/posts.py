"""What is sent to whom: the POST of an attempt, and those of the events in its answer. Pure."""

from collections.abc import Callable, Sequence

from penstock.delivery.client import Post
from penstock.delivery.dead_letter import dead_letter_form
from penstock.delivery.forms import are_wide, batched, binary_lines, structured, traces
from penstock.delivery.lane import Attempt, Lane
from penstock.delivery.row import Row
from penstock.delivery.sign import signature_lines
from penstock.event.model import Event


def post_of(attempt: Attempt, touch: Callable[[int], None], now: float) -> Post:
    """To the subscriber; or, once that is given up, to the dead letter sink. ``touch`` is told what is worked on."""
    lane, found = attempt.lane, attempt.verdict
    subscription = lane.subscription
    delivery = subscription.delivery
    rows = attempt.rows if lane.dress is None else [_dressed(lane, row, touch) for row in attempt.rows]
    if found is None and delivery.batch > 1:
        lines, body = batched(rows, touch)
    else:
        row = rows[0]
        as_json = delivery.format == "json" or row.is_wide
        lines, body = (row.headers, row.body) if found is None else dead_letter_form(row, found, as_json=as_json)
        if as_json:
            lines, body = structured(lines, body)
    url = subscription.subscriber_url if found is None else delivery.dead_letter_url or ""
    wants_reply = found is None and lane.wants_replies
    lines = lines + lane.headers
    if delivery.signing_secret and found is None:
        lines += signature_lines(lane.signing_keys, lines, body, now)
    return Post(url, lines, body, delivery.timeout_seconds, wants_reply)


def reply_posts(lane: Lane, events: Sequence[Event], cause: Row) -> list[Post]:
    """To the address that wants the replies, in binary mode, with the trace of their cause."""
    url, timeout_seconds = lane.subscription.reply_url, lane.subscription.delivery.timeout_seconds
    told = [lane.namespace_line, *traces(cause.headers)]
    posts = []
    for event in events:
        lines, body = binary_lines(event)
        if are_wide(lines):
            lines, body = structured(lines, body)
        posts.append(Post(url, lines + told, body, timeout_seconds))
    return posts


def _dressed(lane: Lane, row: Row, touch: Callable[[int], None]) -> Row:
    assert lane.dress is not None
    touch(row.offset)
    return lane.dress.outgoing(row)
