"""Where one HTTP/1.1 message ends in a stretch of bytes: all the HTTP that the sink and the generator need.

Comes in: what a socket gave, possibly cut anywhere or holding several messages. Goes out: positions, nothing is
copied but the head. Called for every request and every answer, so it does no more than find the end.
"""

INCOMPLETE = -1
HEAD_END = b"\r\n\r\n"


class Malformed(Exception):
    """The peer does not speak HTTP as expected; the connection is of no more use."""


def message_end(data: bytes, at: int = 0) -> int:
    """The position behind the message that begins at ``at``, or INCOMPLETE."""
    head_end = data.find(HEAD_END, at)
    if head_end < 0:
        return INCOMPLETE
    body = head_end + 4
    head = data[at:head_end].lower()
    found = head.find(b"\r\ncontent-length:")
    if found >= 0:
        line_end = head.find(b"\r\n", found + 17)
        text = head[found + 17 :] if line_end < 0 else head[found + 17 : line_end]
        try:
            end = body + int(text)
        except ValueError:
            raise Malformed(f"content-length {text!r}") from None
        return end if end <= len(data) else INCOMPLETE
    if b"\r\ntransfer-encoding: chunked" in head:
        return _chunks_end(data, body)
    return body


def _chunks_end(data: bytes, at: int) -> int:
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return INCOMPLETE
        try:
            size = int(data[at:line_end].split(b";", 1)[0], 16)
        except ValueError:
            raise Malformed(f"chunk size {data[at:line_end]!r}") from None
        at = line_end + 2
        if size == 0:
            return _trailer_end(data, at)
        at += size + 2
        if at > len(data):
            return INCOMPLETE


def _trailer_end(data: bytes, at: int) -> int:
    if data.startswith(b"\r\n", at):
        return at + 2
    end = data.find(HEAD_END, at)
    return INCOMPLETE if end < 0 else end + 4
