"""A window in which something is changed: its fields, the plan of a dry run, an agreement, and how far it is.

What must stay true: nothing is asked of the broker that changes anything before its plan was seen and agreed to, and
a plan whose fields were changed is none any more.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from goqueue.errors import GoQueueError
from goqueue_admin.dashboard.host import Host, host_of
from goqueue_admin.dashboard.screens.page import Page


class Field(NamedTuple):
    """One line to fill in; `hint` is what may stand there."""

    name: str
    label: str
    value: str = ""
    hint: str = ""


class Plan(NamedTuple):
    """What would be done. Where there is nothing to do, there is no question."""

    lines: Sequence[Content]
    question: str = ""


State = Literal["open", "planning", "planned", "going", "over"]


class ActionScreen(ModalScreen[None]):
    """Enter plans, y agrees; in a protected context `name` has to be typed for that. Escape closes, or stops."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Close"),
        ("up", "app.focus_previous", "Up"),
        ("down", "app.focus_next", "Down"),
        ("ctrl+y", "copy_command", "Copy as command"),
    ]

    def __init__(self, title: str, name: str, fields: Sequence[Field] = ()) -> None:
        super().__init__()
        self._title = title
        self._name_of_it = name
        self._fields = fields
        self.state: State = "open"
        self.is_stopped = False

    # --- what an action says of itself ---

    @abstractmethod
    async def plan(self, values: Mapping[str, str]) -> Plan:
        """Find out what would be done. What is wrong with a field is a ValueError."""

    @abstractmethod
    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        """Do what was planned, and say what has become of it."""

    @abstractmethod
    def command(self, values: Mapping[str, str]) -> str:
        """The same in a shell."""

    # --- what all have ---

    @property
    def dashboard(self) -> Host:
        return host_of(self)

    @property
    def values(self) -> dict[str, str]:
        return {field.name: self.query_one(f"#field-{field.name}", Input).value.strip() for field in self._fields}

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="window", can_focus=False) as window:
            window.border_title = Content(self._title)
            for field in self._fields:
                with Horizontal(classes="field"):
                    yield Label(field.label, markup=False)
                    yield Input(
                        field.value,
                        placeholder=field.hint,
                        id=f"field-{field.name}",
                        compact=True,
                        select_on_focus=False,
                    )
            yield Static("", id="plan")
            with Horizontal(id="agreement", classes="field"):
                yield Label("", markup=False)
                yield Input(id="agreed", compact=True)
            yield Static("", id="news")

    def on_mount(self) -> None:
        self._enter("open")
        if self._fields:
            self.query(Input).first().focus()
        else:
            self._begin_plan()

    def _enter(self, state: State) -> None:
        self.state = state
        self.query_one("#agreement").display = state == "planned"
        self.query_one("#window", VerticalScroll).border_subtitle = self._keys()

    def _keys(self) -> str:
        if self.state == "going":
            return "esc stops after this request"
        if self.state == "planning":
            return "esc closes"
        plans = "⏎ plans · " if self._fields and self.state == "open" else ""
        return f"{plans}ctrl+y copies the command · esc closes"

    def tell(self, *lines: Content | str, place: str = "news") -> None:
        self.query_one(f"#{place}", Static).update(
            Content("\n").join(Content(line) if isinstance(line, str) else line for line in lines)
        )

    def _refuse(self, error: Exception) -> None:
        sentence, hint = (error.sentence, error.hint) if isinstance(error, GoQueueError) else (str(error), None)
        self.tell(Content.styled(sentence, "$error"), *([Content.styled(hint, "$foreground 62%")] if hint else []))

    # --- keys ---

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.id != "agreed":
            if self.state in {"planned", "over"}:
                self._enter("open")
                self.tell(place="plan")
                self.tell()
        elif not self.dashboard.protected and event.value.strip().lower() == "y":
            self._begin()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id != "agreed":
            self._begin_plan()
        elif self.dashboard.protected and event.value.strip() == self._name_of_it:
            self._begin()
        else:
            self.tell(Content.styled("nothing is changed: it takes what stands in brackets", "$warning"))

    def _wanted(self) -> str:
        return f"type {self._name_of_it}" if self.dashboard.protected else "y"

    async def action_copy_command(self) -> None:
        await self.dashboard.copy(self.command(self.values))
        self.tell(Content.styled(f"copied: {self.command(self.values)}", "$success"))

    def action_leave(self) -> None:
        if self.state == "going":
            self.is_stopped = True
            self.tell("stopping after this request …")
        else:
            self.dismiss()

    # --- planning and doing ---

    def _begin_plan(self) -> None:
        if self.state not in {"planning", "going"}:
            self._enter("planning")
            self.tell("looking …", place="plan")
            self.tell()
            self.run_worker(self._plan(), group="action", exclusive=True)

    async def _plan(self) -> None:
        try:
            plan = await self.plan(self.values)
        except (GoQueueError, ValueError) as error:
            self._enter("open")
            self.tell(place="plan")
            self._refuse(error)
            return
        self.tell(*plan.lines, place="plan")
        if not plan.question:
            self._enter("open")
            return
        self._enter("planned")
        agreed = self.query_one("#agreed", Input)
        with self.prevent(Input.Changed):
            agreed.value = ""
        label = f"{plan.question}? ({self._wanted()})"
        self.query_one("#agreement", Horizontal).query_one(Label).update(label)
        agreed.focus()
        agreed.scroll_visible(animate=False)

    def _begin(self) -> None:
        if self.state == "planned":
            self.is_stopped = False
            self._enter("going")
            self.run_worker(self._go(), group="action", exclusive=True)

    async def _go(self) -> None:
        try:
            lines = await self.carry_out(self.values)
        except (GoQueueError, ValueError, OSError) as error:
            self._refuse(error)
        else:
            self.tell(*lines)
        self._enter("over")
        self.query_one("#news").scroll_visible(animate=False)
        below = self.app.screen_stack[-2]
        if isinstance(below, Page):
            below.changed()
        self.dashboard.look(fresh=True)


def more(lines: Sequence[Content], most: int, noun: str) -> Iterator[Content]:
    """The first of them, and how many others there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield Content.styled(f"and {len(lines) - most:,} more {noun}", "$foreground 62%")
