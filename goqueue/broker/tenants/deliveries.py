"""Counts what the groups of tenants are given, from the records of the group logs.

A record counts once it is durable, so a crash changes nothing: the records of usage say up to which offsets the group
logs are counted, and the rest is read again. In a cluster each node counts what it records itself as a coordinator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from goqueue.broker.core.partition import Partition
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.groups.records import GroupRecord, LeasesGranted, decode_group_record
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.tenants.naming import tenant_of
from goqueue.errors import GoQueueError
from goqueue.storage import frame

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages that one record gave to a group of a tenant, and the place of the record."""

    tenant: str
    messages: int
    size: int
    log: int
    offset: int


class DeliveryCounter:
    """Messages and bytes that were given to the groups of each tenant since `open`."""

    def __init__(self, groups: GroupShards, is_tenant: Callable[[str], bool]) -> None:
        self._groups = groups
        self._is_tenant = is_tenant
        self._counts: dict[str, list[int]] = {}
        self._ends: list[int] = []
        """Below these offsets of the group logs all is counted, except for the logs that are open."""

    def open(self, recorded: Sequence[int]) -> Iterator[Delivery]:
        """Yield what the logs have beyond the recorded offsets; what comes later is counted here."""
        logs = self._groups.partitions
        if self._groups.settings.is_replicated:  # others have counted what the logs have
            recorded = ()
        # Without a record, counting begins now.
        self._ends = list(recorded) if len(recorded) == len(logs) else [one.log.durable_end for one in logs]
        for number in range(len(logs)):
            yield from self._read(number)
        for coordinator in self._groups:
            self._follow(coordinator)
        self._groups.on_opened.subscribe(self._reopened)
        self._groups.on_closed.subscribe(self._closed)

    def count(self, tenant: str) -> tuple[int, int]:
        messages, size = self._counts.get(tenant, (0, 0))
        return messages, size

    def ends(self) -> tuple[int, ...]:
        """Return the offsets of the group logs below which all is counted."""
        for coordinator in self._groups:
            number = coordinator.journal.partition.number
            self._ends[number] = max(self._ends[number], coordinator.journal.durable_end)
        return tuple(self._ends)

    def _follow(self, coordinator: GroupCoordinator) -> None:
        coordinator.journal.on_kept.subscribe(self._note)

    def _closed(self, coordinator: GroupCoordinator) -> None:
        """Remember the end: what is still being written is counted when the log is opened again."""
        number = coordinator.journal.partition.number
        self._ends[number] = max(self._ends[number], coordinator.journal.durable_end)

    def _reopened(self, coordinator: GroupCoordinator) -> None:
        number = coordinator.journal.partition.number
        if self._groups.settings.is_replicated:
            self._ends[number] = coordinator.journal.durable_end
        for one in self._read(number):
            self._add(one.tenant, one.messages, one.size)
        self._follow(coordinator)

    def _note(self, record: GroupRecord) -> None:
        if type(record) is LeasesGranted and self._is_tenant(tenant := tenant_of(record.group)):
            self._add(tenant, record.messages, record.size)

    def _add(self, tenant: str, messages: int, size: int) -> None:
        found = self._counts.setdefault(tenant, [0, 0])
        found[0] += messages
        found[1] += size

    def _read(self, number: int) -> Iterator[Delivery]:
        """Yield the deliveries from the known end of a log on."""
        partition = self._groups.partitions[number]
        offset = max(self._ends[number], partition.log.first_offset)
        for record, place in _records(partition, offset):
            if isinstance(record, LeasesGranted) and (tenant := tenant_of(record.group)):
                yield Delivery(tenant, record.messages, record.size, number, place)
        if partition.log.fence is None:  # otherwise it is counted when the log was repaired
            self._ends[number] = partition.log.durable_end


def _records(partition: Partition, offset: int) -> Iterator[tuple[GroupRecord, int]]:
    """Yield the durable records of a log from an offset on; damaged ones are missing."""
    log = partition.log
    while offset < log.durable_end:
        try:
            read = log.read(offset, _READ_BYTES, skip_damage=True)
        except GoQueueError:  # a fenced log is counted when it was repaired
            return
        for buffer in read.buffers:
            for position in frame.walk(buffer):
                message = frame.decode(buffer, position)
                if not message.flags & frame.CONTROL:
                    yield decode_group_record(message), message.offset
        if read.next_offset == offset:
            return
        offset = read.next_offset
