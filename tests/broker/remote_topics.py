"""Groups whose coordinator has no replica of any topic: they ask the broker beside them, in the words of nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_answers import answer_question
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.remote_partition import PartitionPositions, RemotePartition, positions_of
from goqueue.broker.core.work import Work
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.groups.store import TopicLookup
from goqueue.broker.losses import AbsentLog
from goqueue.storage.log import LogResources


class NearLeader:
    """The source of a remote partition whose leader is in the same process."""

    def __init__(self, partition: Partition, resources: LogResources) -> None:
        log = AbsentLog(partition.log.name, resources, partition.log.settings)
        self.partition = partition
        self.remote = RemotePartition(partition.topic, partition.number, log)
        self.remote.source = self
        self._tell()

    def _tell(self) -> None:
        self.remote.learn(over_the_wire(positions_of(self.partition), PartitionPositions))
        self.partition.watch(self._tell)
        self.remote.wake()

    def ask(self, partition: RemotePartition, question: str, arguments: Sequence[Any]) -> Work[Any]:
        try:
            answer = yield from answer_question(self.partition, question, over_the_wire(list(arguments), list[Any]))
        finally:
            partition.learn(positions_of(self.partition))
        return over_the_wire(answer, Any)

    def follow(self, partition: RemotePartition) -> None:
        """It is told everything at once."""


class RemoteTopic:
    """A topic with its partitions at another node."""

    def __init__(self, topics: "RemoteTopics", topic: Any) -> None:
        self._topics, self._topic = topics, topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._topic, name)

    @property
    def partitions(self) -> list[Partition]:
        return [self._topics.remote(one) for one in self._topic.partitions]

    def partition(self, number: int) -> Partition:
        found: Partition = self._topic.partition(number)
        return self._topics.remote(found)


class RemoteTopics(Mapping[str, Any]):
    """The topics of a broker, as the node beside it has them."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._leaders: dict[Partition, NearLeader] = {}
        self._seen: dict[Any, RemoteTopic] = {}

    def remote(self, partition: Partition) -> Partition:
        if partition not in self._leaders:
            self._leaders[partition] = NearLeader(partition, self._broker._store.resources)
        return self._leaders[partition].remote

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    @property
    def topics(self) -> "RemoteTopics":
        return self

    def topic(self, name: str) -> RemoteTopic:
        topic = self._broker.topic(name)
        return self._seen.setdefault(topic, RemoteTopic(self, topic))

    def log(self, ref: LogRef) -> Partition:
        found: Partition = self._broker.log(ref)
        return found

    def __getitem__(self, name: str) -> RemoteTopic:
        topic = self._broker.topics[name]
        return self._seen.setdefault(topic, RemoteTopic(self, topic))

    def __iter__(self) -> Iterator[str]:
        return iter(self._broker.topics)

    def __len__(self) -> int:
        return len(self._broker.topics)


def over_the_wire(value: Any, kind: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


def read_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Let the groups of brokers that are opened from now on read at another node."""
    opened = GroupShards.__init__

    def open_remotely(self: GroupShards, partitions: Any, disk: Any, topics: Any, *others: Any) -> None:
        opened(self, partitions, disk, cast(TopicLookup, RemoteTopics(topics)), *others)

    patch.setattr(GroupShards, "__init__", open_remotely)
