"""The first screen: is something wrong, what, and what is to be done; below, what the broker does."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.terminal import visible
from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import overview
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.plot import Plot
from goqueue_admin.dashboard.widgets.table import Table

_FINDINGS, _GROUPS = "#findings", "#late"


class OverviewPage(Page):
    """Enter opens a finding of the doctor, or a group that is behind."""

    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar = [Binding("tab", "app.focus_next", "Other table", show=False, id="overview.other")]

    def questions(self) -> Sequence[Question]:
        groups = questions.all_groups(self.dashboard.service.known)
        return (questions.STATS, questions.DOCTOR, *groups, questions.HISTORY)

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures(id="verdict")
        yield Table(overview.finding_columns(), overview.finding_key, id="findings")
        yield Static(id="advice", markup=False)
        yield Table(overview.late_columns(), lambda one: one.group_id, id="late")
        plots = (Plot(plan.title, plan.show, id=plan.id, base=plan.base) for plan in overview.PLOTS)
        yield Container(*plots, id="plots")

    def show(self, known: Known) -> None:
        history, doctor = known.facts(questions.HISTORY), known.facts(questions.DOCTOR)
        groups = questions.groups_of(known)
        self.query_one(Figures).show(overview.figures(known.facts(questions.STATS)))
        verdict = overview.verdict(doctor, groups)
        self.query_one("#verdict", Figures).show(verdict)
        self.query_one("#verdict").display = bool(verdict)
        is_wrong = self._fill(_FINDINGS, overview.findings(doctor))
        is_late = self._fill(_GROUPS, None if groups is None else overview.late(groups))
        self.query_one("#advice").display = is_wrong
        self.set_class(is_wrong or is_late, "-troubled")
        for plan in overview.PLOTS:
            self.query_one(f"#{plan.id}", Plot).show(plan.series(history))
        if self.focused is None and (is_wrong or is_late) and not self.has_class("-asking"):
            self.refocus()

    def _fill(self, name: str, records: Sequence[Any] | None) -> bool:
        """A table is as high as it must be, and not there where it is empty."""
        table = self.query_one(name, Table)
        table.fill(records)
        lines = len(table.records)
        table.display = bool(lines)
        height = self.app.size.height
        table.styles.height = 1 + min(lines, 2 if height < 20 else 3 if height < 32 else 6)
        return bool(lines)

    def on_table_pointed(self) -> None:
        """What is to be done about the finding under the cursor."""
        finding = self.query_one(_FINDINGS, Table).current or {}
        hint = Content.assemble(("what to do  ", document.STYLES["muted"]), visible(str(finding.get("hint") or "-")))
        self.query_one("#advice", Static).update(hint)

    def note(self) -> str:
        return overview.checked(self.dashboard.service.known.facts(questions.DOCTOR))

    def command(self) -> str:
        return commands.line("goqueue-admin", "doctor", server=self.dashboard.service.address)

    def open(self, key: str) -> Place | None:
        if self.table is self.query_one(_GROUPS):
            return Place("group", (key,))
        found = self.query_one(_FINDINGS, Table).current
        if found is not None:
            title = visible(str(found.get("subject", "")))
            self.app.push_screen(Window(title, _told(found), str(found.get("hint") or "")))
        return None


def _told(finding: overview.Finding) -> Content:
    """All that the doctor says of it."""
    details = finding.get("details") or {}
    facts = {"what to do": finding.get("hint"), "code": finding.get("code"), **details}
    lines = [Content.styled(visible(str(finding.get("sentence", ""))), "bold"), Content("")]
    return Content("\n").join(
        [*lines, *document.facts([(name, str(text), "") for name, text in facts.items() if text])]
    )
