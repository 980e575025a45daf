"""The base of all dialogs that change something: fields, a plan from a dry run, a confirmation, progress.

What must stay true: no request that changes anything is sent before its plan was confirmed, and changing a field
discards the plan.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from goqueue.console.failure import command_hint
from goqueue.console.terminal import escape_unprintable
from goqueue.errors import GoQueueError
from goqueue_admin.dashboard.screens.base import MUTED, DashboardApp, DashboardScreen, app_of

R = TypeVar("R")

UNREACHABLE_CODES = {"broker_unreachable", "request_timed_out", "broker_stopping"}
"""Error codes after which the next request would fail as well."""


class DialogField(NamedTuple):
    """An input field; `hint` shows examples."""

    name: str
    label: str
    value: str = ""
    hint: str = ""


class DialogPlan(NamedTuple):
    """The result of planning. Without anything to do, `question` is empty."""

    lines: Sequence[Content]
    question: str = ""
    name: str = ""
    """What a protected context asks for, if only the fields name it."""


DialogState = Literal["open", "planning", "planned", "going", "over"]


class ActionDialog(ModalScreen[None]):
    """Enter plans, y confirms; a protected context asks for `name` instead. Escape closes or stops."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Close"),
        ("up", "app.focus_previous", "Up"),
        ("down", "app.focus_next", "Down"),
        ("ctrl+y", "copy_command", "Copy as command"),
    ]

    def __init__(self, title: str, name: str, fields: Sequence[DialogField] = ()) -> None:
        super().__init__()
        self._title = title
        self._name_of_it = name
        self._fields = fields
        self.state: DialogState = "open"
        self.is_stopped = False

    # --- what an action says of itself ---

    @abstractmethod
    async def plan(self) -> DialogPlan:
        """Plan the change without making it. An invalid field raises ValueError."""

    @abstractmethod
    async def carry_out(self) -> Sequence[Content]:
        """Make the planned change and return lines with its result."""

    @abstractmethod
    def command(self) -> str:
        """Return the equivalent shell command."""

    # --- what all have ---

    @property
    def dashboard(self) -> DashboardApp:
        return app_of(self)

    @property
    def values(self) -> dict[str, str]:
        """The texts of the fields."""
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

    def _enter(self, state: DialogState) -> None:
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
        if lines:  # they are below the fields, of which there may be many
            self.call_after_refresh(self.query_one("#window", VerticalScroll).scroll_end, animate=False)

    def _refuse(self, error: Exception) -> None:
        hint = command_hint(error) if isinstance(error, GoQueueError) else None
        self.tell(Content.styled(str(error), "$error"), *([Content.styled(hint, MUTED)] if hint else []))

    # --- keys ---

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.id != "agreed":
            if event.input.has_focus:
                event.input.scroll_visible(animate=False)
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
            told = f"{self._wanted()} and enter" if self.dashboard.protected else "type y"
            self.tell(Content.styled(f"nothing is changed; to apply the plan, {told}", "$warning"))

    def _wanted(self) -> str:
        return f"type {self._name_of_it}" if self.dashboard.protected else "y"

    async def action_copy_command(self) -> None:
        await self.dashboard.copy(self.command())
        self.tell(Content.styled(f"copied: {self.command()}", "$success"))

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
            plan = await self.plan()
        except (GoQueueError, ValueError) as error:
            self._enter("open")
            self.tell(place="plan")
            self._refuse(error)
            return
        self.tell(*plan.lines, place="plan")
        if not plan.question:
            self._enter("open")
            return
        self._name_of_it = plan.name or self._name_of_it
        self._enter("planned")
        agreed = self.query_one("#agreed", Input)
        with self.prevent(Input.Changed):
            agreed.value = ""
        label = f"{plan.question}? ({self._wanted()})"
        self.query_one("#agreement", Horizontal).query_one(Label).update(label)
        agreed.focus(scroll_visible=False)  # the question may have more lines than the field beside it
        self.call_after_refresh(self.query_one("#window", VerticalScroll).scroll_end, animate=False)

    async def change_each(
        self,
        planned: Sequence[R],
        change: Callable[[R], Awaitable[Any]],
        describe: Callable[[R, GoQueueError], str],
        verb: str,
    ) -> tuple[list[R], list[Content]]:
        """Change one after the other until a stop, and return those that were changed, and lines with the problems.

        Once the broker is unreachable, no further one is tried.
        """
        done: list[R] = []
        problems: list[Content] = []
        for one in planned:
            if self.is_stopped:
                break
            try:
                await change(one)
            except GoQueueError as error:
                problems.append(Content.styled(escape_unprintable(describe(one, error)), "$error"))
                if error.code in UNREACHABLE_CODES:
                    break
            else:
                done.append(one)
                self.tell(f"{len(done):,} of {len(planned):,} {verb}")
        return done, problems

    def _begin(self) -> None:
        if self.state == "planned":
            self.is_stopped = False
            self._enter("going")
            self.run_worker(self._go(), group="action", exclusive=True)

    async def _go(self) -> None:
        try:
            lines = await self.carry_out()
        except (GoQueueError, ValueError, OSError) as error:
            self._refuse(error)
        else:
            self.tell(*lines)
        self._enter("over")
        self.query_one("#news").scroll_visible(animate=False)
        below = self.app.screen_stack[-2]
        if isinstance(below, DashboardScreen):
            below.changed()
        self.dashboard.look(fresh=True)


def first_lines(lines: Sequence[Content], most: int, noun: str) -> Iterator[Content]:
    """Yield the first lines, and the number of others."""
    yield from lines[:most]
    if len(lines) > most:
        yield Content.styled(f"and {len(lines) - most:,} more {noun}", MUTED)
