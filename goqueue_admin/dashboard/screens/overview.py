"""The first screen: what the broker does, and what is wrong."""

from collections.abc import Iterator, Sequence

from textual.containers import Container
from textual.content import Content
from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import overview
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.plot import Plot
from goqueue_admin.dashboard.widgets.table import Table


class OverviewPage(Page):
    """Enter opens a finding of the doctor."""

    def questions(self) -> Sequence[Question]:
        return (questions.STATS, questions.HISTORY, questions.DOCTOR)

    def body(self) -> Iterator[Widget]:
        yield Figures()
        plots = (Plot(plan.title, plan.show, id=plan.id, base=plan.base) for plan in overview.PLOTS)
        yield Container(*plots, id="plots")
        yield Table(overview.finding_columns(), overview.finding_key, empty="all is well", id="findings")

    def show(self, known: Known) -> None:
        history, doctor = known.facts(questions.HISTORY), known.facts(questions.DOCTOR)
        self.query_one(Figures).show(overview.figures(known.facts(questions.STATS)))
        for plan in overview.PLOTS:
            self.query_one(f"#{plan.id}", Plot).show(plan.series(history))
        table = self.query_one(Table)
        table.empty = overview.verdict(doctor)
        table.fill(overview.findings(doctor))

    def note(self) -> str:
        return overview.checked(self.dashboard.service.known.facts(questions.DOCTOR))

    def command(self) -> str:
        return commands.line("goqueue-admin", "doctor", server=self.dashboard.service.address)

    def open(self, key: str) -> Place | None:
        doctor = self.dashboard.service.known.facts(questions.DOCTOR)
        found = next((one for one in doctor.get("findings", ()) if overview.finding_key(one) == key), None)
        if found is not None:
            self.app.push_screen(Window(str(found.get("subject", "")), _told(found), str(found.get("hint") or "")))
        return None


def _told(finding: overview.Finding) -> Content:
    lines = [Content.styled(str(finding.get("sentence", "")), "bold"), Content("")]
    if finding.get("hint"):
        lines += [Content.assemble(("what to do  ", "$text-muted"), str(finding["hint"])), Content("")]
    lines.append(Content.assemble(("code        ", "$text-muted"), str(finding.get("code", ""))))
    details = finding.get("details") or {}
    for name, value in details.items():
        lines.append(Content.assemble((f"{name:<11} ", "$text-muted"), str(value)))
    return Content("\n").join(lines)
