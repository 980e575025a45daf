"""The speed at which replicas catch up that are not in sync, so that live traffic goes on beside them.

What a replica in sync lacks is sent at once: publishes wait for it. The others are held back: replicas that come by a
reassignment by its throttle, all of them together by `cluster.catch_up_rate`. A reassignment that is paused sends
nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from goqueue.clock import NANOSECONDS
from goqueue.cluster.leader_replica import LeaderReplica
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.reassignment_records import Reassignment
from goqueue.storage.log import Log

_PAUSED_SECONDS = 0.25
"""Between two looks whether a reassignment goes on, or faster."""
_IDLE_NS = 30 * NANOSECONDS
"""Without a slice for so long, nothing is on its way."""
_RATE_NS = 2 * NANOSECONDS
"""How long bytes are counted for one rate."""


@dataclass(slots=True)
class Transfer:
    """The bytes that were sent to one replica that is not in sync."""

    rate: float = 0.0
    """Bytes of a second, of late."""
    progress_ns: int = 0
    """When something was sent to it last."""
    since_ns: int = 0
    bytes: int = 0
    """Sent since then."""

    def rate_at(self, now_ns: int) -> int:
        """Return the rate; 0 if nothing was sent for a while."""
        return round(self.rate) if now_ns - self.progress_ns < _IDLE_NS else 0


class CatchUp:
    """Decides for all connections of a node when the next slice may leave, and counts what was sent."""

    def __init__(self, state: Callable[[], ClusterState], now_ns: Callable[[], int], rate: int) -> None:
        """`rate`: bytes of a second to all replicas that are not in sync; 0: no limit."""
        self._state = state
        self._now_ns = now_ns
        self._rate = rate
        self._free_ns: dict[int, tuple[int, int]] = {}
        """When the next slice may be sent at which rate, by the number of the reassignment; 0: of all together."""
        self.transfers: dict[tuple[PartitionId, str], Transfer] = {}

    def wait_seconds(self, leader: LeaderReplica, node: str) -> float:
        """Return when to ask again whether a slice for this node may be sent; 0 if it may be now."""
        if node in leader.state.isr:
            return 0.0
        reassignment, now = self._reassignment(leader, node), self._now_ns()
        if reassignment is not None and reassignment.is_paused:
            return _PAUSED_SECONDS
        free_ns = self._free_at(0, self._rate)
        if reassignment is not None:
            free_ns = max(free_ns, self._free_at(reassignment.number, reassignment.throttle))
        return min(max(0, free_ns - now) / NANOSECONDS, _PAUSED_SECONDS)  # the throttle may be changed meanwhile

    def _free_at(self, number: int, rate: int) -> int:
        """Return when the next slice may be sent; 0 if the last one was sent at another rate."""
        free_ns, former = self._free_ns.get(number, (0, rate))
        return free_ns if former == rate else 0

    def sent(self, leader: LeaderReplica, node: str, size: int) -> None:
        """Count a slice."""
        if node in leader.state.isr:
            self.transfers.pop((leader.log, node), None)
            return
        reassignment, now = self._reassignment(leader, node), self._now_ns()
        rates = {0: self._rate, **({} if reassignment is None else {reassignment.number: reassignment.throttle})}
        for number, rate in rates.items():
            if rate:
                self._free_ns[number] = max(now, self._free_at(number, rate)) + size * NANOSECONDS // rate, rate
        transfer = self.transfers.setdefault((leader.log, node), Transfer(since_ns=now))
        transfer.bytes, transfer.progress_ns = transfer.bytes + size, now
        if now - transfer.since_ns >= _RATE_NS or not transfer.rate:
            transfer.rate = transfer.bytes * NANOSECONDS / max(now - transfer.since_ns, NANOSECONDS // 100)
        if now - transfer.since_ns >= _RATE_NS:
            transfer.since_ns, transfer.bytes = now, 0

    def _reassignment(self, leader: LeaderReplica, node: str) -> Reassignment | None:
        return self._state().reassignment_of(leader.log) if node in leader.state.adding else None

    def forget(self, log: PartitionId) -> None:
        """The log is not led here any more, or is at rest."""
        for key in [key for key in self.transfers if key[0] == log]:
            del self.transfers[key]


def bytes_from(log: Log, offset: int) -> int:
    """Return about how many bytes of a log are at this offset and behind it."""
    found = 0
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.next_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        share = (end - max(offset, segment.base_offset)) / max(end - segment.base_offset, 1)
        found += round(segment.size * min(max(share, 0.0), 1.0))
    return found
