"""The outcome of operations that were running when the broker stopped."""

from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.delay.schedule import CANCELLED
from goqueue.broker.operations.changes import ChangeableBroker
from goqueue.broker.operations.recorder import OperationRecorder
from goqueue.broker.operations.records import DueChange, Operation
from goqueue.quantities import format_count


def settle_interrupted(broker: ChangeableBroker, recorder: OperationRecorder) -> None:
    """Record the outcome of interrupted operations: done, unknown, or forgotten where nothing happened."""
    for operation in list(recorder.state.by_id.values()):
        if operation.state == "running":
            found = _outcome(broker, operation)
            if found is None:
                recorder.withdraw(operation)
            elif found.state == "unknown":
                recorder.settle([found])
            else:
                recorder.finish(found)


def _outcome(broker: ChangeableBroker, operation: Operation) -> Operation | None:
    done, unknown = replace(operation, state="done"), replace(operation, state="unknown")
    if operation.omitted:
        return unknown
    happened: bool | None
    match operation.kind:
        case "group_reset" | "group_restored":
            return _moved_offsets(broker, operation)
        case "group_deleted":
            happened = broker.groups.group(operation.subject) is None
        case "topic_created":
            topic = broker.topics.get(operation.subject)
            return None if topic is None else replace(done, topics={topic.name: topic.created_ns})
        case "topic_deleted":
            topic = broker.topics.get(operation.subject)
            happened = topic is None or topic.created_ns != operation.topics.get(operation.subject)
        case "topic_altered" | "group_altered":
            happened = _are_settings_changed(broker, operation)
        case "topic_scaled":
            topic = broker.topics.get(operation.subject)
            happened = None if topic is None else len(topic.partitions) >= operation.settings[0].after
        case "delayed_rescheduled" | "delayed_cancelled":
            return _changed_messages(broker, operation)
        case _:
            told = "the broker stopped during this redrive: it may have moved more than is listed"
            return replace(unknown, summary=told)
    return unknown if happened is None else done if happened else None


def _moved_offsets(broker: ChangeableBroker, operation: Operation) -> Operation | None:
    """Keep the topics in which offsets were reset, which is one step for all partitions of a topic."""
    cursors = broker.groups.cursors(operation.subject)
    now = {ref: cursor.floor for ref, cursor in cursors.items()}
    moved, unmoved = set[str](), set(operation.topics)
    for one in operation.offsets:
        offset = now.get(PartitionRef(one.topic, one.partition))
        if offset == one.after != one.before:
            moved.add(one.topic)
        if offset != one.before:
            unmoved.discard(one.topic)
    unmoved -= moved
    if moved | unmoved != set(operation.topics):
        return replace(operation, state="unknown")
    if not moved:
        return None
    return replace(operation, state="done", offsets=[one for one in operation.offsets if one.topic in moved])


def _are_settings_changed(broker: ChangeableBroker, operation: Operation) -> bool | None:
    now = _settings_of(broker, operation)
    if now is None:
        return None
    if all(now[one.setting] == one.after for one in operation.settings):
        return True
    return False if all(now[one.setting] == one.before for one in operation.settings) else None


def _settings_of(broker: ChangeableBroker, operation: Operation) -> dict[str, Any] | None:
    """Return the settings of the topic or group of an operation; None if there is no such one."""
    if operation.kind == "group_altered":
        group = broker.groups.group(operation.subject)
        return None if group is None else asdict(group.delivery)
    topic = broker.topics.get(operation.subject)
    return None if topic is None else to_builtins(topic.settings)


def _changed_messages(broker: ChangeableBroker, operation: Operation) -> Operation | None:
    """Keep the messages that were changed, of a change that may have been made to some."""
    topic = broker.topics.get(operation.subject)
    if topic is None or topic.created_ns != operation.topics.get(topic.name):
        return replace(operation, state="unknown")
    changed = [one for one in operation.dues if _is_changed(broker, operation.subject, one)]
    if not changed:
        return None
    if len(operation.dues) == 1:
        return replace(operation, state="done")
    verb = "cancelled" if operation.kind == "delayed_cancelled" else "rescheduled"
    summary = f"{format_count(len(changed), 'delayed message')} {verb}, then the broker stopped"
    return replace(operation, state="done", dues=changed, summary=summary)


def _is_changed(broker: ChangeableBroker, topic: str, change: DueChange) -> bool:
    delays = broker.delay_scheduler.delays(broker.topics[topic].partition(change.partition))
    entry = delays.schedule.find(change.offset) if delays is not None else None
    if entry is None:
        return False
    return entry.state == CANCELLED if change.after_ns is None else entry.due_ns == change.after_ns
