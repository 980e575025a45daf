"""Waiting for the device, where what was appended is answered before it has been synced."""

from collections.abc import Callable

from goqueue.broker.work import Promise, Work
from goqueue.storage.log import Log

Wait = Callable[[Promise[None]], None]
"""Is called with what is to be kept in a moment: then it is looked again."""


def synced(log: Log, end: int, wait: Wait) -> Work[None]:
    """Go on when everything below this offset is on the device."""
    while log.durable_end < end:
        log.refuse_unless_open()
        log.sync_soon()
        moment: Promise[None] = Promise()
        wait(moment)
        yield moment
