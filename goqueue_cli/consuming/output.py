"""Consumed messages on stdout in the chosen format, and the progress of a search on stderr."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from goqueue.console import terminal
from goqueue.console.session import Session
from goqueue_cli.consuming import formats
from goqueue_cli.consuming.formats import Messages, Renderer, by_format

DEFAULT = "%v\\n"

_STATUS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class OutputForm:
    """A renderer, with the bytes before, between and behind messages, and instead of none."""

    render: Renderer
    begin: bytes = b""
    between: bytes = b""
    end: bytes = b""
    empty: bytes = b""


def form_of(text: str | None, session: Session, *, leased: bool) -> OutputForm:
    """Return the format of the flags; without any, values are printed. `leased` messages have an attempt."""
    output = session.output
    if text is not None or (output == "table" and not session.chose_output):
        return OutputForm(by_format(text or DEFAULT, escaped_output=terminal.is_terminal(), leased=leased))
    if output == "json":
        return OutputForm(formats.as_json, b"[\n", b",\n", b"\n]\n", b"[]\n")
    if output == "csv":
        fields = formats.CSV_LEASED if leased else formats.CSV
        title = formats.csv_title(fields) if session.headers else b""
        return OutputForm(formats.csv_of(fields), title, empty=title)
    if session.for_people:
        title = formats.TITLES[output] if session.headers else b""
        return OutputForm(formats.as_table if output == "table" else formats.as_wide, title)
    if output == "yaml":
        return OutputForm(formats.as_yaml, empty=b"[]\n")
    return OutputForm({"jsonl": formats.as_jsonl, "name": formats.as_names}[output])


class MessageOutput:
    """Writes messages to stdout."""

    def __init__(self, form: OutputForm, *, decodes: bool = False) -> None:
        self.count = 0
        self.decodes = decodes
        """Whether values and keys are shown as JSON of their schemas."""
        self.beside: Callable[[], AbstractContextManager[None]] = nullcontext
        """A context to write in, if a status line is on the same terminal."""
        self._form = form

    def put(self, messages: Messages) -> None:
        """Write at once for a program, and one by one on a terminal, where ^C should take effect soon.

        After ^C, every counted message was begun, and `finish` completes the output.
        """
        if not self.decodes:
            self._put(messages)
            return
        from goqueue_cli.consuming.decoding import DecodedMessage  # noqa: PLC0415 - for schemas alone

        decoded: list[Any] = []
        try:
            decoded.extend(map(DecodedMessage, messages))
        finally:
            self._put(decoded)  # those before one that cannot be decoded, too

    def _put(self, messages: Messages) -> None:
        pieces, between = self._form.render(messages), self._form.between
        if terminal.is_terminal():
            for piece in pieces:
                self._write(self._lead + piece, 1)
        elif messages:
            content = between.join(pieces)
            self._write(self._lead + content if self._lead else content, len(messages))

    @property
    def _lead(self) -> bytes:
        return self._form.between if self.count else self._form.begin

    def _write(self, content: bytes, count: int) -> None:
        self.count += count
        with self.beside():
            terminal.write_bytes(content)

    def finish(self) -> None:
        """Complete the output after the last message."""
        terminal.write_bytes(self._form.end if self.count else self._form.empty)

    def give_up(self) -> None:
        """Complete the output after a failure; without any message nothing is written."""
        if self.count:
            terminal.write_bytes(self._form.end)


class SearchStatus:
    """A status line on stderr. Other output to the same terminal is written inside `beside`.

    What must stay true: two threads never write to the terminal at once.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._shown = ""
        self._ended = threading.Event()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Remove the line for the duration of the block; it returns with the next update."""
        with self._lock:
            self._clear()
            yield

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the line during the block, if both streams are a terminal."""
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
        while not self._ended.wait(_STATUS_SECONDS):
            with self._lock:
                text = self._text()
                if text != self._shown:
                    terminal.show_status(text)
                    self._shown = text

    def _clear(self) -> None:
        if self._shown:
            terminal.show_status("")
            self._shown = ""
