"""The messages between replicas of a partition, on the connection of their nodes.

    follower                                 leader
    OpenReplica(end, last epoch)  ─────>
                                  <─────  ReplicaDiverged(epoch, end): cut and ask again
                                  <─────  ReplicaReset(base): empty it and ask again
                                  <─────  ReplicaOpened
                                  <─────  data, ...                     pushed in the turn of the append
    confirmations, credit         ─────>                                one for all logs of a flush
                                  <─────  high watermarks               where no data carries them

A replica whose log is damaged asks any other one for what it lacks: FetchRange, RangeFetched.

Messages of a connection arrive in their order, and none is lost while it stands. Data, confirmations and high
watermarks are packed by hand: they are many.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from msgspec import Struct

from goqueue.cluster.epoch_index import EpochRow
from goqueue.cluster.partitions import PartitionId


class OpenReplica(Struct, frozen=True, array_like=True, tag="open"):
    """A follower asks for the log from its own end on."""

    log: PartitionId
    leader_epoch: int
    """The epoch in which it follows."""
    session: int
    """Rises with each request of a follower; the answers repeat it."""
    broker_epoch: int
    """The registration of the follower's process."""
    end: int
    durable_end: int
    last_epoch: int
    partition_epoch: int = 0
    """The latest record about its partition that it knows, while it is a replica that comes."""


class ReplicaOpened(Struct, frozen=True, array_like=True, tag="opened"):
    """The logs agree up to the follower's end, and data follows from there."""

    log: PartitionId
    leader_epoch: int
    session: int
    high_watermark: int
    log_start: int


class ReplicaReset(Struct, frozen=True, array_like=True, tag="reset"):
    """The leader holds nothing of what the follower has: it empties its log, and asks again from `base` on."""

    log: PartitionId
    leader_epoch: int
    session: int
    base: int
    rows: tuple[EpochRow, ...]
    """The epoch that goes on at `base`."""


class ReplicaDiverged(Struct, frozen=True, array_like=True, tag="log_diverged"):
    """The greatest epoch of the leader that is not above the follower's last one, and where it ends."""

    log: PartitionId
    leader_epoch: int
    session: int
    epoch: int
    end: int


class ReplicaFenced(Struct, frozen=True, array_like=True, tag="fenced"):
    """The leader has this epoch. A follower of an older one waits for the cluster's log, one of the same asks again."""

    log: PartitionId
    leader_epoch: int


class DelayedLogBegun(Struct, frozen=True, array_like=True, tag="delayed_begun"):
    """A leader has a delayed log beside a partition: its followers make theirs, and ask for it."""

    needed_level: ClassVar[int] = 2

    log: PartitionId


class IsrChange(Struct, frozen=True, array_like=True, tag="isr_change"):
    """A leader asks the controller for another ISR."""

    log: PartitionId
    leader: str
    leader_epoch: int
    partition_epoch: int
    """That of the state which the leader saw: another one in between refuses this."""
    isr: tuple[tuple[str, int], ...]
    """Each node with the registration of the process that holds the replica; 0 for members that have not asked yet."""
    reason: str
    damaged: tuple[str, ...] = ()
    """Members that leave because their log is damaged: they are not eligible either."""


class ResignLeadership(Struct, frozen=True, array_like=True, tag="resign"):
    """A leader whose disk has failed asks the controller for another one, and leaves the ISR."""

    log: PartitionId
    leader: str
    leader_epoch: int
    reason: str
    is_damaged: bool = False
    """It has everything but what is damaged on its disk: it goes on if no other replica can lead."""


class RaiseEpoch(Struct, frozen=True, array_like=True, tag="raise_epoch"):
    """A leader whose log has a later epoch than the cluster knows asks for one above it.

    The log was there before the cluster: its node brought it, or it was restored from a backup of another cluster.
    """

    needed_level: ClassVar[int] = 2

    log: PartitionId
    leader: str
    leader_epoch: int
    last_epoch: int


class FetchRange(Struct, frozen=True, array_like=True, tag="fetch_range"):
    """Asks another replica for committed messages, to repair damage with them."""

    needed_level: ClassVar[int] = 2

    number: int
    log: PartitionId
    first: int
    end: int
    unclean_epoch: int = 0
    """The leader epoch of the last unclean election: before it, others may have committed other messages there."""


class RangeFetched(Struct, frozen=True, array_like=True, tag="range_fetched"):
    """The answer: the frames up to `next_offset`, which are not all that was asked for where that is much."""

    number: int
    log: PartitionId
    content: bytes
    next_offset: int
    gaps_below: int = 0
    """Compaction may have removed messages below this offset."""
    problem: str = ""
    """Why there are none."""


class CompareBlocks(Struct, frozen=True, array_like=True, tag="compare_blocks"):
    """A leader tells the digests of blocks of offsets; the follower answers if some are others."""

    needed_level: ClassVar[int] = 2

    log: PartitionId
    content: bytes
    """The number and the digest of each block."""


class BlocksDiffer(Struct, frozen=True, array_like=True, tag="blocks_differ"):
    """Blocks of which the follower has other digests."""

    log: PartitionId
    blocks: tuple[int, ...]


ReplicationMessage = (
    OpenReplica
    | ReplicaOpened
    | ReplicaReset
    | ReplicaDiverged
    | ReplicaFenced
    | FetchRange
    | RangeFetched
    | CompareBlocks
    | BlocksDiffer
    | DelayedLogBegun
)


class DataHeader(NamedTuple):
    """The fields before the frames of a data message."""

    log: PartitionId
    leader_epoch: int
    base: int
    """The end of the follower's log. The first frame may come later where compaction has removed some."""
    end: int
    high_watermark: int
    log_start: int
    common_end: int = 0
    """All replicas have everything below."""
    has_gaps: bool = False

    def encode(self) -> bytes:
        return _DATA.pack(*self.log, *self[1:])

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "DataHeader":
        topic, partition, *others = _DATA.unpack_from(content)
        return cls(PartitionId(topic, partition), *others)


class ReplicaPosition(NamedTuple):
    """A row of a confirmation (up to where the follower has the log) or of a message with high watermarks."""

    log: PartitionId
    leader_epoch: int
    end: int
    log_start: int = 0
    common_end: int = 0


_DATA = struct.Struct(">QIQQQQQQ?")
_POSITION = struct.Struct(">QIQQQQ")
DATA_HEADER_BYTES = _DATA.size


def encode_positions(positions: Iterable[ReplicaPosition]) -> bytes:
    return b"".join([_POSITION.pack(*one.log, *one[1:]) for one in positions])


def decode_positions(content: bytes | memoryview) -> Iterator[ReplicaPosition]:
    """Raises struct.error if it has not a whole number of rows."""
    for topic, partition, *others in _POSITION.iter_unpack(content):
        yield ReplicaPosition(PartitionId(topic, partition), *others)
