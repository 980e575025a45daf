"""Undoing an operation: what can be undone, what that would change, and when it would do harm.

Undoing is a change of the same kinds, so it is recorded as an operation and can be undone itself.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import Topic, TopicSettings
from goqueue.broker.core.work import Work
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.operations.changes import RecordedChanges, new_operation, setting_text, with_offsets
from goqueue.broker.operations.records import (
    Author,
    DueChange,
    OffsetChange,
    Operation,
    OperationKind,
    SettingChange,
)
from goqueue.errors import OperationNotUndoable, OperationOutdated
from goqueue.limits import DELAY_CHANGE_MESSAGES, OPERATION_CHANGES_MAX
from goqueue.quantities import format_count

_FINAL: Final[dict[OperationKind, str]] = {
    "topic_created": "deleting the topic would delete its messages",
    "topic_scaled": "partitions cannot be removed: their messages would be lost",
    "topic_deleted": "its messages are gone",
    "delayed_cancelled": "a cancelled message is not delivered any more",
    "redrive": "they are new messages at the end of their topics, and groups may have read them",
}
_OF_OFFSETS = frozenset[OperationKind]({"group_reset", "group_deleted", "group_restored"})
_FORCE = "`force` undoes it all the same"


_NO_OFFSETS = "there are no offsets to go back to"


@dataclass(slots=True)
class UndoPlan:
    """The changes that undo an operation."""

    operation: Operation
    offsets: list[OffsetChange] = field(default_factory=list)
    settings: list[SettingChange] = field(default_factory=list)
    dues: list[DueChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def why_final(operation: Operation) -> str | None:
    """Return why an operation cannot be undone, whatever has happened since; None if it can be."""
    if operation.undone_by is not None:
        return f"operation {operation.undone_by} has undone it"
    if operation.state == "running":
        return "it is still running"
    if operation.kind in _FINAL:
        return _FINAL[operation.kind]
    if _had_no_offsets(operation):
        return _NO_OFFSETS
    if operation.omitted:
        most = format_count(OPERATION_CHANGES_MAX, "change")
        return f"it changed {operation.omitted:,} of them, and at most {most} are recorded"
    return None if operation.size or operation.kind in _OF_OFFSETS else "it changed nothing"


def _had_no_offsets(operation: Operation) -> bool:
    """Return True for a reset that created the group."""
    offsets = operation.offsets
    return operation.kind == "group_reset" and bool(offsets) and all(one.before is None for one in offsets)


def _deletion_hint(operation: Operation) -> str:
    return f"deleting group {operation.subject} takes it back"


class OperationUndo:
    """Plans to undo operations, and carries them out."""

    def __init__(self, changes: RecordedChanges) -> None:
        self._changes = changes
        self._broker = changes.broker
        self._plans: dict[OperationKind, Callable[[UndoPlan, bool], Work[None]]] = {
            "group_reset": self._plan_offsets,
            "group_deleted": self._plan_offsets,
            "group_restored": self._plan_deletion,
            "group_altered": self._plan_settings,
            "topic_altered": self._plan_settings,
            "delayed_rescheduled": self._plan_dues,
        }

    def plan(self, number: int, *, force: bool = False) -> Work[UndoPlan]:
        """Plan to undo an operation. Raises when that is impossible or, without `force`, when it would do harm."""
        operation = self._changes.recorder.operation(number)
        if (reason := why_final(operation)) is not None:
            hint = f"undo operation {operation.undone_by} instead" if operation.undone_by else None
            if reason == _NO_OFFSETS:
                hint = _deletion_hint(operation)
            raise OperationNotUndoable(f"operation {number} cannot be undone: {reason}", hint=hint, operation=number)
        if operation.state == "unknown" and not force:
            raise _outdated(operation, f"the broker stopped while operation {number} ran, so it may not have happened")
        plan = UndoPlan(operation)
        yield from self._plans[operation.kind](plan, force)
        return plan

    def undo(self, author: Author, plan: UndoPlan) -> Work[int]:
        """Carry a plan out and return the id of the operation that this is."""
        operation = plan.operation
        match operation.kind:
            case "group_restored":
                return (yield from self._changes.delete_group(author, operation.subject, operation.id))
            case "group_altered":
                settings = {one.setting: one.after for one in plan.settings}
                return (yield from self._changes.alter_group(author, operation.subject, settings, operation.id))
            case "topic_altered":
                given = {one.setting: one.after for one in plan.settings}
                known = msgspec.to_builtins(self._broker.topic(operation.subject).settings)
                full = msgspec.convert(known | given, TopicSettings)
                changed = {name: getattr(full, name) for name in given}
                alter = self._changes.alter_topic
                return (yield from alter(author, operation.subject, changed, operation.id))[0]
            case "delayed_rescheduled":
                return (yield from self._restore_dues(author, plan))
        count = format_count(len(plan.offsets), "partition")
        is_reset = operation.kind == "group_reset"
        kind: OperationKind = "group_reset" if is_reset else "group_restored"
        summary = f"{'reset' if is_reset else 'restored'} to the offsets before, {count}"
        topics = [self._broker.topic(name) for name in {one.topic for one in plan.offsets}]
        draft = new_operation(author, kind, operation.subject, summary, topics, operation.id)
        targets = {PartitionRef(one.topic, one.partition): one.after or 0 for one in plan.offsets}
        draft = with_offsets(draft, plan.offsets)
        return (yield from self._changes.restore_offsets(draft, targets, operation.group))

    # --- offsets ---

    def _plan_offsets(self, plan: UndoPlan, force: bool) -> Work[None]:
        operation = plan.operation
        gone = [name for name in operation.topics if self._topic_of(operation, name) is None]
        gone += [name for name in {one.topic for one in operation.offsets} if name not in operation.topics]
        plan.notes += [f"topic {name} was deleted since: its offsets are left out" for name in gone]
        unread = [one for one in operation.offsets if one.before is None]
        if unread:
            plan.notes.append(f"{format_count(len(unread), 'partition')} had no offset before: left as it is now")
        plan.offsets += self._offsets_before(plan, gone)
        if not plan.offsets and operation.kind == "group_reset":
            raise OperationNotUndoable(
                f"operation {operation.id} cannot be undone: {_NO_OFFSETS}", hint=_deletion_hint(operation)
            )
        if not force:
            self._refuse_harm_to_group(operation)
        yield from ()

    def _offsets_before(self, plan: UndoPlan, gone: list[str]) -> Iterator[OffsetChange]:
        operation, moved = plan.operation, 0
        cursors = self._broker.groups.cursors(operation.subject)
        for topic, partition, before, _ in operation.offsets:
            if before is not None and topic not in gone:
                there = self._broker.topic(topic).partition(partition)
                after = min(max(before, there.earliest), there.high_watermark)
                moved += after != before
                cursor = cursors.get(PartitionRef(topic, partition))
                yield OffsetChange(topic, partition, cursor.floor if cursor is not None else None, after)
        if moved:
            plan.notes.append(f"{format_count(moved, 'offset')} removed by retention since: the earliest one instead")

    def _refuse_harm_to_group(self, operation: Operation) -> None:
        """Refuse to undo what a later operation changed, or what would make a group repeat its work."""
        name, places = operation.subject, {one[:2] for one in operation.offsets}
        if operation.kind == "group_deleted" and self._broker.groups.group(name) is not None:
            raise _outdated(
                operation, f"group {name} exists again, and undoing operation {operation.id} would reset it"
            )
        recorder = self._changes.recorder
        later = {one.id: one for one in recorder.newest() if one.id > operation.id and one.subject == name}
        for one in later.values():
            is_undone = one.undone_by is not None or one.undoes in later
            if one.kind in _OF_OFFSETS and not is_undone and not places.isdisjoint(row[:2] for row in one.offsets):
                sentence = f"operation {one.id} has changed the same offsets of group {name} since"
                raise _outdated(operation, sentence, f"undo {one.id} first; ")
        if again := self._read_since(operation):
            count = format_count(again, "message")
            raise _outdated(
                operation,
                f"undoing operation {operation.id} would make group {name} read {count} again that it has read since",
            )

    def _read_since(self, operation: Operation) -> int:
        """Count what a group has read beyond the offsets before and after an operation."""
        cursors, again = self._broker.groups.cursors(operation.subject), 0
        for topic, partition, before, after in operation.offsets:
            cursor = cursors.get(PartitionRef(topic, partition))
            if cursor is not None:
                again += max(0, cursor.floor - max(before or 0, after or 0))
        return again

    def _plan_deletion(self, plan: UndoPlan, force: bool) -> Work[None]:
        """Plan to delete a group that was restored."""
        operation = plan.operation
        self._broker.groups.of(operation.subject).membership.deletable(operation.subject)
        if not force:
            self._refuse_harm_to_group(operation)
        cursors = self._broker.groups.cursors(operation.subject)
        plan.offsets += [OffsetChange(*ref, cursor.floor, None) for ref, cursor in sorted(cursors.items())]
        yield from ()

    # --- settings ---

    def _plan_settings(self, plan: UndoPlan, force: bool) -> Work[None]:
        operation = plan.operation
        noun, now = operation.kind.removesuffix("_altered"), self._settings_of(operation)
        for setting, before, after in operation.settings:
            if not force and now[setting] != msgspec.to_builtins(after):
                raise _outdated(
                    operation,
                    f"{setting} of {noun} {operation.subject} is {setting_text(now[setting])} now, "
                    f"and operation {operation.id} left it at {setting_text(after)}",
                )
            plan.settings.append(SettingChange(setting, now[setting], before))
        yield from ()

    def _settings_of(self, operation: Operation) -> dict[str, Any]:
        """Return the settings of the topic or group of an operation as they are now."""
        if operation.kind == "topic_altered":
            settings: dict[str, Any] = msgspec.to_builtins(self._topic_for(operation).settings)
            return settings
        group = self._broker.groups.group(operation.subject)
        if group is None:
            raise OperationNotUndoable(
                f"operation {operation.id} cannot be undone: group {operation.subject} was deleted since",
                hint="undo the deletion first",
                operation=operation.id,
            )
        return msgspec.structs.asdict(group.delivery)

    # --- due times ---

    def _plan_dues(self, plan: UndoPlan, force: bool) -> Work[None]:
        """Plan to restore the due times of pending messages; with `force` also of those that were changed since."""
        operation = plan.operation
        for delivery, changes in self._by_partition(operation, operation.dues):
            yield from delivery.delays.catch_up_fully()
            offsets = np.array(sorted(changes), np.int64)
            for offset, due_ns in zip(
                offsets.tolist(), delivery.delays.schedule.dues_of(offsets).tolist(), strict=True
            ):
                number, _, before_ns, after_ns = changes[offset]
                if due_ns == after_ns or (force and due_ns >= 0):
                    plan.dues.append(DueChange(number, offset, due_ns, before_ns))
        if left := len(operation.dues) - len(plan.dues):
            plan.notes.append(f"{format_count(left, 'message')} delivered, cancelled or rescheduled since: left out")
        if not plan.dues:
            raise OperationNotUndoable(
                f"operation {operation.id} cannot be undone: none of its messages is still due when it set them",
                operation=operation.id,
            )

    def _restore_dues(self, author: Author, plan: UndoPlan) -> Work[int]:
        operation = plan.operation
        bulk = self._changes.delayed_bulk(author, "delayed_rescheduled", operation.subject, operation.id)
        try:
            for delivery, changes in self._by_partition(operation, plan.dues):
                dues = {offset: one.after_ns or 0 for offset, one in changes.items()}
                offsets = np.array(sorted(dues), np.int64)
                for first in range(0, len(offsets), DELAY_CHANGE_MESSAGES):
                    yield from bulk.restore(dues, delivery, offsets[first : first + DELAY_CHANGE_MESSAGES])
        finally:
            number = bulk.end("rescheduled")
        if number is None:
            raise OperationNotUndoable(
                f"operation {operation.id} cannot be undone: its messages were changed meanwhile",
                operation=operation.id,
            )
        return number

    def _by_partition(
        self, operation: Operation, dues: list[DueChange]
    ) -> Iterator[tuple[PartitionDelivery, dict[int, DueChange]]]:
        topic = self._topic_for(operation)
        by_number: dict[int, dict[int, DueChange]] = defaultdict(dict)
        for one in dues:
            by_number[one.partition][one.offset] = one
        for number, changes in sorted(by_number.items()):
            delivery = self._broker.delay_scheduler.delivery(topic.partition(number))
            if delivery is not None:
                yield delivery, changes

    # --- topics ---

    def _topic_of(self, operation: Operation, name: str) -> Topic | None:
        """Return a topic of an operation, unless it was deleted since."""
        topic = self._broker.topics.get(name)
        return topic if topic is not None and topic.created_ns == operation.topics.get(name) else None

    def _topic_for(self, operation: Operation) -> Topic:
        topic = self._topic_of(operation, operation.subject)
        if topic is None:
            raise OperationNotUndoable(
                f"operation {operation.id} cannot be undone: topic {operation.subject} was deleted since",
                operation=operation.id,
            )
        return topic


def _outdated(operation: Operation, sentence: str, hint: str = "") -> OperationOutdated:
    return OperationOutdated(sentence, hint=f"{hint}{_FORCE}", operation=operation.id)
