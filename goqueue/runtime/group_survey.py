"""One walk over the cursors of all groups, for the metrics, the history and the doctor.

It runs on the loop's thread in slices and reads no files.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from goqueue.broker.broker import Broker
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.view import PartitionView
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.store import topic_of
from goqueue.runtime.event_loop import TimeSlices


@dataclass(frozen=True, slots=True)
class CursorLag:
    """A group's cursor in one partition, and how many offsets it has left there."""

    cursor: Cursor
    topic: Topic | None
    """None if it is gone or was recreated."""
    left: int


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    group: Group
    cursors: list[CursorLag]

    @property
    def lag(self) -> int:
        return sum(one.left for one in self.cursors)


async def walk_groups(broker: Broker, slices: TimeSlices) -> AsyncIterator[GroupSnapshot]:
    """Yield all groups except internal ones. Groups and topics may come and go meanwhile."""
    known = [(one, group.group) for one in broker.groups for group in one.store.groups()]
    for coordinator, name in known:
        await slices.rest()
        group = coordinator.store.group(name)
        if group is None or is_internal(name):
            continue
        found: list[CursorLag] = []
        for cursor in list(coordinator.store.cursors(name).values()):
            await slices.rest()
            topic, left = topic_of(broker, cursor), 0
            if topic is not None:
                left = offsets_left(cursor, PartitionView(topic.partition(cursor.partition), group.isolation))
            found.append(CursorLag(cursor, topic, left))
        yield GroupSnapshot(group, found)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The lag of a group in offsets, and how many messages it settled since startup."""

    lag: int
    settled: int


async def group_progress(broker: Broker) -> dict[str, GroupProgress]:
    found = dict[str, GroupProgress]()
    async for one in walk_groups(broker, TimeSlices()):
        name = one.group.group
        lags = broker.groups.of(name).lags
        settled = sum(lags.settled_total(name, place.cursor.ref) for place in one.cursors)
        found[name] = GroupProgress(one.lag, settled)
    return found


def offsets_left(cursor: Cursor, view: PartitionView) -> int:
    """Return the lag in offsets: without removed messages and known aborted ones, with compacted gaps."""
    first, end = max(cursor.floor, view.earliest), view.end
    if cursor.heads is not None:
        return _left_in_lanes(cursor, view, cursor.heads)
    done = cursor.acked.count if first == cursor.floor else cursor.acked.count_within(first, end)
    return max(0, end - first - done - view.roughly_hidden(max(first, cursor.position), end))


def _left_in_lanes(cursor: Cursor, view: PartitionView, heads: list[int]) -> int:
    """Return the lag in offsets of a cursor that reads lanes separately."""
    first, end, lanes = max(cursor.floor, view.earliest), view.end, view.partition.lanes
    before = max(0, cursor.position - first)
    done = cursor.acked.count_within(first, cursor.position) if before else 0
    taken = cursor.leased + cursor.waiting.count + cursor.moving.count + cursor.transactional.count
    if before:
        taken = sum(stop - start for start, stop in cursor.open_from(cursor.position, cursor.reach))
    ahead = sum(lanes.roughly(lane, head, end) for lane, head in enumerate(heads))
    return before - done + taken + max(0, ahead - view.roughly_hidden(cursor.reach, end))
