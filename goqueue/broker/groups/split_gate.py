"""Holds added partitions back until a group has finished the older messages of their keys.

The rule needs no state: a partition is held back while the group's committed offset in its parent is below the split
offset. It is evaluated for every delivery, so it also holds after a reset to earlier offsets. What is remembered is who
was refused, to be woken.
"""

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.splits import NO_PARENT, UNDECIDED
from goqueue.broker.groups.records import CursorRecord, GroupRecord
from goqueue.broker.groups.store import GroupStore, TopicLookup
from goqueue.events import Signal


class Obstacle(NamedTuple):
    """Why a partition is held back in a group: the group has not reached the split offset in this partition."""

    parent: int
    offset: int
    """`UNDECIDED` until it is recorded."""
    floor: int | None
    """The committed offset; None where the group has none."""

    @property
    def is_recorded(self) -> bool:
        return self.offset != UNDECIDED

    @property
    def remaining(self) -> int:
        """Offsets to go until the split offset."""
        return max(0, self.offset - (self.floor or 0))


class SplitGate:
    def __init__(self, store: GroupStore, topics: TopicLookup) -> None:
        self._store = store
        self._topics = topics
        self._refused: dict[str, dict[PartitionRef, set[PartitionRef]]] = {}
        """By group and parent, the partitions that were held back."""
        self.on_open: Signal[[str, PartitionRef]] = Signal()
        """Called with a group and a partition that was held back and may not be any more."""
        store.on_recorded.subscribe(self._look_at)

    def obstacle(self, group: str, ref: PartitionRef) -> Obstacle | None:
        """Return why a partition is held back; None when it is not.

        A parent that was added itself may have been empty: then its own parent counts.
        """
        topic = self._topics.topics.get(ref.topic)
        if topic is None or not topic.splits:
            return None
        number = ref.partition
        while (split := topic.splits.get(number)) is not None and split.parent != NO_PARENT:
            cursor = self._store.cursor_of(group, topic, split.parent)
            floor = None if cursor is None else cursor.floor
            if not split.is_decided or (floor or 0) < split.offset:
                return Obstacle(split.parent, split.offset, floor)
            number = split.parent
        return None

    def holds(self, group: str, ref: PartitionRef) -> bool:
        """Return whether a partition is held back. Then `on_open` is called when that ends."""
        found = self.obstacle(group, ref)
        if found is not None:
            parents = self._refused.setdefault(group, {})
            parents.setdefault(PartitionRef(ref.topic, found.parent), set()).add(ref)
        return found is not None

    def look_again(self, topic: str) -> None:
        """Look again at what was held back in a topic: its split offsets are durable now, or it was deleted."""
        for group, parents in list(self._refused.items()):
            for parent in [one for one in parents if one.topic == topic]:
                self._open_behind(group, parent)

    def forget(self, group: str) -> None:
        self._refused.pop(group, None)

    def _look_at(self, group: str, records: Sequence[GroupRecord]) -> None:
        parents = self._refused.get(group)
        if parents is None:
            return
        for record in records:
            if isinstance(record, CursorRecord) and (parent := PartitionRef(record.topic, record.partition)) in parents:
                self._open_behind(group, parent)

    def _open_behind(self, group: str, parent: PartitionRef) -> None:
        """Announce what is not held back by this parent any more."""
        parents = self._refused.get(group, {})
        for ref in list(parents.get(parent, ())):
            found = self.obstacle(group, ref)
            if found is None or found.parent != parent.partition:
                parents[parent].discard(ref)
                self.on_open.emit(group, ref)
        if not parents.get(parent):
            parents.pop(parent, None)
        if not parents:
            self._refused.pop(group, None)
