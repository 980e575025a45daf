"""The subjects of the schema registry."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from goqueue_admin.dashboard.broker.service import TOPICS, BrokerCall, CallResults, broker_call, paged_calls
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.schema_actions import DeleteSubjectsDialog, LevelDialog
from goqueue_admin.dashboard.views import schemas as views
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import SchemaSubjectInfo

_REFRESH_SECONDS = 5
_LEVEL, _MODE = broker_call("schema_config"), broker_call("schema_mode")
_EMPTY = "There are no schemas. `goqueue-cli schema register SUBJECT FILE` registers the first."
_PAGED_MAX = 10_000


def known_topics(known: CallResults) -> views.TopicConfigs:
    return {one.name: one.config for one in known.get(TOPICS) or ()}


class SchemasScreen(DashboardScreen):
    """All subjects, or with those that are soft-deleted. Enter opens one."""

    BINDINGS: ClassVar = [
        Binding("e", "change('level')", "Compatibility", id="schemas.level"),
        Binding("E", "change('level_of_all')", "Compatibility of all", show=False, id="schemas.all"),
        Binding("x", "change('delete')", "Delete", id="schemas.delete"),
        Binding("v", "state", "With soft-deleted ones, or not", show=False, id="schemas.state"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._with_deleted = False
        self._topics: views.TopicConfigs = {}

    def _pages(self) -> list[BrokerCall]:
        deleted = self._with_deleted
        return paged_calls(
            self.dashboard.service.known,
            broker_call("schema_subjects", deleted=deleted),
            lambda last: broker_call("schema_subjects", deleted=deleted, after=last.subject),
        )

    def calls(self) -> Sequence[BrokerCall]:
        return self.dashboard.service.due([*self._pages(), _LEVEL, _MODE, TOPICS], _REFRESH_SECONDS)

    def needed(self) -> Sequence[BrokerCall]:
        return self._pages()[:1]

    def changed(self) -> None:
        self.dashboard.service.known.age(*self._pages(), _LEVEL)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        columns = views.subject_columns(lambda: self._topics)
        yield RowTable(columns, lambda one: one.subject, SortOrder("SUBJECT"), empty=_EMPTY)

    def show(self, known: CallResults) -> None:
        found = self._known(known)
        level = known.get(_LEVEL)
        numbers = views.registry_numbers(found, None if level is None else level.compatibility_level, known.get(_MODE))
        self.query_one(NumbersBar).show(numbers)
        table, topics = self.query_one(RowTable), known_topics(known)
        if topics != self._topics:
            self._topics, table.records = topics, ()  # a column shows them, so that the rows are drawn again
        table.fill(found)

    def _known(self, known: CallResults) -> "Sequence[SchemaSubjectInfo] | None":
        pages = [known.get(asked) for asked in self._pages()]
        return [] if pages == [[]] else known.joined("subjects", pages)

    def note(self) -> str:
        is_cut = len(self.query_one(RowTable).records) >= _PAGED_MAX
        parts = ["with deleted ones" if self._with_deleted else "", super().note()]
        parts.append("the first ones; :schema SUBJECT opens any" if is_cut else "")
        return " · ".join(part for part in parts if part)

    def command(self) -> str:
        words = ("--deleted",) if self._with_deleted else ()
        return self.dashboard.shell_command("goqueue-cli", "schema", "list", *words)

    def open(self, key: str) -> Location:
        return Location("schema", (key,))

    def action_state(self) -> None:
        """Show soft-deleted subjects as well, or not."""
        self._with_deleted = not self._with_deleted
        self.query_one(RowTable).refuse("asking …")
        self.draw()
        self.dashboard.look(fresh=True)

    def action_change(self, what: str) -> None:
        """Change the level of the marked subjects or of all, or delete the marked subjects."""
        picked = self.query_one(RowTable).picked
        if what == "level_of_all":
            self.app.push_screen(LevelDialog([]))
        elif picked:
            self.app.push_screen(LevelDialog(picked) if what == "level" else DeleteSubjectsDialog(picked))
