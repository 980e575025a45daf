"""The state of a partition in a cluster: its replicas, its leader, and the replicas in sync.

The controller decides, as records of the cluster's log; all nodes follow. Three numbers only rise:

* `leader_epoch` with each new leader, and when the leading process is a new one. Epoch frames in the log have it.
* `partition_epoch` with each record about the partition. A request to change the ISR names the one that it saw.
* The high watermark, which moves only while the ISR has `min_isr` replicas. So the replicas that were in the ISR when
  it became smaller than that still have all that is committed: these are the ELR.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class PartitionId(NamedTuple):
    """A partition of one life of a topic: a topic that is deleted and created again has another id."""

    topic_id: int
    """The creation time of the topic, in nanoseconds: unique in a cluster."""
    partition: int


DELAYED = 1 << 31
"""Added to the number of a partition, names its delayed log between nodes."""


def delayed_log_of(partition: PartitionId) -> PartitionId:
    """Return the id of the delayed log of a partition. The cluster's log knows the partition only."""
    return PartitionId(partition.topic_id, partition.partition | DELAYED)


def partition_of(log: PartitionId) -> PartitionId:
    """Return the partition that a log belongs to: itself, or the one whose delayed log it is."""
    return PartitionId(log.topic_id, log.partition & ~DELAYED)


class PartitionState(Struct, frozen=True, omit_defaults=True):
    """The state of one partition, complete."""

    replicas: tuple[str, ...]
    """Ids of nodes, the preferred leader first. While it moves, those that come and those that go are among them."""
    leader: str
    """Empty while there is none."""
    leader_epoch: int
    partition_epoch: int
    isr: tuple[str, ...]
    """In-sync replicas, in the order of `replicas`. The leader is one of them."""
    min_isr: int = 1
    """The high watermark moves only while so many replicas are in sync."""
    elr: tuple[str, ...] = ()
    """Eligible leader replicas: not in sync, and with all that is committed. Empty while the ISR has `min_isr`."""
    unclean_epoch: int = 0
    """The latest leader epoch that began with a replica that may lack committed messages; 0 if none did. Only then
    followers cut back what they know to be committed.
    """
    adding: tuple[str, ...] = ()
    """Replicas that come: not yet counted on, but for the ISR."""
    removing: tuple[str, ...] = ()
    """Replicas that go when all that come are in sync. Until then they are as the others."""

    @property
    def needed_level(self) -> int:
        """Return the feature level of this state."""
        return 2 if self.is_moving else 0

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def settled(self) -> tuple[str, ...]:
        """Return the replicas without those that come: what the partition has if the move is cancelled."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def is_under_replicated(self) -> bool:
        """Return whether replicas are not in sync that do not just come."""
        return not set(self.settled) <= set(self.isr)

    def next(
        self,
        *,
        leader: str,
        isr: Iterable[str],
        elr: Iterable[str] = (),
        min_isr: int | None = None,
        is_new: bool = False,
    ) -> "PartitionState":
        """Return the state that follows. A leader that stays keeps its epoch, unless its process `is_new`."""
        least = self.min_isr if min_isr is None else min_isr
        in_sync = self.ordered(isr)
        eligible = () if len(in_sync) >= least else tuple(one for one in self.ordered(elr) if one not in in_sync)
        return replace(
            self,
            leader=leader,
            leader_epoch=self.leader_epoch + (is_new or leader != self.leader),
            partition_epoch=self.partition_epoch + 1,
            isr=in_sync,
            min_isr=least,
            elr=eligible,
        )

    def ordered(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return these replicas in the order of `replicas`."""
        wanted = set(nodes)
        return tuple(one for one in self.replicas if one in wanted)
