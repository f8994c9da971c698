"""How many files and sockets this process may have open. Called by every server before it accepts connections."""

import logging
import resource
from contextlib import suppress

logger = logging.getLogger("penstock")

RESERVED = 128  # for files, for Kafka, and for connections that are accepted before older ones are closed


def connections_that_fit(wanted: int) -> int:
    """Raises the limit of open files as far as this process may, and returns how many of the connections then fit.

    A process at that limit accepts no connection at all, so a server closes old ones before it gets there.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS reports more than it allows
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return wanted
    room = max(soft - RESERVED, soft // 2)  # the latter where the limit is very low
    if room < wanted:
        logger.warning("at most %d connections instead of %d: this process may open %d files", room, wanted, soft)
    return min(wanted, room)
