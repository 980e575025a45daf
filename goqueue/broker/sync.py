"""Waiting for the device, where what was appended is answered before it has been synced."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from goqueue.broker.work import Promise, Work
from goqueue.errors import LogClosed
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


def all_synced(logs: Iterable[Log], wait: Wait) -> Work[None]:
    """The same for everything that can be read of some logs; those that have been deleted are passed over."""
    ends = [(log, log.readable_end) for log in logs if not log.is_closed]
    for log, end in ends:
        if log.durable_end < end:
            log.sync_soon()
    for log, end in ends:
        with suppress(LogClosed):
            yield from synced(log, end, wait)
