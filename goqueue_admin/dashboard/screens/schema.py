"""One subject of the schema registry: its versions, their texts, and how two of them differ."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.containers import Container
from textual.widget import Widget

from goqueue.quantities import format_size
from goqueue_admin.dashboard.broker.service import TOPICS, BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.schema_actions import DeleteVersionsDialog, LevelDialog, RegisterAgainDialog
from goqueue_admin.dashboard.screens.schemas import known_topics
from goqueue_admin.dashboard.views import schemas as views
from goqueue_admin.dashboard.views.message import TonedSpan
from goqueue_admin.dashboard.views.schemas import VersionPair
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable
from goqueue_admin.dashboard.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from goqueue.client import SchemaSubjectDetails
    from goqueue.client.schema_requests import SchemaVersionInfo

_REFRESH_SECONDS = 10
_PAIR = 2


class SchemaScreen(DashboardScreen):
    """The versions of a subject, newest first, beside the text of one, or the differences of two."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [
        Binding("d", "differences", "Differences", id="schema.differences"),
        Binding("e", "change('level')", "Compatibility", id="schema.level"),
        Binding("x", "change('delete')", "Delete", id="schema.delete"),
        Binding("a", "change('again')", "Register a deleted version again", show=False, id="schema.again"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._subject = place.about[0]
        self._asked = broker_call("schema_subject", self._subject)
        self._is_comparing = False
        self._wanted: Sequence[BrokerCall] = ()
        self._drawn: tuple[Any, ...] = ()

    # --- what it asks ---

    def calls(self) -> Sequence[BrokerCall]:
        return [self._asked, *self.dashboard.service.due([*self._texts(), TOPICS], _REFRESH_SECONDS)]

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked,)

    def _text(self, version: int) -> BrokerCall:
        return broker_call("schema", self._subject, version, deleted=True)

    def _texts(self) -> list[BrokerCall]:
        """Return the calls for what the pane shows, in the order in which they can be made."""
        current = self._table.current
        if current is None:
            return []
        pair = self._pair()
        if pair is None:
            return [self._text(current.version)]
        verdict = self._verdict_call(pair)
        return [self._text(pair.before), self._text(pair.after), *([verdict] if verdict is not None else [])]

    def _verdict_call(self, pair: VersionPair) -> BrokerCall | None:
        """Return the call that compares two versions, once their texts are known."""
        known = self.dashboard.service.known
        told, newer = known.get(self._asked), known.get(self._text(pair.after))
        if newer is None or told is None or told.compatibility == "NONE" or self._deleted(pair.before):
            return None
        references = tuple(newer.references)
        return broker_call(
            "test_schema", self._subject, newer.schema, newer.schema_type, version=pair.before, references=references
        )

    def _deleted(self, version: int) -> bool:
        return any(one.deleted for one in self._table.records if one.version == version)

    def changed(self) -> None:
        self.dashboard.service.known.age(*self._texts())

    # --- what it shows ---

    @property
    def _table(self) -> "RowTable[SchemaVersionInfo]":
        return self.query_one(RowTable)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        with Container(id="versions"):
            newest = SortOrder("VERSION", falling=True)
            yield RowTable(views.version_columns(), views.version_key, newest, empty="It has no versions.")
            yield TextPane()

    def show(self, known: CallResults) -> None:
        told: SchemaSubjectDetails | None = known.get(self._asked)
        self.query_one(NumbersBar).show(views.subject_numbers(told, known_topics(known)))
        if told is not None:
            self._table.fill(told.versions)
            self._table.styles.max_height = len(told.versions) + 1  # the text gets the lines that are left
        self._show_pane(known)

    def _show_pane(self, known: CallResults) -> None:
        """Draw what the cursor and the marks choose, and ask for what is not known yet."""
        asked = self._texts()
        state = (asked, self._pair(), *((known.get(one), known.error(one)) for one in asked), known.get(self._asked))
        if state == self._drawn:
            return
        self._drawn = state
        self.query_one(TextPane).show(*self._pane(known, asked))
        if asked != self._wanted:
            self._wanted = asked
            self.call_next(self.dashboard.look)

    def _pane(self, known: CallResults, asked: Sequence[BrokerCall]) -> tuple[str, list[views.Line]]:
        current, pair = self._table.current, self._pair()
        if current is None:
            return "", []
        error = next((found for one in asked if (found := known.error(one)) is not None), None)
        title = str(pair) if pair is not None else f"version {current.version}"
        if error is not None and (pair is None or asked[-1].method != "test_schema"):
            return title, [[TonedSpan(error.sentence, "bad")], [TonedSpan(error.hint or "", "muted")]]
        if pair is not None:
            return self._compared(known, pair)
        one = known.get(asked[0])
        if one is None:
            return title, [[TonedSpan("asking …", "muted")]]
        first = " · nothing to compare with" if self._is_comparing else ""
        title = f"{title} · id {current.id} · {current.schema_type} · {format_size(current.size_bytes)}{first}"
        return title, views.version_lines(one, current)

    def _compared(self, known: CallResults, pair: VersionPair) -> tuple[str, list[views.Line]]:
        before, after = (known.get(self._text(version)) for version in pair)
        if before is None or after is None:
            return str(pair), [[TonedSpan("asking …", "muted")]]
        found = views.version_differences(before, after)
        return f"{pair} · + {found.added} − {found.removed}", [*self._verdict(known, pair), [], *found.lines]

    def _verdict(self, known: CallResults, pair: VersionPair) -> list[views.Line]:
        level = known.get(self._asked).compatibility
        asked = self._verdict_call(pair)
        error = known.error(asked) if asked is not None else None
        if error is not None:
            hint = f": {error.hint}" if error.hint else ""
            return [[TonedSpan(f"○ {level}: not compared: {error.sentence}{hint}", "warn")]]
        if asked is None and self._deleted(pair.before):
            return [[TonedSpan(f"○ version {pair.before} is deleted: new versions are not compared with it", "muted")]]
        return views.verdict_lines(pair, level, known.get(asked) if asked is not None else None)

    def _pair(self) -> VersionPair | None:
        """Return the versions to compare: the marked two, the marked one and the current, or the one before it."""
        table = self._table
        current = table.current
        if not self._is_comparing or current is None:
            return None
        marked = sorted(int(key) for key in table.marked)
        if len(marked) == _PAIR:
            return VersionPair(*marked)
        if len(marked) == 1 and marked[0] != current.version:
            return VersionPair(*sorted((marked[0], current.version)))
        before = views.earlier_version(table.records, current.version)
        return None if before is None else VersionPair(before, current.version)

    # --- keys ---

    def on_row_table_pointed(self) -> None:
        self.draw()

    def on_row_table_rearranged(self) -> None:
        super().on_row_table_rearranged()
        self.draw()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Let the keys scroll the text."""
        del event
        self.set_focus(self.query_one(TextPane))

    def action_differences(self) -> None:
        """Show differences instead of a text, or the text again."""
        if len(self._table.marked) > _PAIR:
            self.say("mark two versions to compare them", "warn")
        self._is_comparing = not self._is_comparing
        self.draw()

    def action_change(self, what: str) -> None:
        told: SchemaSubjectDetails | None = self.dashboard.service.known.get(self._asked)
        picked = {int(key) for key in self._table.picked}
        versions = [one for one in self._table.records if one.version in picked]
        if told is None or not versions:
            return
        if what == "level":
            level = told.compatibility.lower() if told.own_compatibility else ""
            self.app.push_screen(LevelDialog([self._subject], level))
        elif what == "delete":
            self.app.push_screen(DeleteVersionsDialog(self._subject, versions))
        elif self._table.current is not None:
            self.app.push_screen(RegisterAgainDialog(self._subject, self._table.current))

    def copied(self) -> str:
        """Return the text of the version under the cursor."""
        current = self._table.current
        one = None if current is None else self.dashboard.service.known.get(self._text(current.version))
        return "" if one is None else str(one.schema)

    def command(self) -> str:
        current, pair = self._table.current, self._pair()
        if pair is not None:
            return self.dashboard.shell_command("goqueue-cli", "schema", "diff", self._subject, *map(str, pair))
        words = ("--version", str(current.version)) if current is not None else ()
        deleted = ("--deleted",) if current is not None and current.deleted else ()
        return self.dashboard.shell_command("goqueue-cli", "schema", "describe", self._subject, *words, *deleted)
