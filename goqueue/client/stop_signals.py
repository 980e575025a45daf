"""Signals that stop a worker: the first one gracefully, the second one at once."""

import signal
import threading
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Counts SIGTERM and SIGINT within its block, in the main thread; in others it counts none.

    The handler only counts: it may interrupt code that holds a lock. The counter is polled.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, *_: object) -> None:
        self.count += 1
