"""The records of the group log: what is written about groups and their cursors, and how it is encoded.

Each record is one JSON object. Its tag is its name on disk. Fields are only ever added, with a default;
`docs/format.md` lists them.
"""

from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from goqueue.broker.core.delivery_settings import NOTHING_SET, DeliverySettings
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import Isolation
from goqueue.storage import frame
from goqueue.storage.frame import NORMAL
from goqueue.storage.lanes import NO_LANE

RangeEntry = TypeVar("RangeEntry", bound=tuple[Any, ...])

Range = tuple[int, int]
"""First offset, and the offset after the last one."""

CursorKey = tuple[str, PartitionRef]
"""A group and a partition."""

RebalanceProtocol = Literal["cooperative", "eager"]
Strategy = Literal["sticky", "range", "round_robin"]

SettleCause = Literal["", "nack", "reject", "timeout", "member_gone", "aborted"]
"""Why a delivery ended without success; empty for other reasons, and in records of earlier versions."""
MessageOrder = Literal["none", "key"]
StartPosition = Literal["earliest", "latest"]
RebalanceReason = Literal["join", "leave", "session_expired", "topics_changed", "revocation_timeout"]

RebalancePhase = Literal["none", "pending_revoke", "complete"]
"""The recorded progress of the latest rebalance.

    none ──▶ pending_revoke ──▶ complete ──▶ pending_revoke ...
      └──────────────────────────▲

The API shows `complete` as `pending_assign` until every member has received its assignment.
"""


# --- groups ---


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A consumer in a group."""

    id: str
    client_id: str
    topics: tuple[str, ...]
    session_ns: int
    in_flight_max: int
    joined_ns: int
    confirms: bool = False
    """True: the member confirms a revocation itself. False: a partition counts as revoked once it has nothing in
    flight there."""
    since: int = 0
    """The generation in which the member last lost a partition: earlier generations of it are stale."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="record", tag="group_stands"):
    """A consumer group without its cursors. Each change is recorded as a whole new value.

    A generation is one assignment; within a generation a partition has at most one owner.
    """

    group: str
    protocol: RebalanceProtocol = "cooperative"
    strategy: Strategy = "sticky"
    order: MessageOrder = "none"
    generation: int = 0
    members: dict[str, Member] = {}
    assignment: dict[str, list[PartitionRef]] = {}
    """The partitions of each member, those included that it is asked to revoke."""
    start: StartPosition = "earliest"
    """Where a partition is read from the first time."""
    isolation: Isolation = "read_committed"
    phase: RebalancePhase = "none"
    target: dict[str, list[PartitionRef]] = {}
    """The assignment that the rebalance works towards; empty when none is under way."""
    awaited: list[str] = []
    """Members that must rejoin before partitions are assigned."""
    reasons: list[RebalanceReason] = []
    began_ns: int = 0
    emptied_ns: int = 0
    """When the last member left; 0 while there are members."""
    delivery: DeliverySettings = NOTHING_SET
    """What the group sets of leases, retries and dead letters."""

    def partitions_to_revoke(self, member: str) -> list[PartitionRef]:
        if self.phase != "pending_revoke":
            return []
        if self.protocol == "eager":
            return self.assignment.get(member, []) if member in self.awaited else []
        target = set(self.target.get(member, ()))
        return [ref for ref in self.assignment.get(member, ()) if ref not in target]

    def partitions_to_process(self, member: str) -> list[PartitionRef]:
        """Return the partitions of a member that it keeps: only these are polled."""
        if self.phase != "pending_revoke":
            return self.assignment.get(member, [])
        if self.protocol == "eager":
            return []
        target = set(self.target.get(member, ()))
        return [ref for ref in self.assignment.get(member, ()) if ref in target]

    def owners(self) -> dict[PartitionRef, str]:
        """Return the member that may have messages in flight, by partition. An eager member that rejoined has none."""
        is_stopped = self.protocol == "eager" and self.phase == "pending_revoke"
        return {
            ref: member
            for member, refs in self.assignment.items()
            if not is_stopped or member in self.awaited
            for ref in refs
        }

    def without_members(self, lost: int, now_ns: int) -> "Group":
        """Return the group as it continues after `lost` records, each of which may have begun a generation."""
        return Group(
            group=self.group,
            protocol=self.protocol,
            strategy=self.strategy,
            order=self.order,
            isolation=self.isolation,
            generation=self.generation + lost,
            emptied_ns=now_ns,
            delivery=self.delivery,
        )

    def topics(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.topics}


GROUP_CHOICES = ("protocol", "strategy", "order", "start", "isolation")
"""The settings of a group that its first member chooses."""


class GroupDeleted(msgspec.Struct, frozen=True, tag_field="record", tag="group_deleted"):
    group: str


# --- values in cursor records ---


class RetryState(NamedTuple):
    """The delivery history of messages that wait for their next delivery."""

    deliveries: int
    failures: int
    first_ns: int
    """The first delivery; 0 before it."""
    due_ns: int
    lane: int = NORMAL
    """`NO_LANE` when it is not known."""

    @property
    def queue(self) -> int:
        """The lane in whose queue the messages wait."""
        return NORMAL if self.lane == NO_LANE else self.lane


class TransactionAck(NamedTuple):
    """Messages acknowledged in an open transaction, with their delivery history before it."""

    transaction_id: TransactionId
    history: RetryState


class LeaseGrant(NamedTuple):
    """A lease as it was given: offsets, member, deadline and delivery count.

    When messages of other lanes lie in between, `runs` alternates lengths: messages of this lease, then offsets
    that are not in it, and so on.
    """

    id: str
    member: str
    first: int
    end: int
    deliveries: int
    failures: int
    first_ns: int
    given_ns: int
    until_ns: int
    lane: int = NORMAL
    runs: tuple[int, ...] = ()

    @property
    def messages(self) -> int:
        return sum(self.runs[::2]) if self.runs else self.end - self.first

    @property
    def history(self) -> RetryState:
        """The delivery history of its messages once the lease has ended, due at once."""
        return RetryState(self.deliveries, self.failures, self.first_ns or self.given_ns, 0, self.lane)

    def edges(self) -> tuple[list[int], list[int]]:
        """Return the first offsets and the end offsets of its ranges."""
        edges = list(accumulate(self.runs, initial=self.first)) if self.runs else [self.first, self.end]
        return edges[::2], edges[1::2]

    def ranges(self) -> list[Range]:
        return list(zip(*self.edges(), strict=True))


class LeaseSnapshot(NamedTuple):
    """A lease in a cursor snapshot: what is left of it, and its current deadline."""

    grant: LeaseGrant
    left: list[Range]
    until_ns: int
    gaps: tuple[Range, ...] = ()
    """Offsets within the grant that were not leased: they have no message, or were held back."""


class MessageMove(NamedTuple):
    """The destination of a message that is moving to another topic."""

    topic: str
    partition: int
    since: int
    """The end of that partition when the move began: an earlier copy there is not from this move."""
    error: str
    deliveries: int
    first_ns: int
    last_ns: int

    @property
    def target(self) -> PartitionRef:
        return PartitionRef(self.topic, self.partition)


MovingRange = tuple[int, int, MessageMove]
"""A range of messages that move together."""

TransactionAckRange = tuple[int, int, TransactionAck]
"""A range of messages acknowledged in one transaction."""


# --- cursor records ---


class CursorRecord(msgspec.Struct, frozen=True, tag_field="record", omit_defaults=True):
    """A change of one group's cursor in one partition."""

    group: str
    topic: str
    partition: int

    @property
    def ref(self) -> PartitionRef:
        return PartitionRef(self.topic, self.partition)


class CursorOpened(CursorRecord, frozen=True, tag="cursor_opened"):
    """The group starts to read the partition."""

    topic_ns: int
    """The creation time of the topic: a topic of the same name that is created later is another one."""
    floor: int


class CursorSnapshot(CursorRecord, frozen=True, tag="cursor_stands"):
    """The whole cursor, which replaces all earlier records of it.

    A snapshot that is too large for one record is split into consecutive parts. It takes effect with the last part.
    """

    topic_ns: int
    floor: int
    position: int
    acked: list[Range] = []
    waiting: list[tuple[int, int, RetryState]] = []
    leases: list[LeaseSnapshot] = []
    moving: list[MovingRange] = []
    lost: int = 0
    heads: list[int] = []
    part: int = 0
    """The number of parts before this one."""
    more: bool = False
    """True when another part follows."""
    transactional: list[TransactionAckRange] = msgspec.field(default_factory=list, name="pledged")

    def below(self, end: int) -> "CursorSnapshot":
        """Return the snapshot without anything at or after this offset."""
        leases = [lease._replace(left=_clipped(lease.left, end)) for lease in self.leases]
        return replace(
            self,
            floor=min(self.floor, end),
            position=min(self.position, end),
            heads=[min(head, end) for head in self.heads],
            acked=_clipped(self.acked, end),
            waiting=_clipped(self.waiting, end),
            leases=[lease for lease in leases if lease.left],
            moving=_clipped(self.moving, end),
            transactional=_clipped(self.transactional, end),
        )


def _clipped(entries: list[RangeEntry], end: int) -> list[RangeEntry]:
    """Return the entries below an offset. An entry is a first offset, an end offset, and values."""
    return [cast(RangeEntry, (entry[0], min(entry[1], end), *entry[2:])) for entry in entries if entry[0] < end]


class LeasesGranted(CursorRecord, frozen=True, tag="leased"):
    grants: list[LeaseGrant]
    held: list[Range] = []
    """Messages that were skipped because an earlier message of their key is not finished."""
    gaps: list[Range] = []
    """Offsets without a message."""
    heads: list[int] = []
    """When lanes are read separately: the first undelivered offset of each lane."""
    lane: int = NORMAL
    """The lane of `held`."""
    messages: int = 0
    """Messages in all grants, as `size` in bytes of their frames: what the group was given."""
    size: int = 0


class LanesMerged(CursorRecord, frozen=True, tag="lanes_joined"):
    """All lanes were delivered up to `position`; from there on they are read as one again."""

    position: int


class MessagesSettled(CursorRecord, frozen=True, tag="settled"):
    """Messages were acknowledged, or have arrived in another topic."""

    ranges: list[Range]
    lease: str | None = None
    cause: SettleCause = ""
    """Set if they were given up where there is no dead-letter topic."""
    reason: str = ""


class MessagesRequeued(CursorRecord, frozen=True, tag="requeued"):
    """Messages of a lease wait for another delivery; with `failed` this delivery counts as a failure."""

    lease: str
    ranges: list[Range]
    due_ns: int
    failed: bool = True
    cause: SettleCause = ""
    reason: str = ""
    """Given by the consumer."""


class LeaseExtended(CursorRecord, frozen=True, tag="extended"):
    lease: str
    until_ns: int


class MoveStarted(CursorRecord, frozen=True, tag="departed"):
    """Messages are moving to another topic."""

    moves: list[MovingRange]
    lease: str | None = None
    cause: SettleCause = ""

    def offsets(self) -> list[int]:
        return [offset for first, end, _ in self.moves for offset in range(first, end)]


class TransactionAcked(CursorRecord, frozen=True, tag="pledged"):
    """Messages were acknowledged in a transaction: its end decides whether they are settled or delivered again.

    Without a lease, the record covers everything in the ranges that was delivered or waits, and, unless lanes are
    read separately, what was never delivered.
    """

    transaction_id: TransactionId = msgspec.field(name="whose")
    ranges: list[Range]
    lease: str | None = None


class TransactionAcksEnded(CursorRecord, frozen=True, tag="redeemed"):
    """A transaction has ended: messages acknowledged in it are settled, or delivered again.

    With `failed`, an abort counts as a failure of the messages that had been delivered.
    """

    transaction_id: TransactionId = msgspec.field(name="whose")
    is_commit: bool
    failed: bool = True
    due_ns: int = 0


class OffsetCommitted(CursorRecord, frozen=True, tag="committed"):
    """Everything below `floor` is settled, except messages that are moving or acknowledged in a transaction."""

    floor: int
    lost: int = 0
    """How many of them retention removed before the group received them."""


class CursorReset(CursorRecord, frozen=True, tag="rewound"):
    """The group continues at `floor`; the rest of the cursor is dropped."""

    floor: int


class CursorClosed(CursorRecord, frozen=True, tag="cursor_closed"):
    """The topic is gone."""


AnyCursorRecord = (
    CursorOpened
    | CursorSnapshot
    | LeasesGranted
    | LanesMerged
    | MessagesSettled
    | MessagesRequeued
    | LeaseExtended
    | MoveStarted
    | TransactionAcked
    | TransactionAcksEnded
    | OffsetCommitted
    | CursorReset
    | CursorClosed
)

GroupRecord = Group | GroupDeleted | AnyCursorRecord

_DECODER = msgspec.json.Decoder(GroupRecord)
_encode = msgspec.json.encode


def encode_group_record(record: GroupRecord) -> bytes:
    return frame.encode(_encode(record), record.group.encode())


def decode_group_record(message: frame.StoredMessage) -> GroupRecord:
    record: GroupRecord = _DECODER.decode(message.value)
    return record
