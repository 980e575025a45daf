"""The records of the replicated log, and the state that they make: the same on all nodes up to the same offset."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from goqueue.broker.core.catalog import Catalog, TopicAltered, TopicCreated, TopicDeleted
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment_records import (
    NodeDraining,
    Reassignment,
    ReassignmentChanged,
    ReassignmentEnded,
    ReassignmentStarted,
)
from goqueue.errors import ClusterRecordUnknown
from goqueue.limits import CLUSTER_CHANGES_AT_ONCE, CLUSTER_REASSIGNMENTS_KEPT
from goqueue.storage import frame


class ClusterCreated(msgspec.Struct, frozen=True, tag="cluster_created", tag_field="record"):
    """The first record of a cluster."""

    cluster_id: str
    voters: tuple[NodeIdentity, ...]
    time_ns: int


class VotersChanged(msgspec.Struct, frozen=True, tag="voters_changed", tag_field="record"):
    """The voters from this record on. It counts from its append on, committed or not; see `cluster.voters`."""

    voters: tuple[NodeIdentity, ...]
    time_ns: int


class NodeRegistered(msgspec.Struct, frozen=True, tag="node_registered", tag_field="record"):
    """A process of a node has started. The offset of this record is the broker epoch of the process."""

    node: str
    directory: str
    incarnation: str
    client_address: str
    peer_address: str
    version: str
    time_ns: int
    rack: str = ""
    feature_level: int = 0
    has_groups: bool = False
    """Groups of its own, from before it came to the cluster."""
    has_keys: bool = False
    """The same for API keys."""
    brings: tuple[str, ...] = ()
    """The same for the other internal topics: the names of those with records."""


class NodeLeft(msgspec.Struct, frozen=True, tag="node_left", tag_field="record"):
    """A node was taken out of the cluster's list. It is listed again when it registers again."""

    node: str
    time_ns: int


class NodeFenced(msgspec.Struct, frozen=True, omit_defaults=True, tag="node_fenced", tag_field="record"):
    """A process of a node leads nothing and is in no ISR: it is silent, gone, or stops."""

    node: str
    broker_epoch: int
    is_stopping: bool = False
    """It stays fenced until the node starts again."""


class NodeUnfenced(msgspec.Struct, frozen=True, tag="node_unfenced", tag_field="record"):
    """The process is there again, and knows that it was fenced."""

    node: str
    broker_epoch: int


class FeatureLevelRaised(msgspec.Struct, frozen=True, tag="feature_level_raised", tag_field="record"):
    """All nodes know the records of this level."""

    level: int


TopicRecord = TopicCreated | TopicAltered | TopicDeleted


class CatalogChanged(msgspec.Struct, frozen=True, tag="catalog_changed", tag_field="record"):
    """A record of the brokers' catalog about a topic. Each broker follows it in its own catalog."""

    change: TopicRecord


def as_decided(topic: TopicCreated) -> TopicCreated:
    """Return a node's record of a topic without what is about its own files."""
    return TopicCreated(topic.name, topic.partitions, topic.settings, topic.created_ns, splits=topic.splits)


class PartitionsChanged(msgspec.Struct, frozen=True, tag="partitions_changed", tag_field="record"):
    """The new states of partitions."""

    changes: tuple[tuple[PartitionId, PartitionState], ...]

    @property
    def needed_level(self) -> int:
        return max((state.needed_level for _, state in self.changes), default=0)


def in_pieces(changes: Iterable[tuple[PartitionId, PartitionState]]) -> Iterator[PartitionsChanged]:
    """Yield records with some hundred changes each."""
    found = list(changes)
    for first in range(0, len(found), CLUSTER_CHANGES_AT_ONCE):
        yield PartitionsChanged(tuple(found[first : first + CLUSTER_CHANGES_AT_ONCE]))


ToldRecord = (
    ClusterCreated
    | VotersChanged
    | NodeRegistered
    | NodeLeft
    | NodeFenced
    | NodeUnfenced
    | FeatureLevelRaised
    | CatalogChanged
    | PartitionsChanged
    | ReassignmentStarted
    | ReassignmentChanged
    | ReassignmentEnded
    | NodeDraining
)


class StateTold(msgspec.Struct, frozen=True, omit_defaults=True, tag="state_told", tag_field="record"):
    """A part of all that the records before it have made: see `cluster.retelling`."""

    needed_level: ClassVar[int] = 2

    part: int
    parts: int
    records: tuple[tuple[int, ToldRecord], ...]
    """Each with the offset that it had, where that matters."""
    deleted: tuple[int, ...] = ()
    """With the first part: the ids of topics that were deleted."""
    counts: dict[str, int] = {}
    """With the first part: how often partitions were changed, by kind."""


ClusterRecord = ToldRecord | StateTold
_decoder: msgspec.json.Decoder[ClusterRecord] = msgspec.json.Decoder(ClusterRecord)


def encode_cluster_record(record: ClusterRecord) -> bytes:
    """Encode a record as a frame that is not stamped yet."""
    return frame.encode(msgspec.json.encode(record), _key(record).encode())


def _key(record: ClusterRecord) -> str:
    match record:
        case NodeRegistered() | NodeLeft() | NodeFenced() | NodeUnfenced() | NodeDraining():
            return f"node/{record.node}"
        case CatalogChanged():
            return "catalog"
        case PartitionsChanged():
            return "partitions"
        case ReassignmentStarted() | ReassignmentChanged() | ReassignmentEnded():
            return "reassignment"
    return "cluster"


def decode_cluster_record(message: frame.StoredMessage) -> ClusterRecord:
    """Raises ClusterRecordUnknown if a later version has written it, or if later ones may follow it."""
    try:
        record = _decoder.decode(message.value)
        if not isinstance(record, FeatureLevelRaised) or record.level <= FEATURE_LEVEL:
            return record
        problem = f"feature level {record.level}, and this version knows {FEATURE_LEVEL}"
    except msgspec.DecodeError as error:
        problem = str(error)
    raise ClusterRecordUnknown(
        f"record {message.offset} of the cluster's log is of a kind that this version does not know: {problem}",
        hint="start this node with the version of the others",
    )


class ClusterState:
    """The state that the committed records make. States of partitions are replaced, never changed."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.voters: tuple[NodeIdentity, ...] = ()
        self.nodes: dict[str, tuple[NodeRegistered, int]] = {}
        """The registration of each node, with its broker epoch."""
        self.fenced: dict[str, NodeFenced] = {}
        self.draining: set[str] = set()
        self.reassignments: dict[int, Reassignment] = {}
        """Those under way, and the latest that have ended, in their order."""
        self._moving_by: dict[PartitionId, int] = {}
        """The number of the reassignment under way of each partition that has one."""
        self.names: dict[int, str] = {}
        """The names of topics that exist, by their ids."""
        self.feature_level = 0
        self.catalog = Catalog()
        self.deleted: set[int] = set()
        """The ids of all topics that were deleted, so that a node that missed it deletes their files."""
        self.partitions: dict[PartitionId, PartitionState] = {}
        """Those of all topics that exist."""
        self.counts: Counter[str] = Counter()
        """Changes of partitions, by kind: the same on all nodes."""
        self.is_behind = False
        """Whether records before the next one are missing here: all are passed over until the state is rewritten."""
        self.was_told = False
        """Whether the state was told: what changed before that is not known."""
        self._told: ClusterState | None = None
        self._parts = 0
        """So many parts of the state were told here."""
        self._changed: set[PartitionId] = set()
        self._changed_topics: set[str] = set()

    @property
    def topics(self) -> dict[str, TopicCreated]:
        return self.catalog.topics

    def reassignment_of(self, log: PartitionId) -> Reassignment | None:
        """Return the reassignment under way that moves a partition."""
        number = self._moving_by.get(log)
        return None if number is None else self.reassignments[number]

    def copy(self) -> "ClusterState":
        """Return a state that can go its own way."""
        other = ClusterState()
        other.cluster_id, other.voters, other.feature_level = self.cluster_id, self.voters, self.feature_level
        other.nodes, other.fenced = dict(self.nodes), dict(self.fenced)
        other._moving_by = dict(self._moving_by)
        other.draining, other.reassignments, other.names = (
            set(self.draining),
            dict(self.reassignments),
            dict(self.names),
        )
        other.deleted, other.partitions = set(self.deleted), dict(self.partitions)
        other.counts = Counter(self.counts)
        other.catalog.nodes = self.catalog.nodes
        for record in self.catalog.records():
            other.catalog.apply(record)
        return other

    def take_changed(self) -> frozenset[PartitionId]:
        """Return the partitions that were changed, created or deleted since the last call."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def take_changed_topics(self) -> set[str]:
        """Return the names of topics that were changed, created or deleted since the last call, or their replicas."""
        changed, self._changed_topics = self._changed_topics, set()
        return changed

    def apply(self, record: ClusterRecord, offset: int) -> None:
        if self.is_behind:
            self._hear(record)
            return
        match record:
            case StateTold():
                pass
            case ClusterCreated():
                self.cluster_id, self.voters = record.cluster_id, record.voters
            case VotersChanged():
                self.voters = record.voters
            case FeatureLevelRaised():
                self.feature_level = record.level
            case CatalogChanged():
                self._apply_catalog(record.change)
            case PartitionsChanged():
                self._count(record)
                self._apply_partitions(record)
            case ReassignmentStarted() | ReassignmentChanged() | ReassignmentEnded():
                self._apply_reassignment(record)
            case _:
                self._apply_node(record, offset)

    def _hear(self, record: ClusterRecord) -> None:
        """Take the state over once all parts of it were told."""
        if not isinstance(record, StateTold) or record.part != self._parts:
            self._told, self._parts = None, 0
            if not isinstance(record, StateTold) or record.part:
                return
        told = self._told = ClusterState() if self._told is None else self._told
        self._parts += 1
        told.deleted.update(record.deleted)
        for offset, one in record.records:
            told.apply(one, offset)
        if record.part == 0:
            told.counts.update(record.counts)
        if self._parts == record.parts:
            told._changed |= self._changed | self.partitions.keys()
            told._changed_topics |= self._changed_topics | self.topics.keys()
            self.__dict__.update(told.__dict__)
            self.was_told = True

    def _apply_node(
        self, record: NodeRegistered | NodeLeft | NodeFenced | NodeUnfenced | NodeDraining, offset: int
    ) -> None:
        match record:
            case NodeRegistered():
                self.nodes[record.node] = record, offset
                self.fenced.pop(record.node, None)
                self.catalog.nodes = max(1, len(self.nodes))
            case NodeLeft():
                self.nodes.pop(record.node, None)
                self.draining.discard(record.node)
                self.catalog.nodes = max(1, len(self.nodes))
                self.fenced.pop(record.node, None)
            case NodeFenced():
                self.fenced[record.node] = record
            case NodeUnfenced():
                self.fenced.pop(record.node, None)
            case NodeDraining():
                (self.draining.add if record.is_draining else self.draining.discard)(record.node)

    def _apply_partitions(self, record: PartitionsChanged) -> None:
        for number, state in record.changes:
            before = self.partitions.get(number)
            if (before is None or before.replicas != state.replicas) and number.topic_id in self.names:
                self._changed_topics.add(self.names[number.topic_id])
        self.partitions.update(record.changes)
        self._changed.update(number for number, _ in record.changes)

    def _count(self, record: PartitionsChanged) -> None:
        for number, state in record.changes:
            before = self.partitions.get(number)
            if before is not None:
                self.counts["isr_shrinks"] += not set(before.isr) <= set(state.isr)
                self.counts["isr_expansions"] += not set(state.isr) <= set(before.isr)
                self.counts["leader_elections"] += state.leader_epoch > before.leader_epoch and bool(state.leader)
                self.counts["unclean_elections"] += state.unclean_epoch > before.unclean_epoch

    def _apply_reassignment(self, record: ReassignmentStarted | ReassignmentChanged | ReassignmentEnded) -> None:
        known = self.reassignments
        match record:
            case ReassignmentStarted():
                number = record.reassignment.number
                known[number] = record.reassignment
                if not record.reassignment.outcome:  # one that has ended is told again with the state
                    self._moving_by.update((one.log, number) for one in record.reassignment.moves)
                ended = [number for number, one in known.items() if one.outcome]
                for number in ended[:-CLUSTER_REASSIGNMENTS_KEPT]:
                    del known[number]
            case ReassignmentChanged():
                before = known[record.number]
                known[record.number] = replace(before, throttle=record.throttle, is_paused=record.is_paused)
            case ReassignmentEnded():
                before = known[record.number]
                known[record.number] = replace(
                    before, outcome=record.outcome, ended_ns=record.time_ns, done=record.done
                )
                self._moving_by = {log: one for log, one in self._moving_by.items() if one != record.number}

    def _apply_catalog(self, change: TopicRecord) -> None:
        if isinstance(change, TopicDeleted):
            topic = self.topics[change.name]
            del self.names[topic.created_ns]
            self.deleted.add(topic.created_ns)
            for number in range(topic.partitions):
                partition = PartitionId(topic.created_ns, number)
                self.partitions.pop(partition, None)
                self._changed.add(partition)
        else:
            self.names[change.created_ns] = change.name
        self.catalog.apply(change)
        self._changed_topics.add(change.name)

    def apply_message(self, message: frame.StoredMessage) -> StateTold | None:
        """Apply a committed message of the log; return it if it tells the state. Control records belong to the log."""
        if message.flags & frame.CONTROL:
            return None
        record = decode_cluster_record(message)
        self.apply(record, message.offset)
        return record if isinstance(record, StateTold) else None
