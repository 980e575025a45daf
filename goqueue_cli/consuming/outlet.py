"""Where consumed messages go: a form, and how much of it is on stdout already."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from goqueue.console import terminal
from goqueue.console.session import Session
from goqueue_cli.consuming import forms
from goqueue_cli.consuming.format import Messages, Renderer, by_format

DEFAULT = "%v\\n"


@dataclass(frozen=True, slots=True)
class Form:
    """What each message becomes, and what stands before, between and behind them, or for none at all."""

    render: Renderer
    begin: bytes = b""
    between: bytes = b""
    end: bytes = b""
    empty: bytes = b""


def form_of(text: str | None, session: Session, *, leased: bool) -> Form:
    """The form that the flags ask for; a table has to be asked for. Messages that are `leased` have an attempt."""
    output = session.output
    if text is not None or (output == "table" and not session.chose_output):
        return Form(by_format(text or DEFAULT, harmless=terminal.is_terminal(), leased=leased))
    if output == "json":
        return Form(forms.as_json, b"[\n", b",\n", b"\n]\n", b"[]\n")
    if output == "csv":
        fields = forms.CSV_LEASED if leased else forms.CSV
        title = forms.csv_title(fields) if session.headers else b""
        return Form(forms.csv_of(fields), title, empty=title)
    if session.for_people:
        title = forms.TITLES[output] if session.headers else b""
        return Form(forms.as_table if output == "table" else forms.as_wide, title)
    if output == "yaml":
        return Form(forms.as_yaml, empty=b"[]\n")
    return Form({"jsonl": forms.as_jsonl, "name": forms.as_names}[output])


class Outlet:
    """Messages on their way to stdout."""

    def __init__(self, form: Form) -> None:
        self.count = 0
        self.beside: Callable[[], AbstractContextManager[None]] = nullcontext
        """What to be in while writing, where somebody else writes to the terminal too."""
        self._form = form

    def put(self, messages: Messages) -> None:
        """At once for a program, one by one for a person, who may want to stop it.

        An interruption may come at any moment: what is counted has been begun, and `finish` ends it.
        """
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
        """When there is no more."""
        terminal.write_bytes(self._form.end if self.count else self._form.empty)

    def give_up(self) -> None:
        """After a failure: what was begun can be read, and what never began is not said to be empty."""
        if self.count:
            terminal.write_bytes(self._form.end)
