"""The backups of the broker with what runs, and one backup with its logs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.backups import NO_TARGET
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.backup_actions import (
    BACKUPS,
    CreateBackupDialog,
    DeleteBackupsDialog,
    PruneBackupsDialog,
    RestoreTopicDialog,
    VerifyBackupDialog,
)
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow
from goqueue_admin.dashboard.views import backups as views
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import BackupInfo, BackupLog, BackupLogs, BackupOverview

_REFRESH_SECONDS = 10
"""While nothing runs: each list is read from the target."""

_VERIFY = Binding("v", "change('verify')", "Verify", id="backups.verify")
_RESTORE = Binding("R", "change('restore')", "Restore a topic", id="backups.restore")
_DELETE = Binding("x", "change('delete')", "Delete, cancel", id="backups.delete")


class BackupsScreen(DashboardScreen):
    """The backups, the newest first, their schedule, and what runs. Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "change('create')", "Back up", id="backups.create"),
        _VERIFY,
        _RESTORE,
        _DELETE,
        Binding("X", "change('prune')", "Prune", id="backups.prune"),
    ]

    def calls(self) -> Sequence[BrokerCall]:
        is_busy = views.running_backup(self.dashboard.service.known.get(BACKUPS)) is not None
        return [BACKUPS] if is_busy else self.dashboard.service.due([BACKUPS], _REFRESH_SECONDS)

    def needed(self) -> Sequence[BrokerCall]:
        return (BACKUPS,)

    def changed(self) -> None:
        self.dashboard.service.known.age(BACKUPS)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield Static(id="facts")
        yield RowTable(
            views.backup_columns(), lambda line: line.told.id, empty="There are no backups yet: n makes one."
        )

    def show(self, known: CallResults) -> None:
        found: BackupOverview | None = known.get(BACKUPS)
        now_ns = self.dashboard.service.clock.now_ns()
        table, facts = self.query_one(RowTable), self.query_one("#facts", Static)
        told = [] if found is None else views.overview_facts(found, now_ns)
        lines = windows.fact_lines([*told, *views.progress_facts(views.running_backup(found))])
        facts.display = bool(lines)
        facts.update(Content("\n").join(lines))
        self.query_one(NumbersBar).show([] if found is None else views.overview_numbers(found, now_ns))
        if found is not None and found.target is None:
            table.empty = NO_TARGET
        elif self.dashboard.read_only:
            table.empty = "There are no backups yet."
        table.fill(views.backup_rows(found, now_ns))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "list")

    def open(self, key: str) -> Location:
        return Location("backup", (key,))

    def action_change(self, what: str) -> None:
        """Open the dialog of an action: create, verify, restore, delete or prune."""
        if what == "create":
            self.app.push_screen(CreateBackupDialog())
            return
        if what == "prune":
            self.app.push_screen(PruneBackupsDialog())
            return
        table = self.query_one(RowTable)
        if table.current is None:
            self.say("there is no backup", "warn")
        elif what == "delete":
            picked = set(table.picked)
            self.app.push_screen(DeleteBackupsDialog([one.told for one in table.records if one.told.id in picked]))
        elif what == "verify":
            self.app.push_screen(VerifyBackupDialog(table.current_key))
        else:
            self.app.push_screen(RestoreTopicDialog(table.current_key))


class BackupScreen(DashboardScreen):
    """One backup: what its verification found, and its logs. Enter shows a log in full."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "in_full", "In full", id="backup.in_full"),
        _VERIFY,
        _RESTORE,
        _DELETE,
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._backup = place.about[0]
        self._asked = broker_call("backup", self._backup)
        self._logs = broker_call("backup_logs", self._backup)

    @property
    def _told(self) -> "BackupInfo | None":
        found: BackupInfo | None = self.dashboard.service.known.get(self._asked)
        return found

    def calls(self) -> Sequence[BrokerCall]:
        service, told = self.dashboard.service, self._told
        is_busy = told is not None and told.progress is not None
        asked = [self._asked] if is_busy else service.due([self._asked], _REFRESH_SECONDS)
        has_logs = told is not None and told.state in views.STORED_STATES
        missing = has_logs and service.known.get(self._logs) is None  # they never change
        return [*asked, *(service.due([self._logs], _REFRESH_SECONDS) if missing else ())]

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def changed(self) -> None:
        self.dashboard.service.known.age(self._asked, BACKUPS)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield Static(id="facts")
        yield RowTable(views.log_columns(), lambda one: one.name, empty="It has no logs.")

    def show(self, known: CallResults) -> None:
        told, logs = self._told, known.get(self._logs)
        table, facts = self.query_one(RowTable), self.query_one("#facts", Static)
        facts.display = told is not None
        if told is None:
            self.query_one(NumbersBar).show([])
            return
        self.query_one(NumbersBar).show(views.backup_numbers(told))
        now_ns = self.dashboard.service.clock.now_ns()
        lines = windows.fact_lines([*views.backup_facts(told, now_ns), *views.progress_facts(told)])
        facts.update(Content("\n").join(lines))
        if told.state in views.STORED_STATES and logs is None and known.at_ns(self._logs) == 0:
            self.dashboard.call_next(self.dashboard.look)
        self._show_logs(table, told, logs)

    def _show_logs(self, table: "RowTable[BackupLog]", told: "BackupInfo", logs: "BackupLogs | None") -> None:
        error = self.dashboard.service.known.error(self._logs)
        if told.state == "running":
            table.excuse("Its logs are listed when it is complete.")
        elif told.state == "locked":
            table.excuse("Its logs are listed when the broker has its key.")
        elif told.state in {"failed", "cancelled"}:
            table.excuse(f"It {'has' if told.state == 'failed' else 'was'} {told.state}: nothing is in it.")
        elif error is not None:
            table.refuse(error.sentence)
        table.fill(None if logs is None else logs.logs)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "backup", "describe", self._backup)

    def open(self, key: str) -> None:
        log = next((one for one in self.query_one(RowTable).records if one.name == key), None)
        if log is not None:
            content = Content("\n").join(windows.fact_lines(views.log_facts(log)))
            self.app.push_screen(DetailWindow(f"{key} in {self._backup}", content, key))

    def action_in_full(self) -> None:
        told = self._told
        if told is not None:
            now_ns = self.dashboard.service.clock.now_ns()
            problems = 0 if told.verification is None else len(told.verification.sentences)
            version = [] if told.version is None else [("version", told.version, "")]
            lines = windows.fact_lines([*views.backup_facts(told, now_ns, problems), *version])
            self.app.push_screen(DetailWindow(self._backup, Content("\n").join(lines), self._backup))

    def action_change(self, what: str) -> None:
        """Open the dialog of an action: verify, restore or delete."""
        if what == "verify":
            self.app.push_screen(VerifyBackupDialog(self._backup))
        elif what == "restore":
            table = self.query_one(RowTable)
            topic = views.restorable_topic(table.records, table.current_key)
            self.app.push_screen(RestoreTopicDialog(self._backup, topic))
        elif self._told is not None:
            self.app.push_screen(DeleteBackupsDialog([self._told]))
