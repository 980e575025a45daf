"""Requests of nodes to the controller, and what it answers. They travel as messages between nodes."""

from typing import Any

from msgspec import Struct

from goqueue.broker.core.catalog import TopicCreated
from goqueue.broker.core.splits import Split
from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import IsrChange, RaiseEpoch, ResignLeadership


class CreateTopic(Struct, frozen=True, array_like=True, tag="create_topic"):
    name: str
    partitions: int
    settings: TopicSettings


class AlterTopic(Struct, frozen=True, array_like=True, tag="alter_topic"):
    name: str
    changes: dict[str, Any]


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
    | OperatorRequest
)


class ControllerAnswer(Struct, frozen=True, array_like=True):
    """The records of the request are committed up to this version of the cluster, or there was nothing to change."""

    version: int
    topic_id: int = 0
    """Of a topic that was created or changed."""
