"""A table of priorities, which is there only where there is more than one."""

from collections.abc import Sequence

from goqueue_admin.dashboard.questions import Known, Question
from goqueue_admin.dashboard.views import lanes
from goqueue_admin.dashboard.views.lanes import LaneLine
from goqueue_admin.dashboard.widgets.table import Table


class Lanes(Table[LaneLine]):
    """As high as it must be: a line for each priority in use."""

    def __init__(self) -> None:
        super().__init__(lanes.columns(), lanes.lane_key, id="lanes")

    def show(self, known: Known, asked: Sequence[Question], now_ns: int) -> None:
        """All that these have told, together."""
        found = lanes.lines([known.facts(one) for one in asked], now_ns)
        self.fill(found, lanes.lines([known.before(one) or {} for one in asked], now_ns))
        self.display = bool(found)
        self.styles.height = len(found) + 1
