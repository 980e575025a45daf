"""How the partitions of all groups were dealt again: how often, how long, and why."""

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from goqueue_admin.dashboard import commands, questions
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.questions import Known, Question, question
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.views import rebalances as views
from goqueue_admin.dashboard.views.table import Sorting
from goqueue_admin.dashboard.widgets.figures import Figures
from goqueue_admin.dashboard.widgets.table import Table


class RebalancesPage(Page):
    """Each group is asked for alone, so only those are that are on the screen. Enter opens a group."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._known_of: set[str] = set()

    def questions(self) -> Sequence[Question]:
        of_seen = [question("rebalance_stats", name) for name in self._seen()]
        return (*questions.all_groups(self.dashboard.service.known), questions.REBALANCES, *of_seen)

    def _seen(self) -> list[str]:
        return [key for table in self.query(Table) for key in table.seen_keys]

    def body(self) -> Iterator[Widget]:
        yield Figures()
        yield Figures()
        yield Table(views.columns(), views.line_key, Sorting("GROUP"), empty="there are no groups")

    def show(self, known: Known) -> None:
        totals = known.facts(questions.REBALANCES)
        first, second = self.query(Figures)
        first.show(views.totals(totals))
        second.show(views.reasons(totals))
        groups = questions.groups_of(known)
        stats = {one.group_id: known.facts(question("rebalance_stats", one.group_id)) for one in groups or ()}
        table = self.query_one(Table)
        table.fill(views.lines(groups, stats, self.dashboard.service.clock.now_ns()), table.records)
        self._ask_for_new(known)

    def _ask_for_new(self, known: Known) -> None:
        """Lines that were not seen before are not left empty until the next round."""
        missing = {name for name in self._seen() if not known.facts(question("rebalance_stats", name))}
        if missing - self._known_of:
            self._known_of |= missing
            self.call_next(self.dashboard.look)

    def command(self) -> str:
        return commands.line("goqueue-admin", "rebalance", "list", server=self.dashboard.service.address)

    def open(self, key: str) -> Place:
        return Place("group", (key,))
