"""Oracles: the properties that the replicas of partitions must have after each step."""

from bisect import bisect_right
from typing import TYPE_CHECKING

from goqueue.cluster.partitions import PartitionId, PartitionState
from tests.simulation.cluster.oracles import Entry
from tests.simulation.replication.disk_log import BEGIN, DiskLog

if TYPE_CHECKING:
    from tests.simulation.replication.data_node import DataNode
    from tests.simulation.replication.data_universe import DataUniverse


class DataOracles:
    """The history of all replicas, and the properties that it must have."""

    def __init__(self, universe: "DataUniverse") -> None:
        self.universe = universe
        self.require = universe.oracles.require
        self.committed: dict[PartitionId, list[Entry]] = {}
        """Everything that was ever below a high watermark."""
        self.committed_in: dict[PartitionId, list[int]] = {}
        """The leader epoch in which each was committed."""
        self.values: dict[PartitionId, set[object]] = {}
        self.contents: dict[tuple[PartitionId, int, int], tuple[object, int]] = {}
        """The value and the epoch before it, by partition, offset and epoch: nowhere are there ever two."""
        self.leaders: dict[tuple[PartitionId, int], tuple[str, int]] = {}
        """The process that leads in an epoch."""
        self.deleted: set[int] = set()
        """Topics that some node knows to be deleted."""
        self.states: dict[PartitionId, PartitionState] = {}
        self.moves = self.cuts = self.elections = self.acknowledged = self.isr_changes = self.resets = 0

    # --- logs ---

    def appends(self, node: "DataNode", log: PartitionId, disk: DiskLog, entries: tuple[Entry, ...]) -> None:
        before = disk.epoch_before(disk.end)
        for offset, entry in enumerate(entries, disk.end):
            first = self.contents.setdefault((log, offset, entry.epoch), (entry.value, before))
            self.require(
                first == (entry.value, before),
                f"offset {offset} of {log} has two contents in epoch {entry.epoch}: {first} and {entry.value, before}",
            )
            self.require(entry.epoch >= before, f"epochs fall at offset {offset} of {log} on {node.name}")
            before = entry.epoch

    def cuts_back(self, node: "DataNode", log: PartitionId, disk: DiskLog, end: int) -> None:
        self.cuts += 1
        self.require(end >= disk.high_watermark, f"{node.name} cuts {log} at {end}, below its high watermark")
        known = self.committed.get(log, [])
        for offset in range(max(end, disk.start), min(disk.end, len(known))):
            self.require(
                disk.at(offset) != known[offset], f"{node.name} cuts {log} at {end}: offset {offset} is committed"
            )

    def advances(self, node: "DataNode", log: PartitionId, disk: DiskLog, end: int) -> None:
        """The high watermark of a replica comes to this offset."""
        self.require(end >= disk.high_watermark, f"the high watermark of {log} falls at {node.name}")
        self.require(end <= disk.end, f"{node.name} shows what it does not have of {log}")
        known = self.committed.setdefault(log, [])
        for offset in range(max(disk.high_watermark, disk.start), min(end, len(known))):
            self.require(
                disk.at(offset) == known[offset],
                f"{node.name} shows {disk.at(offset)} at offset {offset} of {log}, and {known[offset]} is committed",
            )
        if end > len(known):
            self._commit(node, log, disk, end)

    def _commit(self, node: "DataNode", log: PartitionId, disk: DiskLog, end: int) -> None:
        known, values = self.committed[log], self.values.setdefault(log, set())
        epochs = self.committed_in.setdefault(log, [])
        for offset in range(len(known), end):
            entry = disk.at(offset)
            known.append(entry)
            epochs.append(disk.index.last_epoch)
            if entry.value != BEGIN:
                self.require(entry.value not in values, f"{entry.value} is committed twice in {log}")
                values.add(entry.value)
        last = known[-1]
        disks = [other.logs[log] for other in self.universe.data_nodes if log in other.logs]
        having = sum(one.index.durable_end >= end and (end <= one.start or one.at(end - 1) == last) for one in disks)
        if log.topic_id in self.deleted:
            return
        lost = len(self.universe.lost_nodes)
        self.require(
            having + lost >= node.state_of(log).min_isr, f"offset {end - 1} of {log} is on {having} disks only"
        )

    # --- leaders ---

    def leads(self, node: "DataNode", log: PartitionId, state: PartitionState, disk: DiskLog) -> None:
        key, process = (log, state.leader_epoch), (node.name, node.life)
        first = self.leaders.setdefault(key, process)
        self.require(first == process, f"epoch {state.leader_epoch} of {log} has two leaders: {first} and {process}")
        self.require(state.leader_epoch > disk.index.last_epoch, f"{node.name} begins epoch {state.leader_epoch} again")
        self.elections += 1
        known = self.committed.get(log, [])
        end = bisect_right(self.committed_in.get(log, []), state.leader_epoch)
        complete = disk.end >= end and (end <= disk.start or not end or disk.at(end - 1) == known[end - 1])
        self.require(complete, f"{node.name} leads {log} in epoch {state.leader_epoch} and lacks what is committed")

    def decided(self, log: PartitionId, state: PartitionState) -> None:
        """The cluster's log has another state of a partition; called by each node."""
        before = self.states.get(log)
        if before is None or state.partition_epoch > before.partition_epoch:
            self.states[log] = state
            if before is not None:
                self.isr_changes += before.isr != state.isr
                self.moves += before.is_moving and not state.is_moving
                is_next = state.partition_epoch == before.partition_epoch + 1
                if is_next and before.is_moving and not state.is_moving:
                    self.require(len(state.isr) >= state.min_isr, f"a move of {log} leaves {state.isr} in sync")
                for name in set(state.isr) - {*before.isr, *before.elr} - self.universe.lost_nodes:
                    self._require_all(log, name, "enters the ISR")
                self.require(state.leader_epoch >= before.leader_epoch, f"the leader epoch of {log} falls")
                moved = state.leader_epoch > before.leader_epoch
                self.require(moved or state.leader == before.leader, f"{log} has another leader in the same epoch")

    def admits(self, log: PartitionId, name: str) -> None:
        """The controller lets the process of a node that is registered and runs into the ISR."""
        if name not in self.states[log].isr:
            self._require_all(log, name, "is let into the ISR")

    def _require_all(self, log: PartitionId, name: str, event: str) -> None:
        known, disk = self.committed.get(log, []), self.universe.node(name).logs.get(log)
        end = len(known)
        has_all = not end or (
            disk is not None and disk.end >= end and (end <= disk.start or disk.at(end - 1) == known[end - 1])
        )
        self.require(has_all or log.topic_id in self.deleted, f"{name} {event} of {log} and lacks what is committed")

    # --- clients ---

    def acknowledges(self, node: "DataNode", log: PartitionId, offset: int, value: object) -> None:
        self.acknowledged += 1
        known = self.committed.get(log, [])
        right = offset < len(known) and known[offset].value == value
        self.require(right, f"{node.name} acknowledges {value} at offset {offset} of {log}, which is not committed")
