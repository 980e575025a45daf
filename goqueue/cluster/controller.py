"""The decisions of the controller about topics, replicas and leaders.

A decision returns the records that make it so, or raises and changes nothing. It looks at the state of all records that
are committed or appended by this controller; its owner appends the records in one piece, in their order, and applies
them to this state at once. If the controller ends, only the first of them may be committed, which is harmless:
partitions move before their node is fenced or registered, and `complete` makes what a topic lacks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.broker.core.catalog import TopicCreated
from goqueue.broker.core.replication_settings import check_min_isr
from goqueue.broker.core.topic import TopicSettings, TopicSpec
from goqueue.cluster.controller_requests import (
    AdoptTopics,
    AlterTopic,
    CancelReassignment,
    ChangeReassignment,
    ControllerRequest,
    CreateTopic,
    DecideSplits,
    DeleteTopic,
    DrainNode,
    ElectLeader,
    ScaleTopic,
    StartReassignment,
    StopNode,
)
from goqueue.cluster.draining import drain
from goqueue.cluster.elections import (
    Verdict,
    adopt,
    find_leader,
    lead_above,
    lead_unclean,
    lead_with,
    remove_replica,
    restart_replica,
)
from goqueue.cluster.feature_levels import next_level
from goqueue.cluster.metadata import (
    CatalogChanged,
    ClusterRecord,
    ClusterState,
    FeatureLevelRaised,
    NodeFenced,
    NodeLeft,
    NodeRegistered,
    NodeUnfenced,
    PartitionsChanged,
    as_decided,
    in_pieces,
)
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.placement import NodePlaces
from goqueue.cluster.reassigner import Reassigner
from goqueue.cluster.replication_messages import IsrChange, RaiseEpoch, ResignLeadership
from goqueue.cluster.shared_logs import InternalTopic, owners_of, spread_followed
from goqueue.errors import (
    ClusterChangeRefused,
    ControllerUnavailable,
    ElectionRefused,
    IsrChangeRefused,
    NodeNotFound,
    TopicNotFound,
)
from goqueue.quantities import quoted

Records = list[ClusterRecord]
_Change = tuple[PartitionId, PartitionState]


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The defaults of topics that do not set their own."""

    replication_factor: int
    min_isr: int
    internal: tuple[InternalTopic, ...] = ()
    """Internal topics that the cluster shares."""


class Controller:
    """The rules over one state, which the owner changes by the records that it appends."""

    def __init__(self, state: ClusterState, settings: ControllerSettings) -> None:
        self.state = state
        self._settings = settings
        self._offered: set[str] = set()
        """The nodes that have offered their topics to this controller."""
        self.moves = Reassigner(state, self.is_up, lambda topic, nodes: self._min_isr(topic.settings, nodes))
        self._last_id = max((*state.deleted, *(topic.created_ns for topic in state.topics.values())), default=0)

    def is_up(self, node: str) -> bool:
        return node in self.state.nodes and node not in self.state.fenced

    def decide(self, request: ControllerRequest, now_ns: int) -> Records:
        """Return the records that do what a node asks for."""
        if isinstance(request, CreateTopic):
            return self.create_topic(request, now_ns)
        decisions: dict[type, Callable[[Any], Records]] = {
            AlterTopic: lambda asked: self.alter_topic(asked, now_ns),
            DeleteTopic: self.delete_topic,
            ScaleTopic: self.scale_topic,
            DecideSplits: self.decide_splits,
            AdoptTopics: self.adopt_topics,
            IsrChange: self.change_isr,
            ResignLeadership: self.resign,
            RaiseEpoch: self.raise_epoch,
            ElectLeader: self.elect,
            StopNode: self.stop_node,
            StartReassignment: lambda asked: self.moves.start(asked, now_ns),
            ChangeReassignment: self.moves.change,
            CancelReassignment: lambda asked: self.moves.cancel(asked, now_ns),
            DrainNode: lambda asked: drain(self.state, asked, self.is_up),
        }
        return decisions[type(request)](request)

    # --- topics ---

    def create_topic(self, request: CreateTopic, now_ns: int) -> Records:
        spec = TopicSpec(name=request.name, partitions=request.partitions, settings=request.settings)
        topic = self.state.catalog.create_topic(spec, max(now_ns, self._last_id + 1))
        check_min_isr(topic.settings, self._replicas_of(topic, len(self.state.nodes)))
        self._last_id = topic.created_ns
        return [CatalogChanged(topic), *self._placed(topic, range(topic.partitions))]

    def alter_topic(self, request: AlterTopic, now_ns: int) -> Records:
        before = self.state.catalog.topic(request.name)
        topic = self.state.catalog.alter_topic(request.name, request.typed(before.settings), request.expected)
        if topic.settings.replication_factor != before.settings.replication_factor:
            return [CatalogChanged(topic), *self._resized(topic, now_ns)]
        if topic.settings.min_isr == before.settings.min_isr:
            return [CatalogChanged(topic)]
        counts = [len(state.settled) for _, state in self._partitions_of(topic)]
        check_min_isr(topic.settings, min(counts, default=len(self.state.nodes)))
        changed = (
            (number, state.next(leader=state.leader, isr=state.isr, elr=state.elr, min_isr=least))
            for number, state in self._partitions_of(topic)
            if (least := self._min_isr(topic.settings, state.settled)) != state.min_isr
        )
        return [*in_pieces(changed), CatalogChanged(topic)]

    def _resized(self, topic: TopicCreated, now_ns: int) -> Records:
        """Begin to give the partitions of a topic the number of replicas that it has now."""
        count = self._replicas_of(topic, len(self.state.nodes))
        places = self._places()
        moves = [(log, places.resize(state, count)) for log, state in self._partitions_of(topic)]
        wanted = tuple((log, nodes) for log, nodes in moves if nodes != self.state.partitions[log].replicas)
        return self.moves.start(StartReassignment(wanted), now_ns) if wanted else []

    def delete_topic(self, request: DeleteTopic) -> Records:
        return [CatalogChanged(self.state.catalog.delete_topic(request.name))]

    def scale_topic(self, request: ScaleTopic) -> Records:
        before = self.state.catalog.topic(request.name)
        topic = self.state.catalog.scale_topic(
            request.name, request.partitions, accept_key_moves=request.accept_key_moves, is_empty=request.is_empty
        )
        return [CatalogChanged(topic), *self._placed(topic, range(before.partitions, topic.partitions))]

    def decide_splits(self, request: DecideSplits) -> Records:
        topic = next((one for one in self.state.topics.values() if one.created_ns == request.topic_id), None)
        if topic is None:
            return []
        news = {
            number: split
            for number, split in request.splits.items()
            if number in topic.splits and not topic.splits[number].is_decided and split.is_decided
        }
        return [CatalogChanged(self.state.catalog.decide_splits(topic.name, news))] if news else []

    def adopt_topics(self, request: AdoptTopics) -> Records:
        """Record topics that a node had before the cluster. Where a name is taken, the node keeps its own."""
        if not self.is_up(request.node):
            return []
        self._refuse_before_owner(request.node)
        self._offered.add(request.node)
        records: Records = []
        names, ids = set(self.state.topics), {topic.created_ns for topic in self.state.topics.values()}
        for topic in request.topics:
            if topic.name in names or topic.created_ns in ids or topic.created_ns in self.state.deleted:
                continue
            names.add(topic.name)
            ids.add(topic.created_ns)
            self._last_id = max(self._last_id, topic.created_ns)
            numbers = range(topic.partitions)
            here = numbers if topic.replicas_here is None else topic.replicas_here
            states = (adopt(request.node, has_log=one in here) for one in numbers)
            changes = [(PartitionId(topic.created_ns, one), state) for one, state in zip(numbers, states, strict=True)]
            records += [CatalogChanged(as_decided(topic)), *in_pieces(changes)]
        return records

    def _refuse_before_owner(self, node: str) -> None:
        """Refuse while the node whose groups are kept has not offered its topics: its groups are about these."""
        owners = sorted(one for one, (registered, _) in self.state.nodes.items() if registered.has_groups)
        if owners and owners[0] not in (node, *self._offered) and self.is_up(owners[0]):
            raise ControllerUnavailable(f"the topics of node {owners[0]}, whose groups are kept, come first")

    def complete(self, now_ns: int) -> Records:
        """Return what is missing: internal topics, and what an earlier controller did not come to."""
        known = self.state.partitions
        records: Records = self._raised_level()
        level = records[0].level if records and isinstance(records[0], FeatureLevelRaised) else self.state.feature_level
        for row in self._settings.internal:
            spec = row.spec
            if spec.name not in self.state.topics and row.level <= level:
                self._last_id = max(now_ns, self._last_id + 1)
                topic = TopicCreated(spec.name, spec.partitions, spec.settings, self._last_id)
                records += [CatalogChanged(topic), *self._placed_internal(topic, row, _states_in(records))]
            records += in_pieces(spread_followed(row, self.state))
        for topic in self.state.topics.values():
            missing = [one for one in range(topic.partitions) if PartitionId(topic.created_ns, one) not in known]
            records += self._placed(topic, missing)
        return [*records, *in_pieces(self._changes(lambda _, state: find_leader(state, self.is_up)))]

    def _placed_internal(self, topic: TopicCreated, row: InternalTopic, others: Iterable[PartitionState]) -> Records:
        """Place a topic that each node has. What one node has in it already is kept; what more nodes have, is not.

        Groups of other nodes stay there, unserved. A followed topic is the same on all nodes.
        """
        numbers = range(topic.partitions)
        if row.is_followed or row.has_one_owner:
            owners, count = owners_of(topic.name, self.state), len(self.state.nodes) if row.is_followed else None
            return self._placed(topic, numbers, owners[0] if owners else "", others=others, count=count)
        owners = sorted(node for node, (found, _) in self.state.nodes.items() if found.has_groups)
        return self._placed(topic, numbers, owners[0] if owners else "", owners[1:], others)

    def _placed(
        self,
        topic: TopicCreated,
        numbers: Iterable[int],
        owner: str = "",
        without: Sequence[str] = (),
        others: Iterable[PartitionState] = (),
        count: int | None = None,
    ) -> Records:
        """Place partitions: on the `owner` and others, and not on the nodes `without`. `others` are about to come."""
        wanted = list(numbers)
        if not wanted:
            return []
        places = self._places(without, others)
        count = min(count or self._replicas_of(topic, len(places.racks)), len(places.racks))
        changes: list[_Change] = []
        for number in wanted:
            replicas = places.place(count)
            if owner:
                replicas = (owner, *[one for one in replicas if one != owner][: count - 1])
            up = tuple(one for one in replicas if self.is_up(one))
            isr = (owner,) if owner else up  # the others have to follow first
            leader = next((one for one in isr if one in up), "")
            least = self._min_isr(topic.settings, replicas)
            changes.append((PartitionId(topic.created_ns, number), PartitionState(replicas, leader, 1, 1, isr, least)))
        return list(in_pieces(changes))

    def _replicas_of(self, topic: TopicCreated, nodes: int) -> int:
        return min(topic.settings.replication_factor or self._settings.replication_factor, nodes)

    def _places(self, without: Sequence[str] = (), others: Iterable[PartitionState] = ()) -> NodePlaces:
        nodes = {node: found for node, (found, _) in self.state.nodes.items() if node not in without}
        up = frozenset(node for node in nodes if self.is_up(node) and node not in self.state.draining)
        places = NodePlaces({node: registered.rack for node, registered in nodes.items()}, up)
        places.count((*self.state.partitions.values(), *others))
        return places

    def _min_isr(self, settings: TopicSettings, replicas: tuple[str, ...]) -> int:
        return min(settings.min_isr or self._settings.min_isr, len(replicas))

    def _partitions_of(self, topic: TopicCreated) -> Iterator[_Change]:
        for number in range(topic.partitions):
            partition = PartitionId(topic.created_ns, number)
            if partition in self.state.partitions:
                yield partition, self.state.partitions[partition]

    # --- replicas ---

    def change_isr(self, request: IsrChange) -> Records:
        state = self._partition(request.log)
        nodes = {node for node, _ in request.isr}
        if request.leader != state.leader or request.leader_epoch != state.leader_epoch:
            leader = state.leader or "no node"
            raise _refused(request, "leader_epoch", f"{leader} leads it in epoch {state.leader_epoch}")
        if request.partition_epoch != state.partition_epoch:
            raise _refused(request, "partition_epoch", f"its partition_epoch is {state.partition_epoch}")
        if state.leader not in nodes:
            raise _refused(request, "leader", "the leader itself is not in it")
        for node, broker_epoch in request.isr:
            if node not in state.replicas:
                raise _refused(request, "replica", f"node {node} has no replica of it")
            if not self.is_up(node):
                raise _refused(request, "fenced", f"node {node} is fenced, stopping or unknown")
            current = self.state.nodes[node][1]
            if broker_epoch != current and (broker_epoch or node not in state.isr):
                raise _refused(request, "broker_epoch", f"the process of node {node} is that of {current} now")
        if nodes == set(state.isr):
            return []
        following = state.next(leader=state.leader, isr=nodes, elr={*state.elr, *state.isr} - {*request.damaged})
        return [PartitionsChanged(((request.log, following),))]

    def resign(self, request: ResignLeadership) -> Records:
        state = self._partition(request.log)
        if request.leader != state.leader or request.leader_epoch != state.leader_epoch:
            return []
        following = remove_replica(state, request.leader, self.is_up, is_damaged=request.is_damaged)
        return [] if following is None else [PartitionsChanged(((request.log, following),))]

    def raise_epoch(self, request: RaiseEpoch) -> Records:
        state = self._partition(request.log)
        if (request.leader, request.leader_epoch) != (state.leader, state.leader_epoch):
            return []
        following = lead_above(state, request.last_epoch)
        return [] if following is None else [PartitionsChanged(((request.log, following),))]

    def elect(self, request: ElectLeader) -> Records:
        state = self._partition(request.log)
        node = request.node or state.replicas[0]
        if node not in state.replicas:
            raise ElectionRefused(f"node {node} has no replica of it", hint=f"one of {', '.join(state.replicas)}")
        if not self.is_up(node):
            raise ElectionRefused(f"node {node} is not there", hint="start it first")
        if node == state.leader:
            return []
        if node in state.isr:
            return [PartitionsChanged(((request.log, lead_with(state, node)),))]
        if not request.is_unclean:
            raise ElectionRefused(
                f"node {node} is not in sync, so committed messages could be lost",
                hint="an unclean election accepts that: its plan says what each replica has",
            )
        if state.leader:
            raise ElectionRefused(f"node {state.leader} leads it, so nothing needs to be lost")
        return [PartitionsChanged(((request.log, lead_unclean(state, node)),))]

    def return_leaders(self, is_settled: Callable[[str], bool], count_max: int) -> Records:
        """Give partitions back to their preferred leaders, where these are in sync and settled, unless they move."""
        changes: list[_Change] = []
        for partition, state in self.state.partitions.items():
            first = state.replicas[0]
            if state.is_moving or first in self.state.draining:
                continue
            if state.leader not in ("", first) and first in state.isr and self.is_up(first) and is_settled(first):
                changes.append((partition, lead_with(state, first)))
                if len(changes) == count_max:
                    break
        return list(in_pieces(changes))

    def _partition(self, partition: PartitionId) -> PartitionState:
        try:
            return self.state.partitions[partition]
        except KeyError:
            raise TopicNotFound(
                f"the cluster has no partition {partition.partition} of a topic with the id {partition.topic_id}"
            ) from None

    # --- nodes ---

    def register(self, record: NodeRegistered, damaged: Iterable[PartitionId], *, is_whole: bool) -> Records:
        """Record a process of a node, which says which of its logs have lost something.

        `is_whole`: its own catalog has lost nothing, so what it does not list is intact or was never there.
        """
        node, lost = record.node, set(damaged)
        if record.feature_level < self.state.feature_level:
            raise ClusterChangeRefused(
                f"node {node} has version {record.version}, which knows feature level {record.feature_level}: the"
                f" cluster is at level {self.state.feature_level}",
                hint="start it with the version of the other nodes",
            )
        before = self.state.nodes.get(node)
        is_same_disk = is_whole and before is not None and before[0].directory == record.directory

        def verdict(partition: PartitionId) -> Verdict:
            return "missing" if not is_same_disk else "damaged" if partition in lost else "intact"

        changes = self._changes(
            lambda partition, state: restart_replica(
                state, node, verdict(partition), lambda one: one == node or self.is_up(one)
            )
        )
        return [*in_pieces(changes), record, *self._raised_level(record)]

    def _raised_level(self, joining: NodeRegistered | None = None) -> Records:
        """Return the next feature level once all voters are registered and all nodes know it."""
        levels = {node: one.feature_level for node, (one, _) in self.state.nodes.items()}
        if joining is not None:
            levels[joining.node] = joining.feature_level
        level = next_level(self.state.feature_level, (voter.node for voter in self.state.voters), levels)
        return [FeatureLevelRaised(level)] if level > self.state.feature_level else []

    def fence(self, node: str, *, is_stopping: bool = False) -> Records:
        """Take everything from a node that is gone or silent, or that stops."""
        found = self.state.nodes.get(node)
        fenced = self.state.fenced.get(node)
        if found is None or (fenced is not None and fenced.is_stopping >= is_stopping):
            return []
        changes = self._changes(lambda _, state: remove_replica(state, node, self.is_up))
        return [*in_pieces(changes), NodeFenced(node, found[1], is_stopping)]

    def stop_node(self, request: StopNode) -> Records:
        found = self.state.nodes.get(request.node)
        if found is None or found[1] != request.broker_epoch:
            raise NodeNotFound(f"the cluster has no process {request.broker_epoch} of node {quoted(request.node)}")
        return self.fence(request.node, is_stopping=True)

    def unfence(self, node: str) -> Records:
        """Let a process lead and be in sync again."""
        fenced = self.state.fenced.get(node)
        if fenced is None or fenced.is_stopping:
            return []
        changes = self._changes(
            lambda _, state: (
                find_leader(state, lambda one: one == node or self.is_up(one)) if node in state.elr else None
            )
        )
        return [NodeUnfenced(node, fenced.broker_epoch), *in_pieces(changes)]

    def remove(self, node: str, now_ns: int) -> Records:
        """Take a node out of the list."""
        return [*self.fence(node, is_stopping=True), NodeLeft(node, now_ns)]

    def _changes(self, change: Callable[[PartitionId, PartitionState], PartitionState | None]) -> Iterator[_Change]:
        for partition, state in self.state.partitions.items():
            following = change(partition, state)
            if following is not None:
                yield partition, following


def _states_in(records: Records) -> list[PartitionState]:
    return [state for record in records if isinstance(record, PartitionsChanged) for _, state in record.changes]


def _refused(request: IsrChange, reason: str, sentence: str) -> IsrChangeRefused:
    nodes = ", ".join(node for node, _ in request.isr)
    return IsrChangeRefused(
        f"the ISR of partition {request.log.partition} cannot become {nodes}: {sentence}",
        hint="look at its state again",
        reason=reason,
    )
