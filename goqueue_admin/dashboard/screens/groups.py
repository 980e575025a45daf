"""The consumer groups, one group with its members and lag, and the deletion of groups."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.drawing.chart import Series
from goqueue.quantities import format_count
from goqueue_admin.dashboard.broker.service import (
    BrokerCall,
    CallResults,
    broker_call,
    group_calls,
    known_groups,
    previous_groups,
)
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.base import MUTED, DashboardScreen
from goqueue_admin.dashboard.screens.dialog import ActionDialog, DialogPlan, first_lines
from goqueue_admin.dashboard.screens.reset import ResetDialog
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views import groups as views
from goqueue_admin.dashboard.views.groups import GroupPartitionRow, MemberRow, group_columns
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.plots import RANGES, LinePlot, SampledTrend, SparklinePlot, history_series
from goqueue_admin.dashboard.widgets.priorities import PriorityTable
from goqueue_admin.dashboard.widgets.table import RowTable

_LINES = 8


class DeleteGroupsDialog(ActionDialog):
    """Deletes empty groups."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__("Delete a group" if len(groups) == 1 else "Delete groups", " ".join(groups))
        self._groups = groups

    async def plan(self) -> DialogPlan:
        lines, empty = [], 0
        for name in self._groups:
            group = await self.dashboard.service.do(broker_call("group", name))
            members = len(group["members"])
            empty += not members
            unfinished = f"is empty, with {format_count(group['total_lag'], 'message')} not done"
            about = f"has {format_count(members, 'member')}: stop them first" if members else unfinished
            lines.append(Content.assemble(name, (f"  {about}", "$warning" if members else MUTED)))
        if not empty:
            return DialogPlan(list(first_lines(lines, _LINES, "groups")))
        lines.append(Content("A group that is created again under such a name starts without offsets."))
        what = f"delete {self._groups[0]}" if len(self._groups) == 1 else f"delete {format_count(empty, 'group')}"
        return DialogPlan(list(first_lines(lines, _LINES, "groups")), f"{what} and forget what was read")

    async def carry_out(self) -> Sequence[Content]:
        done, problems = await self.change_each(
            self._groups,
            lambda name: self.dashboard.service.do(broker_call("delete_group", name)),
            lambda name, error: f"{name}: {error.sentence}",
            "deleted",
        )
        lines = [*(Content.styled(f"{name} is deleted", "$success") for name in done), *problems]
        return list(first_lines(lines, _LINES, "groups"))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "group", "delete", *self._groups, "--dry-run")


class GroupsScreen(DashboardScreen):
    """The list of groups. Enter opens one."""

    BINDINGS: ClassVar = [
        Binding("o", "change('reset')", "Reset offsets", id="groups.reset"),
        Binding("x", "change('delete')", "Delete", id="groups.delete"),
    ]

    def calls(self) -> Sequence[BrokerCall]:
        return group_calls(self.dashboard.service.known)

    def body(self) -> Iterator[Widget]:
        yield RowTable(group_columns(), lambda one: one.group_id, SortOrder("GROUP"), empty="there are no groups")

    def show(self, known: CallResults) -> None:
        self.query_one(RowTable).fill(known_groups(known), previous_groups(known))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "group", "describe", *self.query_one(RowTable).picked)

    def open(self, key: str) -> Location:
        return Location("group", (key,))

    def action_change(self, what: str) -> None:
        table = self.query_one(RowTable)
        if table.picked:
            self.app.push_screen(
                ResetDialog(table.current_key) if what == "reset" else DeleteGroupsDialog(table.picked)
            )


_LOW = 32  # lines of a screen on which tables have fewer

_TOPICS_MAX = 20
"""Maximum number of topics whose priorities are counted."""


class GroupScreen(DashboardScreen):
    """One group. Enter opens the messages of a partition or shows a member; tab switches tables."""

    AUTO_FOCUS = "#places"
    BINDINGS: ClassVar = [
        Binding("o", "change('reset')", "Reset offsets", id="group.reset"),
        Binding("t", "show_range", "Time range", id="group.range"),
        Binding("x", "change('delete')", "Delete", id="group.delete"),
        Binding("tab", "app.focus_next", "Other table", show=False, id="group.other"),
    ]

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._group = place.about[0]
        self._asked = broker_call("group", self._group)
        self._cooperative = broker_call("cooperative_group", self._group)
        self._lag = SampledTrend()
        self._drawn: Any = None

    def calls(self) -> Sequence[BrokerCall]:
        return (self._asked, self._cooperative, *self._lanes(), *self.history_calls(self._group))

    def needed(self) -> Sequence[BrokerCall]:
        return (self._asked, self._cooperative)

    def _lanes(self) -> Sequence[BrokerCall]:
        """Return the calls for the priorities of its topics."""
        topics = self.dashboard.service.known.facts(self._asked).get("lag", ())
        return [broker_call("priority_stats", topic, self._group) for topic in list(topics)[:_TOPICS_MAX]]

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar()
        yield Static(id="delivery")
        yield Static(id="rebalance")
        yield SparklinePlot("lag", formats.short, id="spark")
        yield LinePlot("Lag", formats.short, id="trend")
        yield Vertical(
            RowTable(
                views.member_columns(is_rebalancing=False),
                lambda line: line.id,
                SortOrder("MEMBER"),
                empty="the group has no members",
                id="members",
            ),
            RowTable(
                views.partition_columns(),
                views.partition_key,
                SortOrder("PARTITION"),
                empty="the group has read nothing yet",
                id="places",
            ),
            PriorityTable(),
            id="tables",
        )

    def show(self, known: CallResults) -> None:
        group, cooperative = known.facts(self._asked), known.facts(self._cooperative)
        facts, distance = self.query(NumbersBar)
        facts.show(views.group_numbers(group))
        distance.show(views.lag_numbers(group))
        self._show_lines("#delivery", views.delivery_lines(group, 1 if self.size.height < _LOW else 3))
        self._show_lines("#rebalance", views.rebalance_lines(group, cooperative))
        self._show_lag(known)
        now_ns = self.dashboard.service.clock.now_ns()
        self.query_one(PriorityTable).show(known, self._lanes(), now_ns)
        members = self.query_one("#members", RowTable)
        members.columns = views.member_columns(is_rebalancing=bool(cooperative.get("partitions_to_revoke")))
        members.fill(views.member_rows(group, cooperative.get("partitions_to_revoke") or {}, now_ns))
        members.styles.height = max(2, min(len(members.records) + 1, 4 if self.size.height < _LOW else 9))
        if group is not self._drawn:  # there may be thousands of partitions, and a round brings many answers
            self._drawn = group
            before = known.before(self._asked)
            self.query_one("#places", RowTable).fill(views.partition_rows(group), views.partition_rows(before or {}))

    def _show_lines(self, name: str, lines: Sequence[str]) -> None:
        shown = self.query_one(name, Static)
        shown.display = bool(lines)
        shown.update(Content("\n").join(Content(line) for line in lines))

    def _show_lag(self, known: CallResults) -> None:
        group, time, asked = known.facts(self._asked), self.plot_range, self.history_call(self._group)
        past = history_series(known.facts(asked), [("lag", "messages")], ["first"])
        if time is RANGES[0]:
            if group and known.at_ns(asked):
                self._lag.begin(past[0].points if past else (), asked.arguments[1], known.at_ns(asked))
                self._lag.add(group["total_lag"], known.at_ns(self._asked))
            past = [Series("messages", self._lag.points, "first")] if group else []
        self.query_one(SparklinePlot).show(past[0].points if past else [])
        self.query_one(LinePlot).show(past, time)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "group", "describe", self._group)

    def open(self, key: str) -> Location | None:
        line = self._place(key)
        if line is not None:
            partition = () if line.name.partition < 0 else (str(line.name.partition),)
            return Location("messages", (line.name.topic, *partition))
        member = next((one for one in self.query_one("#members", RowTable).records if one.id == key), None)
        if member is not None:
            self.app.push_screen(DetailWindow(member.id, _member_text(member), member.id))
        return None

    def _place(self, key: str) -> GroupPartitionRow | None:
        return next(
            (one for one in self.query_one("#places", RowTable).records if views.partition_key(one) == key), None
        )

    def action_change(self, what: str) -> None:
        if what == "delete":
            self.app.push_screen(DeleteGroupsDialog([self._group]))
            return
        table = self.query_one("#places", RowTable)
        marked = [line.name for line in table.records if views.partition_key(line) in table.marked]
        topics = {name.topic for name in marked}
        partitions = sorted(name.partition for name in marked if name.partition >= 0)
        chosen = ",".join(map(str, partitions)) if len(topics) == 1 else ""
        self.app.push_screen(ResetDialog(self._group, topics.pop() if len(topics) == 1 else "", chosen))


def _member_text(member: MemberRow) -> Content:
    told = member.told
    facts = (
        ("client", told["client_id"]),
        ("topics", " ".join(told["topics"])),
        ("partitions", member.has or "none"),
        ("gives up", member.gives_up or "nothing"),
        ("heard", f"{formats.seconds(member.heartbeat_seconds)} ago"),
        ("session", formats.seconds(told["session_timeout"])),
        ("joined", f"{formats.seconds(member.joined_seconds)} ago"),
        ("in flight", f"{told['in_flight']:,} of at most {told['max_in_flight']:,}"),
    )
    return Content("\n").join(windows.fact_lines([(*fact, "") for fact in facts]))
