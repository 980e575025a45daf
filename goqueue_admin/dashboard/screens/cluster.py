"""The nodes of the cluster with what happened to them, and the partitions with their replicas."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow
from goqueue_admin.dashboard.views import cluster as views
from goqueue_admin.dashboard.views.table import SortOrder
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

_STATE = broker_call("cluster_state")
_HEALTH = broker_call("cluster_health")
_PARTITIONS = broker_call("cluster_partitions")
_EVENTS = 6


class NodesScreen(DashboardScreen):
    """The nodes as the broker that answers sees them. Enter shows one in full."""

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [Binding("i", "in_full", "In full", id="nodes.in_full")]

    def calls(self) -> Sequence[BrokerCall]:
        return (_STATE, _HEALTH)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield Static(id="facts")
        yield RowTable(views.node_columns(), lambda row: row.name, SortOrder("NODE"), empty="there are no nodes")
        yield Static(id="events")

    def show(self, known: CallResults) -> None:
        state = known.get(_STATE)
        self.query_one(NumbersBar).show(views.cluster_numbers(state, known.get(_HEALTH)))
        self.query_one(RowTable).fill(views.node_rows(state))
        now_ns = self.dashboard.service.clock.now_ns()
        for name, facts in (
            ("#facts", views.cluster_facts(state)),
            ("#events", views.event_facts(state, now_ns, _EVENTS)),
        ):
            place = self.query_one(name, Static)
            place.display = bool(facts)
            place.update(Content("\n").join(windows.fact_lines(facts)))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "cluster", "nodes")

    def open(self, key: str) -> None:
        del key
        self.action_in_full()

    def action_in_full(self) -> None:
        """Show everything about the node under the cursor."""
        row = self.query_one(RowTable).current
        if row is not None:
            content = Content("\n").join(windows.fact_lines(views.node_facts(row.told)))
            self.app.push_screen(DetailWindow(f"node {row.name}", content, row.told.address or ""))


class ReplicasScreen(DashboardScreen):
    """The partitions of the cluster with their replicas. Enter opens the topic of one."""

    AUTO_FOCUS = "RowTable"

    def calls(self) -> Sequence[BrokerCall]:
        return (_PARTITIONS,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield RowTable(views.partition_columns(), views.partition_name, empty="there are no partitions")

    def show(self, known: CallResults) -> None:
        found = known.get(_PARTITIONS)
        self.query_one(NumbersBar).show(views.partition_numbers(found))
        self.query_one(RowTable).fill(found)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-cli", "cluster", "partitions")

    def open(self, key: str) -> Location:
        return Location("topic", (key.rpartition("/")[0],))
