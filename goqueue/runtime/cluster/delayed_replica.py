"""The replica of a delayed log: it leads and follows with the replica of its partition.

Both have one state in the cluster's log. A follower makes the log when its leader says that there is one; until it has
all of it, it is not in sync in the partition. A new leader delivers when all that it inherited is committed in both
logs: then no earlier leader can have anything stored any more, and it finds out what was delivered.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from goqueue.broker.broker import Broker
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.losses import UnavailableLog
from goqueue.cluster.partitions import PartitionId, PartitionState, delayed_log_of, partition_of
from goqueue.cluster.replication_messages import DelayedLogBegun
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.replica_ends import NotedEnds, ReplicaEnds
from goqueue.runtime.cluster.replica_owner import ReplicaOwner
from goqueue.runtime.cluster.replica_repair import ReplicaRepair

_log = logging.getLogger("goqueue.cluster")

_RETRY_SECONDS = 1.0


class DelayedReplica(LocalReplica):
    """The delayed log of one partition, of which this node has a log."""

    def __init__(
        self, owner: ReplicaOwner, main: LocalReplica, delays: DelayedMessages, role: Leadership, noted: NotedEnds
    ) -> None:
        super().__init__(owner, delayed_log_of(main.id), delays.delayed_log, role, noted)
        self.main = main
        self._delays = delays
        self.log.is_busy = lambda: bool(delays.delivering or delays.deciding)
        delays.open()
        main.delayed, main.on_role = self, self._look_at_both
        self.on_role = self._look_at_both
        self.set_state(main.state)

    def set_state(self, state: PartitionState | None) -> None:
        super().set_state(state)
        self._look_at_both()

    def _look_at_both(self) -> None:
        """Let the leaders of both logs decide together, and the followers know of this one."""
        main, own = self.main.leader, self.leader
        if own is not None:
            own.partition = main
        if main is not None:
            main.delayed, main.has_unled_delayed = own, own is None
            opened = {node for node, follower in main.followers.items() if follower.is_open}
            for node, follower in () if own is None else own.followers.items():  # one that goes has left here first
                if node in opened and not follower.is_open:
                    self._owner.streams[node].tell(DelayedLogBegun(self.id))
        self._delays.look()


class DelayedOwner(ReplicaOwner, Protocol):
    """The part of the owner of all replicas that those of delayed logs use."""

    local: dict[PartitionId, LocalReplica]
    shortened: set[PartitionId]
    repair: ReplicaRepair

    def address_of(self, node: str) -> str | None: ...

    def has_lease(self) -> bool: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> object: ...


class DelayedReplicas:
    """The delayed logs of one node."""

    def __init__(self, owner: DelayedOwner, broker: Broker, noted: ReplicaEnds) -> None:
        self._owner, self._broker, self._noted = owner, broker, noted

    def start(self) -> None:
        """Take over the delayed logs that are open, and those that will be opened."""
        owner, scheduler = self._owner, self._broker.delay_scheduler
        replicas = {replica.partition: replica for replica in owner.local.values()}
        for delivery in scheduler.deliveries():
            self._attach(delivery.delays, replicas.get(delivery.delays.partition))
        owner.shortened |= {partition_of(log) for log in self._noted.delayed_logs() if log not in owner.local}
        scheduler.on_opened.subscribe(self._on_opened)

    def _on_opened(self, delivery: PartitionDelivery) -> None:
        partition = delivery.delays.partition
        found = next((replica for replica in self._owner.local.values() if replica.partition is partition), None)
        self._attach(delivery.delays, found)

    def _attach(self, delays: DelayedMessages, main: LocalReplica | None) -> None:
        """Have a delayed log take part with its partition."""
        if main is None:
            return
        owner, log, partition = self._owner, delayed_log_of(main.id), main.partition
        noted, is_lost = self._noted.of(log), isinstance(delays.delayed_log.log, UnavailableLog)
        if is_lost or delays.delayed_log.log_end < noted.high_watermark:
            owner.shortened.add(main.id)
        if not is_lost:
            role = Leadership(partition.topic, partition.number, owner.me, owner.address_of, owner.has_lease)
            owner.local[log] = DelayedReplica(owner, main, delays, role, noted)
            owner.repair.attached(owner.local[log])

    def begun(self, log: PartitionId) -> None:
        """The leader of a partition has a delayed log: make this one."""
        main = self._owner.local.get(partition_of(log))
        if main is None or main.delayed is not None or main.leader is not None or main.partition.log.is_closed:
            return
        try:
            self._broker.scheduling(main.partition)
        except GoQueueError as error:
            _log.warning("the delayed log of %s cannot be made yet: %s", main.partition.log.name, error)
            self._owner.call_later(_RETRY_SECONDS, partial(self.begun, log))
