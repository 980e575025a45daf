"""The groups of all shards: which shard has a group or a receipt handle, and what is known of all groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.core.journal import SNAPSHOT
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.shards import Shards
from goqueue.broker.core.view import Isolation
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.coordinator import GroupBasis, GroupCoordinator, GroupSettings, GroupTotals
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.records import Group
from goqueue.broker.groups.settle_commands import SettleCommand
from goqueue.broker.groups.settlement import SettleCallback, SettleCommandReply
from goqueue.broker.groups.store import TopicLookup, log_number
from goqueue.clock import StallFreeClock, SteadyClock
from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, remove_files


class GroupEnd(NamedTuple):
    """The end of a transaction in one group."""

    group: str
    whose: TransactionId
    is_commit: bool
    failed: bool
    """Whether the processing of the messages has failed."""


SettleReceipts = Callable[[GroupCoordinator, Sequence[str], SettleCallback], None]


class GroupShards(Shards[GroupCoordinator]):
    """The group coordinators, one for each group log."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        disk: Disk,
        topics: TopicLookup,
        clock: StallFreeClock,
        random_bits: Callable[[int], int],
        settings: GroupSettings,
        trusted_ns: Callable[[], int],
    ) -> None:
        self._disk = disk
        least_ns = max((one.log.last_time for one in partitions), default=0)
        self._stall_free = clock
        self.settings = settings
        self.clock = SteadyClock(clock, least_ns)
        self._message_age_clock = SteadyClock(clock.machine, least_ns)
        self.totals = GroupTotals()
        self.policies = DeliveryPolicies(self, topics, settings.policy)
        self.port = PublishPort(topics.log)
        self.send_end: Callable[[GroupEnd, Promise[None], Partition], None] | None = None
        """Has the coordinator of a group end a transaction, in a cluster."""
        basis = GroupBasis(
            disk=disk,
            topics=topics,
            port=self.port,
            clock=self.clock,
            message_age_clock=self._message_age_clock,
            random_bits=random_bits,
            settings=settings,
            trusted_ns=trusted_ns,
            directory=self,
            policies=self.policies,
            totals=self.totals,
        )
        super().__init__(partitions, lambda partition: GroupCoordinator(partition, basis))

    def open_all(self) -> None:
        """Open all shards. In a cluster none is open until its log is led here, and what an earlier run has saved of
        it does not fit what other nodes append.
        """
        if not self.settings.is_replicated:
            super().open_all()
            return
        for partition in self.partitions:
            remove_files(self._disk, f"{partition.log.directory}/{SNAPSHOT}")
        self.is_started = True

    def open(self, number: int) -> GroupCoordinator:
        """Open a shard. Its deadlines are times of the node that recorded them, whose clock may be ahead."""
        last_ns = self.partitions[number].log.last_time
        self.clock.pass_by(last_ns)
        self._message_age_clock.pass_by(last_ns)
        return super().open(number)

    def on_wall_ns(self, moment_ns: int) -> int:
        """Convert a moment of the coordinators' clock, which stops while the broker stalls, to wall time."""
        return moment_ns + self._stall_free.stalled_ns

    def commit(self) -> None:
        for coordinator in self:
            coordinator.commit()

    def rewrite_logs(self) -> Work[None]:
        """Rewrite the logs that have grown. A failure does not stop the others; the first one is raised at the end."""
        failure: GoQueueError | None = None
        for coordinator in list(self):
            try:
                yield from coordinator.store.group_log.rewrite_log()
            except GoQueueError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def topic_changed(self, name: str) -> None:
        """Handle a topic that was created or deleted, or has other partitions now."""
        for coordinator in self:
            coordinator.topic_changed(name)

    # --- all groups ---

    @property
    def group_count(self) -> int:
        return sum(one.store.group_count + len(one.rebalancer.creating) for one in self)

    def groups(self) -> Iterator[Group]:
        for coordinator in self:
            yield from coordinator.store.groups()

    def names(self) -> Iterator[str]:
        """Yield the names of all groups, also of those whose first member is joining."""
        for coordinator in self:
            yield from [one.group for one in coordinator.store.groups()]
            yield from list(coordinator.rebalancer.creating)

    def group(self, name: str) -> Group | None:
        return self.of(name).store.group(name)

    def cursors(self, group: str) -> Mapping[PartitionRef, Cursor]:
        return self.of(group).store.cursors(group)

    def cursor(self, group: str, ref: PartitionRef) -> Cursor | None:
        return self.of(group).store.cursor(group, ref)

    def isolation(self, name: str) -> Isolation:
        return self.of(name).store.isolation(name)

    def all_cursors(self) -> Iterator[Cursor]:
        for coordinator in self:
            for cursors in coordinator.store.group_log.state.cursors.values():
                yield from cursors.values()

    # --- transactions ---

    def end_transaction(self, end: GroupEnd, on_device: Promise[None], by: Partition) -> None:
        """Apply or release what a group has acknowledged in a transaction. `by` is the log of its coordinator."""
        number = self.number(end.group)
        leadership = self.partitions[number].leadership
        if leadership is not None and leadership.is_elsewhere and self.send_end is not None:
            self.send_end(end, on_device, by)
        else:
            self.end_here(end, on_device)

    def end_here(self, end: GroupEnd, on_device: Promise[None]) -> None:
        number = self.number(end.group)
        done = self.partitions[number].then_synced(on_device)
        try:
            self.at(number).transaction_acks.end_transaction(*end, done)
        except GoQueueError as error:  # its shard is closed
            done(error)

    # --- receipt handles ---

    def settle_receipts(
        self, receipts: Sequence[str], member: str | None, template: SettleCommand, callback: SettleCallback
    ) -> None:
        """Settle single messages of any groups by their receipt handles."""

        def settle(coordinator: GroupCoordinator, some: Sequence[str], done: SettleCallback) -> None:
            coordinator.settlement.settle_receipts(some, member, template, done)

        self._settle_receipts(receipts, settle, callback)

    def acknowledge_receipts(
        self, receipts: Sequence[str], member: str | None, transaction_id: TransactionId, callback: SettleCallback
    ) -> None:
        """Acknowledge single messages of any groups in a transaction."""

        def acknowledge(coordinator: GroupCoordinator, some: Sequence[str], done: SettleCallback) -> None:
            coordinator.transaction_acks.receipts(some, member, transaction_id, done)

        self._settle_receipts(receipts, acknowledge, callback)

    def groups_of_receipts(self, receipts: Sequence[str], transaction_id: TransactionId) -> list[str]:
        """Return the groups of receipt handles; invalid ones are ignored."""
        groups: dict[str, None] = {}
        for number, places in self.places_by_shard(receipts).items():
            some = [receipts[place] for place in places]
            groups |= dict.fromkeys(self.at(number).transaction_acks.groups_of(some, transaction_id))
        return list(groups)

    def _settle_receipts(self, receipts: Sequence[str], settle: SettleReceipts, callback: SettleCallback) -> None:
        """Have each shard settle its receipts, and answer in their order. Each shard may refuse its own."""
        parts = self.places_by_shard(receipts)
        if len(parts) <= 1:
            settle(self.at(next(iter(parts), 0)), receipts, callback)
            return
        replies: dict[int, SettleCommandReply] = {}

        def settled(places: Sequence[int], result: list[SettleCommandReply] | GoQueueError) -> None:
            found = [result] * len(places) if isinstance(result, GoQueueError) else result
            replies.update(zip(places, found, strict=True))
            if len(replies) == len(receipts):
                callback([replies[place] for place in range(len(receipts))])

        for number, places in parts.items():
            try:
                some = [receipts[place] for place in places]
                settle(self.at(number), some, lambda result, places=places: settled(places, result))  # type: ignore[misc]
            except GoQueueError as error:
                settled(places, error)

    def places_by_shard(self, receipts: Sequence[str]) -> dict[int, list[int]]:
        """Return the places of the receipts in their list by the number of the shard, which refuses invalid ones."""
        parts: dict[int, list[int]] = {}
        for place, text in enumerate(receipts):
            number = log_number(text.rpartition(":")[2])
            known = number if number is not None and number < len(self.partitions) else 0
            parts.setdefault(known, []).append(place)
        return parts
