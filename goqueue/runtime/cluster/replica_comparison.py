"""Compares replicas: their digests of whole blocks of offsets, once the scrub has read a log that is led here.

Where digests differ, both sides read the messages again. What is damaged at one of them is repaired there. Sound
messages that differ have one offset and two contents, which no rule of replication allows: that is told, and nothing
is overwritten.
"""

import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from goqueue.cluster.replication_messages import BlocksDiffer, CompareBlocks
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.replica_owner import ReplicaOwner
from goqueue.runtime.cluster.replica_repair import LEVEL, RepairingNode, ReplicaRepair
from goqueue.runtime.scrub_runner import ScrubRunner
from goqueue.storage.log import Log
from goqueue.storage.scrub import BLOCK_OFFSETS
from goqueue.storage.segment_repair import FetchedRange

_log = logging.getLogger("goqueue.cluster")

_DIGEST = struct.Struct(">QI")
_BLOCKS_AT_ONCE = 4096
_DIFFERENCES_MAX = 100


@dataclass(frozen=True, slots=True)
class ReplicaDifference:
    """Sound messages that differ between this node and another one."""

    log: str
    node: str
    first_offset: int
    next_offset: int


class ReplicaComparison:
    """The comparisons of one node. Everything is called on the loop."""

    def __init__(self, owner: ReplicaOwner, node: RepairingNode, repair: ReplicaRepair, scrub: ScrubRunner) -> None:
        self.differences: dict[tuple[str, str, int], ReplicaDifference] = {}
        self.compared_blocks = 0
        """Blocks of other nodes that were compared here with those of this node."""
        self._owner, self._node, self._repair, self._scrub = owner, node, repair, scrub
        scrub.on_log.subscribe(self._scrubbed)

    def _replica_of(self, log: Log) -> LocalReplica | None:
        return next((one for one in self._node.local.values() if one.partition.log is log), None)

    def _scrubbed(self, log: Log) -> None:
        """Ask the followers of a log for blocks that differ."""
        replica = self._replica_of(log)
        if replica is None or replica.leader is None or self._node.feature_level < LEVEL:
            return
        digests = self._scrub.digests[log.name].known
        rows = [(block, digests[block]) for block in sorted(digests) if _end(block) <= replica.high_watermark]
        for start in range(0, len(rows), _BLOCKS_AT_ONCE):
            content = b"".join(_DIGEST.pack(*row) for row in rows[start : start + _BLOCKS_AT_ONCE])
            for node in replica.leader.followers:
                if (stream := self._owner.streams.get(node)) is not None:
                    stream.tell(CompareBlocks(replica.id, content))

    def asked(self, link: PeerLink, asked: CompareBlocks) -> None:
        """Compare the blocks of a leader with those of the last pass here."""
        replica = self._node.local.get(asked.log)
        found = None if replica is None else self._scrub.digests.get(replica.partition.log.name)
        if found is None:
            return
        known = found.known
        rows = [row for row in _rows(asked.content) if row[0] in known]
        self.compared_blocks += len(rows)
        differing = [block for block, digest in rows if known[block] != digest]
        if differing:
            link.send(BlocksDiffer(asked.log, tuple(differing[:_DIFFERENCES_MAX])))

    def differ(self, link: PeerLink, message: BlocksDiffer) -> None:
        """Read again what differs."""
        replica = self._node.local.get(message.log)
        if replica is not None:
            self._owner.run(self._settle(replica, link.node, message.blocks))

    async def _settle(self, replica: LocalReplica, node: str, blocks: tuple[int, ...]) -> None:
        for block in blocks:
            first, end = block * BLOCK_OFFSETS, _end(block)
            try:
                own = await self._repair.read_range(replica.id, first, end)
                other = await self._repair.fetch_from(node, replica.id, first, end)
            except GoQueueError as error:  # what is damaged is repaired where it is
                _log.warning("block %d of %s cannot be compared: %s", block, replica.partition.log.name, error)
                continue
            for offset in _differing(own, other):
                self._tell(replica, node, offset)
                break

    def _tell(self, replica: LocalReplica, node: str, offset: int) -> None:
        name = replica.partition.log.name
        end = _end(offset // BLOCK_OFFSETS)
        self.differences[name, node, end] = ReplicaDifference(name, node, offset, end)
        _log.critical("replicas of %s differ from offset %d on, here and at node %s", name, offset, node)


def _end(block: int) -> int:
    return (block + 1) * BLOCK_OFFSETS


def _rows(content: bytes) -> Iterator[tuple[int, int]]:
    yield from _DIGEST.iter_unpack(content[: len(content) // _DIGEST.size * _DIGEST.size])


def _differing(own: FetchedRange, other: FetchedRange) -> Iterator[int]:
    """Yield the offsets that both have with different frames."""
    mine = dict(own.by_offset())
    for offset, content in other.by_offset():
        if mine.get(offset, content) != content:
            yield offset
