"""The reassignments of the cluster with their progress."""

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults, broker_call
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.views import moves as views
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

_REASSIGNMENTS = broker_call("reassignments")


class MovesScreen(DashboardScreen):
    """Replicas that move to other nodes: those under way, and the latest that have ended."""

    AUTO_FOCUS = "RowTable"

    def calls(self) -> Sequence[BrokerCall]:
        return (_REASSIGNMENTS,)

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield RowTable(views.reassignment_columns(), lambda one: str(one.id), empty="no replicas were moved")

    def show(self, known: CallResults) -> None:
        found = known.get(_REASSIGNMENTS)
        self.query_one(NumbersBar).show(views.reassignment_numbers(found))
        self.query_one(RowTable).fill(found)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "reassign", "list")
