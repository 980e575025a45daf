"""How far a search has come, shown on stderr while a person waits for what it finds."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from goqueue.console import terminal

_EVERY_SECONDS = 0.5


class Status:
    """A line below what is shown. Whoever writes to the same terminal does so `beside` it.

    What must stay true: nothing is written to the terminal by two threads at once.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._shown = ""
        self._ended = threading.Event()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """The line is gone while this lasts, and comes back with the next look."""
        with self._lock:
            self._clear()
            yield

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Only to a person: where stdout is a pipe, the line would stand in the way of what reads it."""
        if not terminal.is_terminal() or sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        thread = threading.Thread(target=self._run, name="goqueue-status", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._clear()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            with self._lock:
                text = self._text()
                if text != self._shown:
                    terminal.show_status(text)
                    self._shown = text

    def _clear(self) -> None:
        if self._shown:
            terminal.show_status("")
            self._shown = ""
