"""How it goes in the lanes of a partition: what is ready, what is in hand, what came and went."""

from dataclasses import dataclass

from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.served import LaneServed
from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.partition import Partition
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.limits import OFFSET_MAX, PRIORITY_COUNT
from goqueue.storage.lanes import LANES


@dataclass(slots=True)
class LaneNumbers:
    """One lane of one partition."""

    ready: int = 0
    """To be handed out now: in the group that has most before it. Where no group reads, all messages there are."""
    in_flight: int = 0
    waiting: int = 0
    """To be tried again."""
    enqueued: int = 0
    """Appended since the broker started."""
    served: LaneServed | None = None


def lane_numbers(coordinator: Coordinator, partition: Partition, group: str | None = None) -> Work[list[LaneNumbers]]:
    """Of each lane; of one group, where one is named."""
    place = (partition.topic, partition.number)
    names = [group] if group is not None else [one.group for one in coordinator.ledger.groups()]
    found = [LaneNumbers(enqueued=count) for count in partition.log.lanes.appended]
    cursors = [cursor for name in names if (cursor := coordinator.ledger.cursor(name, place)) is not None]
    heads = [cursor.heads or [cursor.position] * PRIORITY_COUNT for cursor in cursors]
    if not cursors and group is None:
        heads = [[partition.earliest] * PRIORITY_COUNT]
    view = View(partition) if group is None else View(partition, coordinator.ledger.isolation(group))
    for lane in LANES:
        first = min((one[lane] for one in heads), default=OFFSET_MAX)
        found[lane].ready = yield from view.count_in_lane(lane, first, view.end)
    served = coordinator.polls.served.places.get(place)
    for lane, numbers in enumerate(found):
        numbers.served = served[lane] if served is not None else None
    for cursor in cursors:
        _add(found, cursor)
    return found


def _add(found: list[LaneNumbers], cursor: Cursor) -> None:
    for lease in cursor.leases.values():
        found[lease.grant.lane].in_flight += lease.left.count
    for first, end, retry in cursor.waiting.runs():
        found[retry.turn].waiting += end - first
