"""Requests of nodes to the controller, and what it answers. They travel as messages between nodes."""

from typing import Any, ClassVar

from msgspec import Struct, ValidationError, convert, to_builtins

from goqueue.broker.core.catalog import TopicCreated
from goqueue.broker.core.splits import Split
from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import IsrChange, RaiseEpoch, ResignLeadership
from goqueue.errors import RequestInvalid
from goqueue.limits import CLUSTER_MOVES_AT_ONCE


class CreateTopic(Struct, frozen=True, array_like=True, tag="create_topic"):
    name: str
    partitions: int
    settings: TopicSettings


class AlterTopic(Struct, frozen=True, array_like=True, tag="alter_topic"):
    name: str
    changes: dict[str, Any]
    expected: str = ""
    """The tag of the settings that it may change; empty: of any."""

    @property
    def needed_level(self) -> int:
        return 2 if self.expected else 0

    def typed(self, before: TopicSettings) -> dict[str, Any]:
        """Return changed settings as the types that a topic has; they came as MessagePack."""
        try:
            settings = convert({**to_builtins(before), **self.changes}, TopicSettings)
        except ValidationError as error:
            raise RequestInvalid(f"the settings cannot be read: {error}", problems=[]) from None
        return {name: getattr(settings, name) for name in self.changes}


class DeleteTopic(Struct, frozen=True, array_like=True, tag="delete_topic"):
    name: str


class ScaleTopic(Struct, frozen=True, array_like=True, tag="scale_topic"):
    name: str
    partitions: int
    accept_key_moves: bool
    is_empty: bool


class DecideSplits(Struct, frozen=True, array_like=True, tag="decide_splits"):
    """The leaders of parents say where these ended when partitions were added."""

    topic_id: int
    splits: dict[int, Split]


class AdoptTopics(Struct, frozen=True, array_like=True, tag="adopt_topics"):
    """A node offers the topics that it has and the cluster does not know, with the partitions that it has of them."""

    node: str
    topics: tuple[TopicCreated, ...]


class ElectLeader(Struct, frozen=True, array_like=True, tag="elect"):
    """An operator moves a leader to a replica in sync, or to any replica if `is_unclean`."""

    log: PartitionId
    node: str
    """Empty: the preferred leader."""
    is_unclean: bool = False


class StopNode(Struct, frozen=True, array_like=True, tag="stop_node"):
    """A node is about to stop: others take over what it leads."""

    node: str
    broker_epoch: int


class HandOver(Struct, frozen=True, array_like=True, tag="hand_over"):
    """Another voter becomes the controller."""

    node: str
    """Empty: the one that is the furthest."""


class ReplaceVoter(Struct, frozen=True, array_like=True, tag="replace_voter"):
    """One step towards a vote for the directory that a node has now."""

    node: str


class RemoveNode(Struct, frozen=True, array_like=True, tag="remove_node"):
    """A node that is gone for good is taken out of the list."""

    node: str


class StartReassignment(Struct, frozen=True, array_like=True, tag="start_reassignment"):
    """An operator moves partitions to other nodes."""

    needed_level: ClassVar[int] = 2

    moves: tuple[tuple[PartitionId, tuple[str, ...]], ...]
    """The replicas that each partition shall have, the preferred leader first."""
    throttle: int = 0
    at_once: int = CLUSTER_MOVES_AT_ONCE


class ChangeReassignment(Struct, frozen=True, array_like=True, tag="change_reassignment"):
    """An operator changes the speed of a reassignment, pauses or resumes it. None: as before."""

    needed_level: ClassVar[int] = 2

    number: int
    throttle: int | None = None
    is_paused: bool | None = None


class CancelReassignment(Struct, frozen=True, array_like=True, tag="cancel_reassignment"):
    needed_level: ClassVar[int] = 2

    number: int


class DrainNode(Struct, frozen=True, array_like=True, tag="drain_node"):
    """Others lead what a node leads, and it gets no new replicas; or that is taken back."""

    needed_level: ClassVar[int] = 2

    node: str
    is_draining: bool


OperatorRequest = HandOver | ReplaceVoter | RemoveNode
"""They concern the nodes alone, so they need no topics."""
ControllerRequest = (
    CreateTopic
    | AlterTopic
    | DeleteTopic
    | ScaleTopic
    | DecideSplits
    | AdoptTopics
    | IsrChange
    | ResignLeadership
    | RaiseEpoch
    | ElectLeader
    | StopNode
    | StartReassignment
    | ChangeReassignment
    | CancelReassignment
    | DrainNode
    | OperatorRequest
)


class ControllerAnswer(Struct, frozen=True, array_like=True):
    """The records of the request are committed up to this version of the cluster, or there was nothing to change."""

    version: int
    topic_id: int = 0
    """Of a topic that was created or changed."""
    reassignment: int = 0
    """The number of one that was started."""
