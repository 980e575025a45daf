"""The input line for commands, filters and times."""

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester, SuggestionReady
from textual.widgets import Input, Label


class _Suggest(Suggester):
    def __init__(self, find: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._find = find

    async def get_suggestion(self, value: str) -> str | None:
        return self._find(value)


class PromptMessage(Message):
    """The text of a prompt, and what it is for."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__()
        self.kind, self.text = kind, text


class Prompt(Horizontal):
    """An input line, hidden until `ask`; enter submits, escape cancels."""

    class Edited(PromptMessage):
        """The text changed; filters apply at once."""

    class Submitted(PromptMessage):
        """The text was submitted."""

    class Closed(PromptMessage):
        """The prompt was cancelled; `text` is the initial text."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = ""
        self._before = ""
        self._suggest: Callable[[str], str | None] = lambda _: None

    def compose(self) -> ComposeResult:
        yield Label("", markup=False)
        yield Input(suggester=_Suggest(self._completed), compact=True, select_on_focus=False)

    def ask(
        self,
        kind: str,
        label: str,
        text: str = "",
        hint: str = "",
        suggest: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Open the line; `suggest` completes what is typed."""
        self._kind, self._before, self._suggest = kind, text, suggest
        self.query_one(Label).update(label)
        line = self.query_one(Input)
        with self.prevent(Input.Changed):
            line.value = text
        line.placeholder = hint
        line.cursor_position = len(text)
        self.add_class("-open")
        self.screen.add_class("-asking")
        line.focus()

    def _completed(self, text: str) -> str | None:
        return self._suggest(text)

    def suggest_again(self) -> None:
        """Suggest how to complete what is typed: more may be known than when it was typed."""
        if self.is_open:
            line = self.query_one(Input)
            found = self._suggest(line.value)
            if found is not None:
                line.post_message(SuggestionReady(line.value, found))

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def close(self) -> None:
        self.remove_class("-open")
        self.screen.remove_class("-asking")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Edited(self._kind, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()
        self.post_message(self.Submitted(self._kind, event.value.strip()))

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.is_open:
            event.stop()
            event.prevent_default()
            self.close()
            self.post_message(self.Closed(self._kind, self._before))
        elif event.key == "tab" and self.is_open:
            event.stop()
            event.prevent_default()
            line = self.query_one(Input)
            line.value = self._suggest(line.value) or line.value
            line.cursor_position = len(line.value)
