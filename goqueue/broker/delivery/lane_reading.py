"""A partition read in the order in which a group would be handed its messages, by whoever is in no group."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.broker.delivery.gathering import gather
from goqueue.broker.delivery.slices import Slice
from goqueue.broker.lanes.shares import LaneRules, Shares
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.limits import LANE_SPANS_MAX
from goqueue.storage.lanes import LANES


@dataclass(slots=True)
class LanePage:
    """Of each lane its share, the most urgent first."""

    slices: list[Slice]
    heads: list[int]
    """Where the next page goes on in each lane."""


def read_lanes(
    view: View, heads: Sequence[int], messages: int, max_bytes: int, rules: LaneRules, *, skip_damage: bool
) -> Work[LanePage]:
    """The next messages from these offsets on, one for each lane; changes nothing."""
    page, end, ready = LanePage([], list(heads)), view.end, [0] * len(LANES)
    lanes = view.partition.lanes
    for lane in LANES:
        ready[lane] = yield from lanes.count(lane, heads[lane], end, messages + 1)
    for lane, most in enumerate(Shares().divide(rules, ready, messages, 0)):
        if not ready[lane]:
            page.heads[lane] = max(heads[lane], end)
        room = max_bytes - sum(one.size for one in page.slices)
        if not most or room <= 0:
            continue
        spans = yield from lanes.spans(lane, heads[lane], end, most, LANE_SPANS_MAX)
        found = yield from gather(view, spans, room, skip_damage=skip_damage)
        page.heads[lane] = yield from found.head(view, lane, spans, end)
        page.slices += [found.content] if found.content is not None else []
    return page
