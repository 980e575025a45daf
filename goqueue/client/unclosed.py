"""Producers and consumers that are not closed when the program ends.

What producers still have is delivered, or its loss is reported. Consumers leave their groups, so that their messages
are redelivered at once and without a failure.

The end of the program is that of its main thread, also after `sys.exit` and an exception. A process that is killed, or
that calls `os._exit`, runs nothing of this.
"""

import atexit
import os
import sys
import time
import warnings
import weakref
from contextlib import suppress
from typing import Any

from goqueue.errors import GoQueueError
from goqueue.quantities import format_count

EXIT_SECONDS = 5.0
"""The time that all producers together have to deliver their messages at the end of the program."""

_LEAVE_SECONDS = 0.5
"""The least time that a consumer has to leave, also when producers have used up theirs."""

_OPEN: "weakref.WeakSet[Any]" = weakref.WeakSet()
_JOINED: "weakref.WeakSet[Any]" = weakref.WeakSet()
_watching: set[int] = set()


def watch(producer: Any) -> None:
    """Deliver the messages of a producer at the end of the program."""
    _OPEN.add(producer)
    _watch_end()


def watch_consumer(consumer: Any) -> None:
    """Let a consumer leave its group at the end of the program."""
    _JOINED.add(consumer)
    _watch_end()


def _watch_end() -> None:
    if os.getpid() in _watching:
        return
    _watching.add(os.getpid())
    atexit.register(_finish_all)
    processes = sys.modules.get("multiprocessing.util")
    if processes is not None:  # its children do not run what `atexit` knows
        processes.Finalize(None, _finish_all, exitpriority=10)


def _finish_all() -> None:
    deadline = time.monotonic() + EXIT_SECONDS
    own = [producer for producer in _OPEN if producer._process == os.getpid()]
    lost = [(producer, _finish(producer, max(deadline - time.monotonic(), 0.0))) for producer in own]
    for producer, sentence in lost:
        if sentence is not None:
            _report(producer, sentence)
    for consumer in list(_JOINED):  # after the producers: acks of a transaction need their member until the commit
        if consumer._process == os.getpid() and not consumer._worker.needs_loop:
            _leave(consumer, max(deadline - time.monotonic(), _LEAVE_SECONDS))


def _leave(consumer: Any, timeout: float) -> None:
    """Close a consumer. An error of its callback is shown as one that ends a program, and stops no other consumer."""
    try:
        consumer.close(timeout)
    except KeyboardInterrupt:  # wait no longer
        return
    except Exception:
        sys.excepthook(*sys.exc_info())


def _finish(producer: Any, timeout: float) -> str | None:
    """Close a producer with a thread of its own. Return what was lost."""
    if producer._worker.needs_loop:
        return lost_messages(producer)
    producer._end_reason = "the program ended"
    try:
        producer.close(timeout)
    except GoQueueError as error:
        return error.sentence
    except KeyboardInterrupt:  # wait no longer
        return lost_messages(producer)
    return None


def lost_messages(producer: Any) -> str | None:
    """Give up on a producer, and return what it loses: what still waits, and failures that were not looked at."""
    if producer._given_up:
        return None
    producer._given_up = True
    error = producer._sender.failures.report()
    lost = [] if error is None else [error.sentence]
    if waiting := sum(batch.count for batch in producer._accumulator.waiting()):
        were = "was" if waiting == 1 else "were"
        worker = "task" if producer._worker.needs_loop else "thread"
        lost.append(f"{format_count(waiting, 'message')} {were} not delivered: its {worker} ended before delivery")
    return "; ".join(lost) or None


def report_collected(producer: Any) -> None:
    """Report what a producer loses that nothing refers to anymore."""
    if getattr(producer, "_worker", None) is None or producer._process != os.getpid():
        return  # it was never complete, or its messages are the parent's
    sentence = lost_messages(producer)
    if sentence is not None:
        _report(producer, sentence)


def _report(producer: Any, sentence: str) -> None:
    text = f"a producer was not closed: {sentence}"
    with suppress(AttributeError, OSError, ValueError):  # without a stderr
        sys.stderr.write(f"goqueue: {text}\n")
    warnings.warn(text, ResourceWarning, stacklevel=2, source=producer)
