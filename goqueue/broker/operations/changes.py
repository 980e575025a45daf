"""Changes of operators: each is recorded, made, and recorded as done.

A change whose record is not durable is not begun, unless it cannot be undone anyway. A change that is refused leaves
no operation.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec import to_builtins
from msgspec.structs import asdict, replace

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import Topic, TopicSpec
from goqueue.broker.core.work import Callback, Promise, Work
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.broker.delay.timing_wheel import Numbers
from goqueue.broker.groups.offsets import ResetOffset, ResetOptions
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.redrive import RedrivenMessage
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.operations.recorder import OperationRecorder
from goqueue.broker.operations.records import (
    Author,
    DueChange,
    MessageMoves,
    OffsetChange,
    Operation,
    OperationKind,
    SettingChange,
)
from goqueue.broker.scaling import ScaledTopic, TopicScaler
from goqueue.errors import GoQueueError, OperationNotFound
from goqueue.limits import OPERATION_CHANGES_MAX
from goqueue.quantities import format_count, format_time

T = TypeVar("T")


class ChangeableBroker(Protocol):
    """The broker, as far as operators change it."""

    groups: GroupShards
    delay_scheduler: DelayScheduler
    scaler: TopicScaler
    before_deletion: Callable[[str], Work[None]]

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic(self, name: str) -> Topic: ...

    def own_topic(self, name: str) -> Topic: ...

    def create_topic(self, spec: TopicSpec, told: Callback[Topic]) -> None: ...

    def alter_topic(self, name: str, changes: dict[str, Any], told: Callback[Topic], expected: str = "") -> None: ...

    def delete_topic(self, name: str, told: Callback[int]) -> None: ...


class RecordedChanges:
    """Makes the changes of operators. Each returns the id of its operation with its result."""

    def __init__(self, broker: ChangeableBroker, recorder: OperationRecorder) -> None:
        self.broker = broker
        self.recorder = recorder

    def carry_out(
        self, draft: Operation, change: Work[T], complete: Callable[[Operation, T], Operation] | None = None
    ) -> Work[tuple[int, T]]:
        """Record an operation, make its change, and record it with its result. A draft with an id continues it."""
        former = self.recorder.state.by_id.get(draft.id)
        begun = draft
        if former is None:
            begun = yield from self.recorder.begin(draft)
        else:
            yield from self.recorder.update(draft)
        try:
            result = yield from change
        except GoQueueError:
            if former is None:
                self.recorder.withdraw(begun)
            else:
                self.recorder.settle([former])
            raise
        self.recorder.finish(begun if complete is None else complete(begun, result))
        return begun.id, result

    # --- groups ---

    def reset_offsets(
        self, author: Author, name: str, options: ResetOptions, continues: int | None = None
    ) -> Work[tuple[int | None, list[ResetOffset]]]:
        """Reset a group in one topic. The reset in another topic may continue the same operation."""
        reset = self.broker.groups.of(name).offsets.reset
        planned = yield from reset(name, replace_field(options, is_dry=True))
        if options.is_dry:
            return None, planned
        topic = self.broker.topic(options.topic)
        draft = new_operation(author, "group_reset", name, "", [topic])
        if continues is not None:
            known = self._continued("group_reset", name, continues)
            if topic.name not in known.topics and known.undone_by is None:
                draft = replace(known, state="running", topics=known.topics | draft.topics)
        before = draft.offsets

        def complete(operation: Operation, resets: list[ResetOffset]) -> Operation:
            rows = [OffsetChange(topic.name, one.partition, one.before, one.after) for one in resets]
            changed = with_offsets(operation, [*before, *rows])
            return replace(changed, summary=_reset_summary(options, changed))

        return (yield from self.carry_out(complete(draft, planned), reset(name, options), complete))

    def delete_group(self, author: Author, name: str, undoes: int | None = None) -> Work[int]:
        group = self.broker.groups.of(name).membership.deletable(name)
        cursors = sorted(self.broker.groups.cursors(name).items())
        summary = f"deleted with the offsets of {format_count(len(cursors), 'partition')}"
        draft = new_operation(author, "group_deleted", name, summary, undoes=undoes)
        topics = {ref.topic: cursor.topic_ns for ref, cursor in cursors}
        changes = [OffsetChange(*ref, cursor.floor, None) for ref, cursor in cursors]
        draft = replace(with_offsets(draft, changes), topics=topics, group=group)
        return (yield from self.carry_out(draft, self._delete_group(name)))[0]

    def _delete_group(self, name: str) -> Work[None]:
        deleted: Promise[None] = Promise()
        self.broker.groups.of(name).membership.delete(name, deleted)
        yield deleted

    def alter_group(self, author: Author, name: str, settings: dict[str, Any], undoes: int | None = None) -> Work[int]:
        """Change delivery settings of a group; None leaves one to its topics and to the broker."""
        membership = self.broker.groups.of(name).membership
        changes = _setting_changes(asdict(membership.group(name).delivery), settings)
        draft = new_operation(author, "group_altered", name, _settings_summary(changes), undoes=undoes)
        return (yield from self.carry_out(replace(draft, settings=changes), self._alter_group(name, settings)))[0]

    def _alter_group(self, name: str, settings: dict[str, Any]) -> Work[None]:
        altered: Promise[None] = Promise()
        self.broker.groups.of(name).membership.alter(name, settings, altered)
        yield altered

    def restore_offsets(self, draft: Operation, offsets: Mapping[PartitionRef, int], former: Group | None) -> Work[int]:
        """Move a group to these offsets, in several topics at once, and create it where it is gone."""

        def change() -> Work[list[OffsetChange]]:
            group = draft.subject
            coordinator = self.broker.groups.of(group)
            cursors = {ref: coordinator.store.cursor(group, ref) for ref in offsets}
            before = {ref: cursor.floor if cursor is not None else None for ref, cursor in cursors.items()}
            yield coordinator.offsets.restore(group, offsets, former)
            return [OffsetChange(*ref, before[ref], offset) for ref, offset in offsets.items()]

        return (yield from self.carry_out(draft, change(), with_offsets))[0]

    # --- topics ---

    def create_topic(self, author: Author, spec: TopicSpec) -> Work[tuple[int | None, Topic]]:
        if spec.name in self.broker.topics:
            return None, (yield from _answer(partial(self.broker.create_topic, spec)))  # which refuses it
        draft = new_operation(
            author, "topic_created", spec.name, f"created with {format_count(spec.partitions, 'partition')}"
        )
        return (yield from self.carry_out(draft, _answer(partial(self.broker.create_topic, spec)), _with_topic))

    def alter_topic(
        self, author: Author, name: str, settings: dict[str, Any], undoes: int | None = None, expected: str = ""
    ) -> Work[tuple[int, Topic]]:
        topic = self.broker.own_topic(name)
        changes = _setting_changes(to_builtins(topic.settings), to_builtins(settings))
        draft = new_operation(author, "topic_altered", name, _settings_summary(changes), [topic], undoes)
        draft = replace(draft, settings=changes)
        return (
            yield from self.carry_out(
                draft, _answer(partial(self.broker.alter_topic, name, settings, expected=expected))
            )
        )

    def delete_topic(self, author: Author, name: str) -> Work[tuple[int, int]]:
        topic = self.broker.own_topic(name)
        count = format_count(sum(one.high_watermark - one.earliest for one in topic.partitions), "offset")
        summary = f"deleted with {format_count(len(topic.partitions), 'partition')} and {count}"
        draft = new_operation(author, "topic_deleted", name, summary, [topic])

        def delete() -> Work[int]:
            yield from self.broker.before_deletion(name)
            pending: int = yield from _answer(partial(self.broker.delete_topic, name))
            return pending

        return (yield from self.carry_out(draft, delete()))

    def scale_topic(
        self, author: Author, name: str, count: int, *, accept_key_moves: bool = False
    ) -> Work[tuple[int, ScaledTopic]]:
        topic = self.broker.scaler.check(name, count, accept_key_moves=accept_key_moves)
        before = len(topic.partitions)
        draft = new_operation(author, "topic_scaled", name, f"partitions {before} -> {count}", [topic])
        draft = replace(draft, settings=[SettingChange("partitions", before, count)])
        scale = partial(self.broker.scaler.scale, name, count, accept_key_moves=accept_key_moves)
        return (yield from self.carry_out(draft, _answer(scale)))

    # --- delayed messages ---

    def cancel_delayed(self, author: Author, delivery: PartitionDelivery, offset: int) -> Work[int]:
        entry = yield from delivery.delays.pending(offset)
        draft = self._delayed(author, "delayed_cancelled", delivery, offset, entry.due_ns, None)
        return (yield from self.carry_out(draft, delivery.delays.cancel(offset)))[0]

    def reschedule_delayed(self, author: Author, delivery: PartitionDelivery, offset: int, due_ns: int) -> Work[int]:
        entry = yield from delivery.delays.pending(offset)
        draft = self._delayed(author, "delayed_rescheduled", delivery, offset, entry.due_ns, due_ns)
        return (yield from self.carry_out(draft, delivery.delays.reschedule(offset, due_ns)))[0]

    def _delayed(
        self,
        author: Author,
        kind: OperationKind,
        delivery: PartitionDelivery,
        offset: int,
        before_ns: int,
        after_ns: int | None,
    ) -> Operation:
        partition = delivery.delays.partition
        place = f"message {partition.number}@{offset}"
        due = f"due {format_time(before_ns)}"
        summary = f"{place} cancelled, which was {due}" if after_ns is None else f"{place} rescheduled, which was {due}"
        draft = new_operation(author, kind, partition.topic, summary, [self.broker.topic(partition.topic)])
        return replace(draft, dues=[DueChange(partition.number, offset, before_ns, after_ns)])

    def delayed_bulk(self, author: Author, kind: OperationKind, name: str, undoes: int | None = None) -> "DelayedBulk":
        draft = new_operation(author, kind, name, "delayed messages are being changed", [self.broker.topic(name)])
        return DelayedBulk(self.recorder, replace(draft, undoes=undoes))

    # --- redrives ---

    def begin_redrive(self, author: Author, source: Topic, continues: int | None = None) -> Work[Operation]:
        """Record that a redrive begins, or that it continues with another request."""
        if continues is None:
            draft = new_operation(author, "redrive", source.name, "dead letters are being redriven", [source])
            return (yield from self.recorder.begin(draft))
        running = replace(self._continued("redrive", source.name, continues), state="running")
        yield from self.recorder.update(running)
        return running

    def _continued(self, kind: OperationKind, subject: str, number: int) -> Operation:
        known = self.recorder.operation(number)
        if (known.kind, known.subject) != (kind, subject):
            raise OperationNotFound(
                f"operation {number} is {known.kind} of {known.subject}, which this request cannot continue",
                hint="leave out `operation` to begin another one",
            )
        return known

    def end_redrive(self, operation: Operation, results: Collection[RedrivenMessage]) -> int | None:
        """Record where messages went. Return the id, or None where no message was moved."""
        moves, omitted = list(operation.moves), operation.omitted
        for one in results:
            if one.failure is None:
                last = moves[-1] if moves else None
                target = (one.target_topic, one.target_partition)
                if last is not None and (last.partition, last.end, *last[3:]) == (one.partition, one.offset, *target):
                    moves[-1] = last._replace(end=one.offset + 1)
                elif len(moves) < OPERATION_CHANGES_MAX:
                    moves.append(MessageMoves(one.partition, one.offset, one.offset + 1, *target))
                else:
                    omitted += 1
        if not moves:
            self.recorder.withdraw(operation)
            return None
        count = format_count(sum(one.end - one.first for one in moves) + omitted, "dead letter")
        summary = f"{count} redriven to {', '.join(sorted({one.target_topic for one in moves}))}"
        self.recorder.finish(replace(operation, moves=moves, omitted=omitted, summary=summary))
        return operation.id


@dataclass(slots=True)
class DelayedBulk:
    """One operation about many delayed messages, which is recorded before each chunk of them is changed."""

    recorder: OperationRecorder
    draft: Operation
    operation: Operation | None = None
    changed: int = 0

    def cancel(self, delivery: PartitionDelivery, offsets: Numbers) -> Work[int]:
        chosen, before = yield from _pending(delivery, offsets)
        yield from self._record(delivery, chosen, before, None)
        changed = yield from delivery.delays.cancel_many(chosen)
        self.changed += changed
        return changed

    def reschedule(self, new: Callable[[Numbers], Numbers], delivery: PartitionDelivery, offsets: Numbers) -> Work[int]:
        """Change the due times of those that are still pending to `new(due times)`."""
        chosen, before = yield from _pending(delivery, offsets)
        yield from self._record(delivery, chosen, before, new(before))
        changed = yield from delivery.delays.reschedule_many(chosen, new)
        self.changed += changed
        return changed

    def restore(self, dues: Mapping[int, int], delivery: PartitionDelivery, offsets: Numbers) -> Work[int]:
        """Change the due times of those that are still pending to those of a table by offset."""
        chosen, before = yield from _pending(delivery, offsets)
        free = delivery.delays.free

        def table(offsets: Numbers) -> Numbers:
            return np.array([dues[one] for one in offsets.tolist()], np.int64)

        yield from self._record(delivery, chosen, before, table(chosen))
        changed = yield from delivery.delays.reschedule_many(chosen, lambda _: table(free(chosen)))
        self.changed += changed
        return changed

    def _record(
        self, delivery: PartitionDelivery, offsets: Numbers, before: Numbers, after: Numbers | None
    ) -> Work[None]:
        if not len(offsets):
            return
        number = delivery.delays.partition.number
        dues: list[int | None] = [None] * len(offsets) if after is None else after.tolist()
        changes = map(DueChange, [number] * len(offsets), offsets.tolist(), before.tolist(), dues)
        known = self.operation or self.draft
        known = _limited(replace(known, dues=[*known.dues, *changes]), "dues", known.omitted)
        if self.operation is None:
            self.operation = yield from self.recorder.begin(known)
        elif not self.operation.omitted:
            self.operation = known
            yield from self.recorder.update(known)

    def end(self, done: str) -> int | None:
        """Record how many were changed. Return the id, or None where none was."""
        if self.operation is None:
            return None
        if not self.changed:
            self.recorder.withdraw(self.operation)
            return None
        count = format_count(self.changed, "delayed message")
        undoes = self.operation.undoes
        self.recorder.finish(replace(self.operation, summary=_of_undo(f"{count} {done}", undoes)))
        return self.operation.id


def _pending(delivery: PartitionDelivery, offsets: Numbers) -> Work[tuple[Numbers, Numbers]]:
    """Return those that may be changed now, and when they are due."""
    yield from delivery.delays.catch_up_fully()
    chosen = delivery.delays.free(offsets)
    return chosen, delivery.delays.schedule.dues_of(chosen)


# --- drafts ---


def new_operation(
    author: Author,
    kind: OperationKind,
    subject: str,
    summary: str,
    topics: Collection[Topic] = (),
    undoes: int | None = None,
) -> Operation:
    known = {topic.name: topic.created_ns for topic in topics}
    told = _of_undo(summary, undoes)
    return Operation(id=0, kind=kind, subject=subject, summary=told, author=author, topics=known, undoes=undoes)


def with_offsets(operation: Operation, changes: list[OffsetChange]) -> Operation:
    return _limited(replace(operation, offsets=changes), "offsets")


def _setting_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SettingChange]:
    return [SettingChange(name, before[name], new) for name, new in after.items() if new != before[name]]


def _settings_summary(changes: list[SettingChange]) -> str:
    told = (f"{name} {setting_text(before)} -> {setting_text(after)}" for name, before, after in changes)
    return ", ".join(told) or "settings sent as they were"


def setting_text(setting: Any) -> str:
    """Write a setting as people do."""
    if setting is None:
        return "null"  # not `none`, which is a value of dead_letter_topic
    if isinstance(setting, float) and setting.is_integer():
        return str(int(setting))
    return ",".join(map(str, setting)) if isinstance(setting, (list, tuple)) else str(setting)


def _with_topic(operation: Operation, topic: Topic) -> Operation:
    return replace(operation, topics={topic.name: topic.created_ns})


def _limited(operation: Operation, changes: str, omitted: int = 0) -> Operation:
    """Drop the listed changes where there are too many."""
    count = len(getattr(operation, changes)) + omitted
    if count <= OPERATION_CHANGES_MAX:
        return operation
    return replace(operation, **{changes: []}, omitted=count)


def _reset_summary(options: ResetOptions, operation: Operation) -> str:
    match options.to:
        case "offset":
            target = f"to offset {options.value:,}"
        case "time":
            target = f"to {format_time(options.value)}"
        case "shift":
            target = f"by {options.value:+,} messages"
        case _:
            target = f"to {options.to}"
    count = format_count(len(operation.offsets) or operation.omitted, "partition")
    return f"reset {target} in {', '.join(sorted(operation.topics))}, {count}"


def _of_undo(summary: str, undoes: int | None) -> str:
    return summary if undoes is None else f"undo of {undoes}: {summary}"


def _answer(rule: Callable[[Callback[T]], None]) -> Work[T]:
    """Wait for the durable answer of a rule that has a callback."""
    answer: Promise[T] = Promise()
    rule(answer)
    result: T = yield answer
    return result
