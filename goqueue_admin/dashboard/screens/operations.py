"""Changes of operators on the broker, and the dialog that undoes one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget

from goqueue.console.terminal import escape_unprintable
from goqueue.console.undo import change_rows, change_value, move_rows, undo_state, user_of
from goqueue.errors import OperationOutdated
from goqueue.quantities import format_count
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import MUTED, DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogPlan, first_lines
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import OperationInfo, UndoResult

_OPERATIONS_MAX = 500
_LINES = 10
_OPERATIONS = broker_call("operations", _OPERATIONS_MAX)


def operation_columns() -> "tuple[TableColumn[OperationInfo], ...]":
    return (
        TableColumn("ID", lambda one: one.id, width=5, right=True),
        TableColumn("TIME", lambda one: one.time, lambda time: time[5:19].replace("T", " "), 14),
        TableColumn("KIND", lambda one: one.kind, lambda kind: kind.replace("_", " "), 14, rank=2, grows=True),
        TableColumn("SUBJECT", lambda one: one.subject, width=12, grows=True, most=30),
        TableColumn("SUMMARY", lambda one: one.summary, width=20, grows=True, most=120),
        TableColumn("BY", lambda one: user_of(one.client), width=16, grows=True, most=30, rank=3, tone="muted"),
        TableColumn("UNDO", _undo_state, width=7, rank=1, tone=lambda one: "good" if one.undoable else "muted"),
    )


def _undo_state(one: "OperationInfo") -> str:
    return undo_state(undone_by=one.undone_by, state=one.state, is_undoable=one.undoable)


class OperationsScreen(DashboardScreen):
    """The changes of all operators, newest first. Enter or `u` shows one, and undoes it."""

    BINDINGS: ClassVar = [Binding("u", "change('undo')", "Undo", id="operations.undo")]
    _node: str | None = None
    """The node of a cluster whose operations these are."""

    def calls(self) -> Sequence[BrokerCall]:
        return (_OPERATIONS,)

    def body(self) -> Iterator[Widget]:
        empty = "no operator has changed anything at this node"
        yield RowTable(operation_columns(), lambda one: str(one.id), SortOrder("ID", falling=True), empty=empty)

    def show(self, known: CallResults) -> None:
        found: Sequence[OperationInfo] = known.get(_OPERATIONS) or ()
        self._node = found[0].node if found else None
        self.query_one(RowTable).fill(known.get(_OPERATIONS))

    def note(self) -> str:
        return super().note() if self._node is None else f"of node {self._node} only · {super().note()}"

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "undo")

    def open(self, key: str) -> None:
        del key
        self.action_change("undo")

    def action_change(self, what: str) -> None:
        """Show what undoing the operation under the cursor would change."""
        del what
        operation = self.query_one(RowTable).current
        if operation is not None and not self.dashboard.read_only:
            self.app.push_screen(UndoDialog(operation.id, operation.subject))


class UndoDialog(ActionDialog):
    """Undoes an operation. If what it changed has changed since, the question says so."""

    def __init__(self, number: int, subject: str) -> None:
        super().__init__(f"Undo operation {number}", subject)
        self._number = number
        self._force = False

    async def plan(self) -> DialogPlan:
        service = self.dashboard.service
        operation: OperationInfo = await service.do(broker_call("operation", self._number))
        head = Content.styled(escape_unprintable(f"{operation.subject}: {operation.summary}"), "bold")
        if not operation.undoable:
            why = Content.styled(f"it cannot be undone: {operation.reason}", "$warning")
            return DialogPlan([head, *_moves(operation), *_changes(operation.changes), why])
        try:
            plan: UndoResult = await service.do(broker_call("undo", self._number, dry_run=True))
        except OperationOutdated as error:
            self._force = True
            plan = await service.do(broker_call("undo", self._number, dry_run=True, force=True))
            notes = [Content.styled(str(error), "$error")]
        else:
            self._force = False
            notes = []
        notes += [Content.styled(escape_unprintable(note), "$warning") for note in plan.notes]
        question = f"undo operation {self._number}{' all the same' if self._force else ''}"
        return DialogPlan([head, *_changes(plan.changes), *notes], question)

    async def carry_out(self) -> Sequence[Content]:
        done: UndoResult = await self.dashboard.service.do(broker_call("undo", self._number, force=self._force))
        again = [] if done.operation is None else [Content.styled(f"operation {done.operation} undoes this", MUTED)]
        return [Content.styled(f"operation {self._number} is undone", "$success"), *map(Content, done.notes), *again]

    def command(self) -> str:
        force = ("--force",) if self._force else ()
        return self.dashboard.shell_command("goqueue-cli", "undo", str(self._number), *force, "--dry-run")


def _changes(changes: Mapping[str, Any]) -> Iterator[Content]:
    lines = [
        Content(escape_unprintable(f"{row['name']:<20} {change_value(row['before'])} → {change_value(row['after'])}"))
        for row in change_rows(changes)
    ]
    yield from first_lines(lines, _LINES, "changes")


def _moves(operation: "OperationInfo") -> Iterator[Content]:
    lines = [
        Content(f"{row['source']} {row['offsets']} → {row['target']}  {format_count(row['messages'], 'message')}")
        for row in move_rows(operation.subject, operation.changes)
    ]
    yield from first_lines(lines, _LINES, "ranges")
