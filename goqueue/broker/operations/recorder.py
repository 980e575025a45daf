"""The recorder of operations: what is recorded before a change, after it, and what is forgotten.

Invariant: an operation is durable before its change begins, so no change is unrecorded. After a crash in between it is
still `running`; the start then looks whether the change happened.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.operations.records import (
    Operation,
    OperationForgotten,
    OperationRecord,
    OperationsState,
    decode_operation_record,
    encode_operation_record,
)
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError, OperationNotFound
from goqueue.limits import (
    OPERATION_CHANGES_KEPT,
    OPERATION_RETENTION_SECONDS,
    OPERATIONS_FORGOTTEN_AT_ONCE,
    OPERATIONS_MAX,
)
from goqueue.storage.disk import Disk

_KEPT_NS = OPERATION_RETENTION_SECONDS * NANOSECONDS

UNDOABLE = frozenset(
    {"group_reset", "group_deleted", "group_restored", "group_altered", "topic_altered", "delayed_rescheduled"}
)
"""Kinds that can be undone. They happen only if they can be recorded; the others happen all the same."""


class OperationRecorder:
    def __init__(self, partition: Partition, disk: Disk, clock: Clock) -> None:
        self.state = OperationsState()
        self.journal: Journal[OperationRecord] = Journal(
            partition, disk, self.state, encode_operation_record, decode_operation_record, snapshots=False
        )
        self._clock = clock
        self._last_id = 0
        """The last id that was given out, recorded or not."""
        self._refused: list[OperationRecord] = []
        """Results that the disk refused; they are recorded again with the next operation."""

    def operation(self, number: int) -> Operation:
        found = self.state.by_id.get(number)
        if found is None or found.time_ns < self._clock.now_ns() - _KEPT_NS:
            days = OPERATION_RETENTION_SECONDS // 86_400
            raise OperationNotFound(
                f"there is no operation {number}",
                hint=f"the last {OPERATIONS_MAX:,} of at most {days} days are kept; GET /operations lists them",
            )
        return found

    def newest(self) -> list[Operation]:
        """Return all operations, the newest first."""
        since_ns = self._clock.now_ns() - _KEPT_NS
        return [one for _, one in sorted(self.state.by_id.items(), reverse=True) if one.time_ns >= since_ns]

    def begin(self, draft: Operation) -> Work[Operation]:
        """Record an operation that is about to happen. One that cannot be undone happens even if that is refused."""
        self._last_id = max(self._last_id, self.state.last_id) + 1
        begun = replace(draft, id=self._last_id, time_ns=self._clock.now_ns(), state="running")
        yield from self.update(begun)
        return begun

    def update(self, running: Operation) -> Work[None]:
        """Record more of a running operation, and wait until that is durable."""
        durable: Promise[None] = Promise()
        late, self._refused = self._refused, []
        self.journal.record([*late, *self._excess(running), running], durable)
        try:
            yield durable
        except GoQueueError as error:
            self._refused = [*late, *self._refused]
            if running.kind in UNDOABLE:
                error.hint = f"a change is made only if it can be recorded; {error.hint or 'try again later'}"
                raise

    def finish(self, operation: Operation) -> Operation:
        """Record that an operation has happened; what it undoes is marked in the same append."""
        done = replace(operation, state="done")
        records: list[OperationRecord] = [done]
        undone = None if done.undoes is None else self.state.by_id.get(done.undoes)
        if undone is not None:
            records.append(replace(undone, undone_by=done.id, undone_ns=self._clock.now_ns()))
        self.settle(records)
        return done

    def withdraw(self, operation: Operation) -> None:
        """Forget an operation that did not happen."""
        self.settle([OperationForgotten(operation.id)])

    def settle(self, records: Sequence[OperationRecord]) -> None:
        """Record results. Nothing waits for that: after a crash the start finds them out."""

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                self._refused += records

        self.journal.record(records, settled)

    def _excess(self, new: Operation) -> list[OperationForgotten]:
        """Return what is forgotten for a new operation: what is too old, then the oldest of the most frequent kind.

        So a program that cancels a million delayed messages one by one does not displace the operations of people.
        """
        state, since_ns = self.state, self._clock.now_ns() - _KEPT_NS
        oldest = next(iter(state.by_id.values()), None)
        is_full = len(state.by_id) >= OPERATIONS_MAX or state.size + new.size > OPERATION_CHANGES_KEPT
        if oldest is None or not (is_full or oldest.time_ns < since_ns):
            return []
        left = {number: state.by_id[number] for number in sorted(state.by_id) if number != new.id}
        gone = [number for number, one in left.items() if one.time_ns < since_ns]
        for number in gone:
            del left[number]
        most = OPERATIONS_MAX - OPERATIONS_FORGOTTEN_AT_ONCE if len(left) >= OPERATIONS_MAX else OPERATIONS_MAX
        counts, size = state.counts.copy(), new.size + sum(one.size for one in left.values())
        counts.subtract(state.by_id[number].kind for number in gone)
        while len(left) > most or size > OPERATION_CHANGES_KEPT:
            kind = counts.most_common(1)[0][0] if len(left) > most else None
            number = next(one.id for one in left.values() if one.kind == kind or (kind is None and one.size))
            dropped = left.pop(number)
            counts[dropped.kind] -= 1
            size -= dropped.size
            gone.append(number)
        return list(map(OperationForgotten, gone))
