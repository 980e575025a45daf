"""A partition read in the order in which a group would be handed its messages, by whoever is in no group."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.broker.delivery.gathering import gather
from goqueue.broker.delivery.slices import Slice
from goqueue.broker.lanes.shares import LaneRules, Shares
from goqueue.broker.partition import Partition
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
    partition: Partition, heads: Sequence[int], messages: int, max_bytes: int, rules: LaneRules, *, skip_damage: bool
) -> Work[LanePage]:
    """The next messages from these offsets on, one for each lane; changes nothing."""
    page, end, ready = LanePage([], list(heads)), partition.last_stable, [0] * len(LANES)
    for lane in LANES:
        ready[lane] = yield from partition.lanes.count(lane, heads[lane], end, messages + 1)
    for lane, most in enumerate(Shares().divide(rules, ready, messages, 0)):
        if not ready[lane]:
            page.heads[lane] = max(heads[lane], end)
        room = max_bytes - sum(one.size for one in page.slices)
        if not most or room <= 0:
            continue
        spans = yield from partition.lanes.spans(lane, heads[lane], end, most, LANE_SPANS_MAX)
        found = yield from gather(partition, spans, room, skip_damage=skip_damage)
        page.heads[lane] = found.head(spans, ready[lane], end)
        page.slices += [found.content] if found.content is not None else []
    return page
