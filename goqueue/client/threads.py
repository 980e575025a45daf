"""Waiting and background work with threads. `tasks` provides the same for an event loop."""

import threading
import time
from collections.abc import Callable
from itertools import chain
from typing import Any, Protocol, TypeVar

Lock = threading.Lock
Condition = threading.Condition
Event = threading.Event
flatten = chain.from_iterable

HANDLES_COROUTINES = False
"""Whether handlers of messages are coroutine functions."""


def sleep(delay: float) -> None:
    threading.Event().wait(delay)


def try_acquire(lock: threading.Lock) -> bool:
    return lock.acquire(blocking=False)


class Worker:
    """A daemon thread that runs in the background; `failed` gets the error that ended it."""

    needs_loop = False

    def __init__(self, run: Callable[[], None], failed: Callable[[BaseException], None], name: str) -> None:
        self._run = run
        self._failed = failed
        self._thread = threading.Thread(target=self._guard, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while the thread runs. It does not in a child that was forked."""
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """True if the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def stop(self, interrupt: Callable[[], None], patience: float = 0.0, limit: float | None = None) -> None:
        """Wait for the end of the thread: first for `patience` seconds, then after `interrupt` for at most `limit`."""
        if patience > 0:
            self._thread.join(patience)
        if self._thread.is_alive():
            interrupt()
            self._thread.join(limit)

    def _guard(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failed(error)
            raise


class Reader(Protocol):
    def open(self) -> Any: ...


R = TypeVar("R", bound=Reader)


def opened(reader: R) -> R:
    """Open a reader, and return it."""
    reader.open()
    return reader


def is_failure(error: BaseException) -> bool:
    """Return whether an exception of a handler is a failure of its message: a handler may call `sys.exit`."""
    return not isinstance(error, KeyboardInterrupt)


def invoke(callback: Callable[..., object], *arguments: object) -> None:
    """Call a callback of the application."""
    callback(*arguments)


class TimeLimit:
    """Calls handlers, and reports calls that take longer than `limit` seconds; None is no limit.

    A thread cannot be cancelled. The call goes on, and its argument is returned once by `overdue`.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._calls: dict[int, tuple[float, Any]] = {}
        """When the call of a thread is overdue, and its argument."""

    def call(self, handler: Callable[[Any], object], argument: object) -> bool:
        """Return False if the call was reported before it ended; then its exception does not count."""
        if self._limit is None:
            handler(argument)
            return True
        thread = threading.get_ident()
        self._calls[thread] = time.monotonic() + self._limit, argument
        try:
            handler(argument)
        except BaseException:
            if self._calls.pop(thread, None) is None:
                return False
            raise
        return self._calls.pop(thread, None) is not None

    def overdue(self) -> list[tuple[Any, TimeoutError]]:
        """Return the arguments of calls that are overdue since the last time, each with its error."""
        now, found = time.monotonic(), []
        for thread, (until, argument) in list(self._calls.items()):
            if until <= now and self._calls.pop(thread, None) is not None:
                found.append((argument, TimeoutError(f"not done after {self._limit:g} s; the call goes on")))
        return found


def report_callback_error(error: Exception) -> None:
    """Show an error of a callback as Python shows one that ends a thread."""
    details = (type(error), error, error.__traceback__, threading.current_thread())
    threading.excepthook(threading.ExceptHookArgs(details))
