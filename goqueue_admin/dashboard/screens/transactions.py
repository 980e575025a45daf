"""The transactions, one transaction with its partitions and groups, and aborting."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.terminal import escape_unprintable
from goqueue.console.transactions import (
    DEFAULT_ABORT_REASON,
    abort_consequences,
    describe_next_step,
    ended_verb,
    is_open,
)
from goqueue.errors import GoQueueError, ProducerNotFound
from goqueue.limits import REASON_CHARACTERS_MAX
from goqueue.quantities import format_count
from goqueue_admin.dashboard.broker.service import TRANSACTIONS, BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.base import MUTED, DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogField, DialogPlan, first_lines
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import transactions as views
from goqueue_admin.dashboard.views.transactions import AT_ONCE
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

_LINES = 12
_ENDING_CODES = {"transaction_pending", "request_timed_out"}

TransactionJson = Mapping[str, Any]


class AbortDialog(ActionDialog):
    """Aborts exactly the shown transactions, identified by producer id and epoch."""

    def __init__(self, shown: Sequence[TransactionJson]) -> None:
        names = [str(one["transactional_id"]) for one in shown]
        what = f"{shown[0]['transaction_id']} of {names[0]}" if len(shown) == 1 else _count_transactions(len(shown))
        reason = DialogField("reason", "reason", "", f"{DEFAULT_ABORT_REASON}; its producer is told")
        super().__init__(f"Abort {what}", " ".join(names), [reason])
        self._shown = shown
        self._planned: list[TransactionJson] = []

    async def plan(self) -> DialogPlan:
        reason = self.values["reason"]
        if len(reason) > REASON_CHARACTERS_MAX:
            raise ValueError(f"the reason has {len(reason):,} characters: {REASON_CHARACTERS_MAX} are the most")
        self._planned, blocks, problems = [], [], []
        for number, one in enumerate(self._shown, 1):
            told, problem = await self._look(one)
            if problem:
                problems.append(Content.styled(escape_unprintable(problem), "$warning"))
            else:
                self._planned.append(told)
                blocks += [Content(escape_unprintable(line)) for line in abort_consequences(told)]
            if number % 50 == 0:
                self.tell(f"looked at {number:,} …", place="plan")
        lines = [*first_lines(blocks, _LINES, "lines"), *first_lines(problems, 3, "that are not open any more")]
        if not self._planned:
            return DialogPlan([*lines, Content.styled("there is nothing to abort", "$warning")])
        return DialogPlan([*lines, Content.styled("Nothing undoes it.", MUTED)], f"abort {self._what()} for good")

    async def _look(self, shown: TransactionJson) -> tuple[TransactionJson, str]:
        """Return the current transaction, or why it cannot be aborted."""
        try:
            told = await self.dashboard.service.do(broker_call("transaction", shown["transactional_id"]))
        except ProducerNotFound as error:
            return shown, error.sentence
        return told, _why_not_open(shown, told)

    def _what(self) -> str:
        if len(self._planned) > 1:
            return _count_transactions(len(self._planned))
        return f"{self._planned[0]['transaction_id']} of {self._planned[0]['transactional_id']}"

    async def carry_out(self) -> Sequence[Content]:
        reason = self.values["reason"] or DEFAULT_ABORT_REASON
        done, problems = await self.change_each(
            self._planned, lambda told: self._abort(told, reason), _error_sentence, "aborted"
        )
        return [*self._outcome(done, reason), *first_lines(problems, 3, "problems")]

    async def _abort(self, told: TransactionJson, reason: str) -> None:
        names = ("transactional_id", "producer_id", "epoch")
        await self.dashboard.service.do(broker_call("abort_transaction", *(told[name] for name in names), reason))

    def _outcome(self, done: Sequence[TransactionJson], reason: str) -> list[Content]:
        lines = []
        if done:
            one = f"{done[0]['transaction_id']} of {done[0]['transactional_id']} is aborted, and its producer is told"
            what = one if len(done) == 1 else f"{_count_transactions(len(done))} aborted"
            lines.append(Content.styled(f"{what}: {escape_unprintable(reason)}", "$success"))
        if self.is_stopped and len(done) < len(self._planned):
            left = _count_transactions(len(self._planned) - len(done))
            lines.append(Content.styled(f"{left} left as they were", "$warning"))
        return lines

    def command(self) -> str:
        reason = self.values["reason"]
        names = [str(one["transactional_id"]) for one in self._shown]
        which = ("--transaction", str(self._shown[0]["transaction_id"])) if len(names) == 1 else ()
        why = ("--reason", reason) if reason else ()
        return self.dashboard.shell_command("goqueue-cli", "transaction", "abort", *names, *which, *why, "--dry-run")


def _why_not_open(shown: TransactionJson, told: TransactionJson) -> str:
    name, wanted, state = shown["transactional_id"], shown["transaction_id"], told["state"]
    last = told["last"]
    if told["transaction_id"] != wanted:
        ended = ended_verb(last) if last and last["transaction_id"] == wanted else "over"
        return f"{wanted} of {name} is {ended} already"
    if state == "ongoing":
        return ""
    if state == "prepare_commit":
        return f"{wanted} of {name} is being committed: what is decided stays so"
    return (
        f"{wanted} of {name} is being aborted already" if state == "prepare_abort" else f"nothing is open under {name}"
    )


def _error_sentence(told: TransactionJson, error: GoQueueError) -> str:
    sentence = f"{told['transaction_id']} of {told['transactional_id']}: {error.sentence}"
    return f"{sentence}; its screen says what that waits for" if error.code in _ENDING_CODES else sentence


def _count_transactions(count: int) -> str:
    return format_count(count, "transaction")


_STATES = ("open", "all")
_EMPTY = {"open": "No transaction is open.", "all": "No producer has a transactional id."}


class TransactionsScreen(DashboardScreen):
    """The open transactions, the oldest first, up to a limit."""

    BINDINGS: ClassVar = [
        Binding("x", "change('abort')", "Abort", id="transactions.abort"),
        Binding("v", "state", "Open, all ids", show=False, id="transactions.state"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._state = _STATES[0]
        self._drawn: Any = None

    @property
    def _asked(self) -> BrokerCall:
        return broker_call("transactions", self._state, None, AT_ONCE)

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked, TRANSACTIONS)

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar(id="ended")
        yield RowTable(views.transaction_columns(), lambda line: line.name, empty=_EMPTY[self._state])

    def show(self, known: CallResults) -> None:
        found, stats = known.get(self._asked), known.facts(TRANSACTIONS)
        now, ended = self.query(NumbersBar)
        now.show(views.open_numbers(stats, any(views.attention_tone(one) == "bad" for one in found or ())))
        ended.show(views.ended_numbers(stats))
        if found is not self._drawn:  # a round brings many answers, and this one has many lines
            self._drawn = found
            self.query_one(RowTable).fill(views.transaction_rows(found))

    def note(self) -> str:
        summary, table = super().note(), self.query_one(RowTable)
        stats = self.dashboard.service.known.facts(TRANSACTIONS)
        total = stats.get("active_transactions" if self._state == "open" else "transactional_ids", 0)
        is_cut = len(table.records) == AT_ONCE and total > AT_ONCE
        cut = f"first of {total:,}; :transaction ID opens any" if is_cut else ""
        return " · ".join(part for part in ("" if self._state == "open" else "all ids", summary, cut) if part)

    def command(self) -> str:
        names = self.query_one(RowTable).marked
        if names:
            return self.dashboard.shell_command("goqueue-cli", "transaction", "describe", *sorted(names))
        words = ("--all",) if self._state == "all" else ()
        return self.dashboard.shell_command("goqueue-cli", "transaction", "list", *words)

    def open(self, key: str) -> Location:
        return Location("transaction", (key,))

    def action_state(self) -> None:
        """Switch between open transactions and all ids."""
        self._state = _STATES[1 - _STATES.index(self._state)]
        table = self.query_one(RowTable)
        table.empty = _EMPTY[self._state]
        table.refuse("asking …")
        self._drawn = None
        self.draw()
        self.dashboard.look(fresh=True)

    def action_change(self, what: str) -> None:
        """Abort the marked transactions or the one under the cursor."""
        del what
        table = self.query_one(RowTable)
        picked = set(table.picked)
        if picked:
            self.app.push_screen(AbortDialog([line.told for line in table.records if line.name in picked]))


_PAGES = {"partition": "messages", "delayed": "schedule", "group": "group"}


class TransactionScreen(DashboardScreen):
    """One transaction. Enter opens a partition, a topic's delayed messages, or a group."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [Binding("x", "change('abort')", "Abort", id="transaction.abort")]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._about = place.about[0]
        self._asked = broker_call("transaction", self._about)
        self._drawn: Any = None

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar(id="weight")
        yield Static(id="facts")
        yield RowTable(views.target_columns(), views.target_key, empty="It has touched nothing yet.")

    def show(self, known: CallResults) -> None:
        told = known.facts(self._asked)
        now, weight = self.query(NumbersBar)
        now.show(views.transaction_numbers(told))
        weight.show(views.held_back_numbers(told))
        weight.display = bool(told) and is_open(told)
        self._show_facts(told)
        if told is not self._drawn:
            self._drawn = told
            table = self.query_one(RowTable)
            table.empty = "It has touched nothing yet." if told and is_open(told) else "Nothing is open."
            table.fill(views.target_rows(told))

    def _show_facts(self, told: views.TransactionJson) -> None:
        shown = self.query_one("#facts", Static)
        shown.display = bool(told)
        if told:
            lines = list(views.transaction_facts(told, describe_next_step(told), self.dashboard.service.clock.now_ns()))
            shown.update(Content("\n").join(windows.fact_lines(lines)))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "transaction", "describe", self._about)

    def open(self, key: str) -> Location | None:
        line = next((one for one in self.query_one(RowTable).records if views.target_key(one) == key), None)
        return None if line is None else Location(_PAGES[line.kind], line.target)

    def action_change(self, what: str) -> None:
        del what
        told = self.dashboard.service.known.facts(self._asked)
        if told and is_open(told):
            self.app.push_screen(AbortDialog([told]))
        elif told:
            self.say(f"nothing is open under {self._about}: there is nothing to abort", "warn")
