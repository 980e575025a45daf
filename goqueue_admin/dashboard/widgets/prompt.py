"""The line for what is typed: a place behind `:`, a filter behind `/`, a time."""

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Label


class _Suggest(Suggester):
    def __init__(self, find: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._find = find

    async def get_suggestion(self, value: str) -> str | None:
        return self._find(value)


class Prompt(Horizontal):
    """Hidden until something is asked; enter gives the text, escape leaves everything as it was."""

    class Typed(Message):
        """Whenever the text changes, for a filter that is seen at work."""

        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class Given(Message):
        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    class Left(Message):
        """Nothing was given; `text` is what stood there at the beginning."""

        def __init__(self, kind: str, text: str) -> None:
            super().__init__()
            self.kind, self.text = kind, text

    def __init__(self) -> None:
        super().__init__()
        self._kind = ""
        self._before = ""
        self._texts: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        yield Label("", markup=False)
        yield Input(suggester=_Suggest(self._suggestion), compact=True, select_on_focus=False)

    def ask(self, kind: str, label: str, text: str = "", hint: str = "", texts: Sequence[str] = ()) -> None:
        self._kind, self._before, self._texts = kind, text, texts
        self.query_one(Label).update(label)
        line = self.query_one(Input)
        with self.prevent(Input.Changed):
            line.value = text
        line.placeholder = hint
        line.cursor_position = len(text)
        self.add_class("-open")
        self.screen.add_class("-asking")
        line.focus()

    def _suggestion(self, text: str) -> str | None:
        """The first that begins with what stands there."""
        return next((one for one in self._texts if text and one.startswith(text)), None)

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def close(self) -> None:
        self.remove_class("-open")
        self.screen.remove_class("-asking")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(self._kind, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()
        self.post_message(self.Given(self._kind, event.value.strip()))

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.is_open:
            event.stop()
            event.prevent_default()
            self.close()
            self.post_message(self.Left(self._kind, self._before))
        elif event.key == "tab" and self.is_open:
            event.stop()
            event.prevent_default()
            line = self.query_one(Input)
            line.value = self._suggestion(line.value) or line.value
            line.cursor_position = len(line.value)
