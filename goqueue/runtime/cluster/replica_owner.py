"""The services of a node that each of its replicas uses."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from goqueue.broker.core.work import Work
from goqueue.clock import Clock
from goqueue.cluster.leader_replica import AskController, ReplicaSettings
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import OpenReplica
from goqueue.runtime.cluster.replication_stream import ReplicationStream
from goqueue.storage.disk import Disk


class ReplicaOwner(Protocol):
    """The part of the owner of all replicas that one of them uses."""

    me: str
    disk: Disk
    clock: Clock
    settings: ReplicaSettings
    streams: dict[str, ReplicationStream]

    @property
    def broker_epoch(self) -> int: ...

    @property
    def takes_part(self) -> bool: ...

    def uneven(self, replica: Any) -> None: ...

    def ask_controller(self, replica: Any, asked: AskController) -> "asyncio.Task[None]": ...

    def early(self, log: PartitionId, epoch: int) -> dict[str, OpenReplica]: ...

    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...

    async def perform(self, work: Work[Any]) -> Any: ...
