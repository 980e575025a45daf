"""Records of the operation log. Each holds a complete operation, so the latest record of an id is enough."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from goqueue.broker.groups.records import Group
from goqueue.storage import frame

OperationKind = Literal[
    "group_reset",
    "group_deleted",
    "group_restored",
    "group_altered",
    "topic_created",
    "topic_altered",
    "topic_scaled",
    "topic_deleted",
    "delayed_rescheduled",
    "delayed_cancelled",
    "redrive",
]
OperationState = Literal["running", "done", "unknown"]
"""`unknown`: the broker stopped meanwhile, and what remained shows neither that it happened nor that it did not."""


class Author(NamedTuple):
    """The client that asked for an operation, as far as the broker can tell."""

    client: str
    """What the client says of itself: program, user and machine."""
    address: str


class OffsetChange(NamedTuple):
    """A group's offset in one partition; None where it had none, or has none any more."""

    topic: str
    partition: int
    before: int | None
    after: int | None


class SettingChange(NamedTuple):
    setting: str
    before: Any
    after: Any


class DueChange(NamedTuple):
    """When a delayed message is due; None after a cancellation."""

    partition: int
    offset: int
    before_ns: int
    after_ns: int | None


class MessageMoves(NamedTuple):
    """Dead letters that went to another partition: from the first offset up to, but without, the end."""

    partition: int
    first: int
    end: int
    target_topic: str
    target_partition: int


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="operation", tag_field="record"):
    """A change that an operator made."""

    id: int
    kind: OperationKind
    subject: str
    """The name of the group or topic."""
    summary: str
    state: OperationState = "done"
    time_ns: int = 0
    author: Author = Author("", "")
    topics: dict[str, int] = {}
    """The topics that it is about, with their creation times: a topic recreated with the same name is another one."""
    offsets: list[OffsetChange] = []
    settings: list[SettingChange] = []
    dues: list[DueChange] = []
    moves: list[MessageMoves] = []
    omitted: int = 0
    """Changes that are not listed, because there were too many. Then none is."""
    group: Group | None = None
    """The deleted group, without members."""
    undoes: int | None = None
    undone_by: int | None = None
    undone_ns: int = 0

    @property
    def size(self) -> int:
        return len(self.offsets) + len(self.settings) + len(self.dues) + len(self.moves)


class OperationForgotten(msgspec.Struct, frozen=True, tag="operation_forgotten", tag_field="record"):
    """An operation that is too old, or that did not happen."""

    id: int


OperationRecord = Operation | OperationForgotten
_DECODER = msgspec.json.Decoder(OperationRecord)


def encode_operation_record(record: OperationRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, OperationForgotten) else 0
    return frame.encode(msgspec.json.encode(record), b"%d" % record.id, flags=flags)


def decode_operation_record(message: frame.StoredMessage) -> OperationRecord:
    record: OperationRecord = _DECODER.decode(message.value)
    return record


class OperationsState:
    """All operations, changed by records only."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.by_id: dict[int, Operation] = {}
        self.last_id = 0
        self.counts: Counter[OperationKind] = Counter()
        self.size = 0
        """The number of listed changes of all operations."""

    def note_loss(self, count: int) -> None:
        """Skip the ids that lost records may have had."""
        self.last_id += count

    def apply(self, record: OperationRecord) -> None:
        self.last_id = max(self.last_id, record.id)
        former = self.by_id.get(record.id)
        if former is not None:
            self._count(former, -1)
        if isinstance(record, Operation):
            self.by_id[record.id] = record
            self._count(record, 1)
        else:
            self.by_id.pop(record.id, None)

    def _count(self, operation: Operation, by: int) -> None:
        self.counts[operation.kind] += by
        self.size += by * operation.size

    def records(self) -> Iterator[OperationRecord]:
        """Yield the operations by id: compaction may have put them into another order."""
        for number in sorted(self.by_id):
            yield self.by_id[number]
        if self.last_id not in self.by_id and self.last_id:
            yield OperationForgotten(self.last_id)
