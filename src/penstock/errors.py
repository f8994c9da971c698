"""The tree of errors, split by what the caller does next.

    PenstockError
    ├── Rejected        the sender's fault: fix the request, do not retry (HTTP 4xx, exit code 1)
    │   └── Misused     words of the command line that mean nothing (exit code 2)
    ├── Unavailable     nobody's fault for long: try again (HTTP 503, a restart with backoff)
    └── Misconfigured   the operator's fault: becomes a condition or stops the start, with a hint

A failed delivery is none of these: it is an Outcome (see ``delivery``).
"""


class PenstockError(Exception):
    """An error whose message a person can act on."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint  # a remedy, where one is known; shown behind "hint:"


class Rejected(PenstockError):
    """The input is wrong; sending it again changes nothing."""


class Misused(Rejected):
    """What was typed cannot be meant."""


class Unavailable(PenstockError):
    """Something needed is away right now; the same call may succeed later."""


class Misconfigured(PenstockError):
    """A setting or resource cannot work as written."""
