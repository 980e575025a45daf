"""Retention and compaction of one partition, one step at a time, and the clock of retention.

A clock that is set ahead makes everything look old. So for one hour after a jump, only what is old without the jump
is removed freely, and of the rest at most a share of each topic. Monotonic time shows a jump while the broker runs.
At a start only the last known time is there, so a long downtime is treated like a jump.
"""

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from goqueue.broker.core.epochs import save_epochs
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import load_producers, save_followed_producers, save_producers
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.work import Promise, Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import CLOCK_JUMP_HOLD_SECONDS, CLOCK_JUMP_SECONDS
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import Disk, read_all, remove_files
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_retention
from goqueue.storage.transaction_index import AbortedRanges
from goqueue.storage.transaction_marker import OffsetRange

_HOUR_NS = 3600 * NANOSECONDS
NOTE = "clock"
"""The file in the data directory with the doubtful amount of time."""
_JUMP_NS = round(CLOCK_JUMP_SECONDS * NANOSECONDS)
_DOUBT_NS = round(CLOCK_JUMP_HOLD_SECONDS * NANOSECONDS)


@dataclass(slots=True)
class RetentionAllowance:
    """The bytes of one topic that retention may still remove by age while the clock is in doubt."""

    bytes_left: int
    is_used_up: bool = False
    """Whether something was kept because of the limit."""


class RetentionClock:
    """Wall time, and how far it may be ahead. The owner calls `look` regularly, and before anything is removed."""

    def __init__(self, clock: Clock, percent: int, *, last_seen_ns: int = 0, ahead_ns: int = 0) -> None:
        """`percent` of a topic may be removed although its age is in doubt; 100 trusts every clock.

        `last_seen_ns` is the last time that the data directory knows. `ahead_ns` is the doubt when the process
        before ended: it may have used its share, so there is none in this doubt.
        """
        self._clock = clock
        self.percent = percent
        self._offset_ns = self._steady_ns = clock.now_ns() - clock.monotonic_ns()
        """Wall time minus monotonic time: last seen, and without the doubtful jumps."""
        self._start_ns = 0
        """Nanoseconds in doubt since the start."""
        self._until_ns: int | None = None
        self._allowances: dict[str, RetentionAllowance] = {}
        self._is_share_gone = ahead_ns > 0
        self._saved_ns = ahead_ns
        """The doubt in the checkpoint file; 0: there is none."""
        ahead_ns = max(ahead_ns, clock.now_ns() - last_seen_ns if last_seen_ns else 0)
        if ahead_ns > _JUMP_NS and percent < 100:
            self._start_ns = ahead_ns
            self._until_ns = clock.monotonic_ns() + _DOUBT_NS

    def look(self) -> None:
        now_ns = self._clock.monotonic_ns()
        offset_ns = self._clock.now_ns() - now_ns
        if self._until_ns is not None and now_ns >= self._until_ns:
            self._until_ns, self._start_ns, self._steady_ns = None, 0, self._offset_ns
            self._allowances.clear()
            self._is_share_gone = False
        has_jumped = offset_ns - self._offset_ns > _JUMP_NS
        has_crept = self._until_ns is None and offset_ns - self._steady_ns > _JUMP_NS
        if (has_jumped or has_crept) and self.percent < 100:
            self._until_ns = now_ns + _DOUBT_NS
        if offset_ns < self._steady_ns:
            self._start_ns = max(0, self._start_ns - (self._steady_ns - offset_ns))
            self._steady_ns = offset_ns
        self._offset_ns = offset_ns

    @property
    def is_in_doubt(self) -> bool:
        return self._until_ns is not None

    @property
    def jumped_ns(self) -> int:
        """Nanoseconds by which the clock jumped while the broker ran, if still in doubt."""
        return self._offset_ns - self._steady_ns if self.is_in_doubt else 0

    @property
    def ahead_ns(self) -> int:
        """Nanoseconds by which wall time may be ahead."""
        return self.jumped_ns + self._start_ns

    def trusted_ns(self) -> int:
        self.look()
        return self._clock.now_ns() - self.ahead_ns

    @property
    def seconds_left(self) -> float:
        """Seconds until the wall clock is trusted again."""
        if self._until_ns is None:
            return 0.0
        return max(0.0, (self._until_ns - self._clock.monotonic_ns()) / NANOSECONDS)

    def allowance(self, topic: str, size: int) -> RetentionAllowance | None:
        """Return the allowance of a topic of this size, or None if nothing is in doubt. It stays the same until the
        doubt ends.
        """
        self.look()
        if not self.is_in_doubt:
            return None
        found = self._allowances.get(topic)
        if found is None:
            share = 0 if self._is_share_gone else size * self.percent // 100
            found = self._allowances[topic] = RetentionAllowance(share)
        return found

    def held_back(self) -> list[str]:
        """Return the topics of which something was kept because of the doubt."""
        return sorted(topic for topic, one in self._allowances.items() if one.is_used_up)

    def save(self, disk: Disk, path: str) -> Work[None]:
        """Check the clocks and record the doubt, so that a restart does not end it."""
        self.look()
        ahead_ns = self.ahead_ns
        if not ahead_ns and self._saved_ns:
            yield partial(_remove, disk, path)
            self._saved_ns = 0
        elif abs(ahead_ns - self._saved_ns) > _JUMP_NS:
            yield partial(write_checkpoint, disk, f"{path}/{NOTE}", ahead_ns=ahead_ns)
            self._saved_ns = ahead_ns


def read_clock_doubt(disk: Disk, path: str) -> int:
    """Return the nanoseconds that were in doubt when the data directory was last used."""
    try:
        content = read_all(disk, f"{path}/{NOTE}") if disk.kind(f"{path}/{NOTE}") == "file" else b""
    except GoQueueError:
        return 0
    ahead_ns = (decode_checkpoint(content) or {}).get("ahead_ns")
    return ahead_ns if isinstance(ahead_ns, int) and ahead_ns > 0 else 0


def _remove(disk: Disk, path: str) -> None:
    remove_files(disk, f"{path}/{NOTE}")
    disk.sync_directory(path)


def maintain_partition(
    partition: Partition,
    settings: TopicSettings,
    disk: Disk,
    now_ns: int,
    clock: RetentionClock | None = None,
    topic_bytes: int = 0,
) -> Work[None]:
    """Run one maintenance round: save producers, epochs and lanes, apply retention, compact.

    Producers are saved first, since their marks are removed with the messages. While `clock` is in doubt, only a
    share of the topic's bytes may be removed by age.
    """
    log, role = partition.log, partition.leadership
    if log.job is not None or not is_usable(log):
        return
    is_followed = role is not None and not role.is_leading
    if is_followed:
        yield from save_compacted_producers(partition, disk)
    with suppress(GoQueueError):  # a full disk needs the space that retention frees
        if not is_followed:
            yield from save_producers(partition, disk)
        yield from save_epochs(log, disk)
        if not is_internal(partition.topic):
            yield from partition.lanes.store(disk)
            yield from partition.aborted.store(disk)
    if role is not None and not role.is_leading:
        yield from _follow_start(partition, disk, role.log_start)
    elif "delete" in settings.cleanup and is_usable(log):
        yield from _expire(partition, settings, disk, now_ns, clock, topic_bytes)
    if "compact" in settings.cleanup and is_usable(log) and _sealed_end(log) != partition.compacted_end:
        yield from _compact_sealed(partition, disk, now_ns if clock is None else clock.trusted_ns())


def is_usable(log: Log) -> bool:
    return not log.is_closed and log.fence is None


def may_expire(log: Log, settings: TopicSettings, now_ns: int) -> bool:
    """Return whether retention may find something to remove."""
    if not (size := log.size):
        return False
    hours, most = settings.retention_hours, settings.retention_bytes
    oldest = log.segments[0].first_time or 0  # unknown for segments sealed before the start: the job finds out
    return (most is not None and size > most) or (hours is not None and oldest < now_ns - round(hours * _HOUR_NS))


def _expire(
    partition: Partition,
    settings: TopicSettings,
    disk: Disk,
    now_ns: int,
    clock: RetentionClock | None,
    topic_bytes: int,
) -> Work[None]:
    hours, size = settings.retention_hours, settings.retention_bytes
    log = partition.log
    if not may_expire(log, settings, now_ns):
        return
    before = now_ns - round(hours * _HOUR_NS) if hours is not None else 0
    allowance = None if clock is None or hours is None else clock.allowance(partition.topic, topic_bytes)
    job = plan_retention(
        log,
        disk,
        before_time=max(before, 0),
        bytes_kept=size,
        below=partition.removable_end,
        certain_before=None if clock is None or allowance is None else max(before - clock.ahead_ns, 0),
        doubtful_bytes=0 if allowance is None else allowance.bytes_left,
    )
    try:
        yield job.run
    finally:
        job.apply()
        if allowance is not None:
            allowance.bytes_left -= job.doubtful_removed
            allowance.is_used_up |= job.is_held_back


def _follow_start(partition: Partition, disk: Disk, start: int) -> Work[None]:
    """Remove the segments of a replica whose messages its leader has removed."""
    log = partition.log
    if not is_usable(log) or len(log.segments) < 2 or log.segments[1].base_offset > start:
        return
    job = plan_retention(log, disk, bytes_kept=0, below=start)
    try:
        yield job.run
    finally:
        job.apply()


@dataclass(frozen=True, slots=True)
class CompactionResult:
    size_before: int
    size_after: int
    messages_removed: int


def compact_partition(partition: Partition, disk: Disk, now_ns: int) -> Work[CompactionResult]:
    """Compact the whole partition now. Seals the active segment for that.

    The caller makes sure that no other job runs on the log.
    """
    log, durable = partition.log, Promise[None]()
    size = log.size
    if log.roll(durable):
        yield durable
    removed = yield from _compact_sealed(partition, disk, now_ns)
    return CompactionResult(size, log.size, removed)


def _compact_sealed(partition: Partition, disk: Disk, now_ns: int) -> Work[int]:
    """Compact the sealed segments; return the number of removed messages."""
    log = partition.log
    if not is_internal(partition.topic):
        yield from save_compacted_producers(partition, disk)
    aborted, offset = list[OffsetRange](), log.first_offset
    while offset < (end := _compactable_end(partition)):  # more may have become compactable meanwhile
        aborted += yield from partition.aborted.within(offset, end)
        offset = end
    sealed_end = _sealed_end(log)
    job = plan_compaction(log, disk, now_ns=now_ns, below=end, aborted=AbortedRanges.of(aborted))
    while not job.is_done:
        try:
            yield job.run
        finally:
            job.apply()
    if end >= sealed_end:
        partition.compacted_end = sealed_end
    return job.messages_removed


def save_compacted_producers(partition: Partition, disk: Disk) -> Work[None]:
    """Save all producers whose marks retention or compaction may remove, also those that arrive meanwhile."""
    while partition.producers_saved < _sealed_end(partition.log):
        if partition.leadership is not None and not partition.leadership.is_leading:
            yield from save_followed_producers(partition, disk)
            continue
        if partition.producers is None:
            yield from load_producers(partition, disk)
        yield from save_producers(partition, disk, even_none=True)


def _compactable_end(partition: Partition) -> int:
    """Return the end of the last sealed segment that may be removed entirely."""
    end, log, role = partition.removable_end, partition.log, partition.leadership
    if role is not None:
        end = min(end, role.common_end)
    bases = [segment.base_offset for segment in log.segments[: len(log.sealed()) + 1]]
    return bases[bisect_right(bases, end) - 1] if bases[0] <= end else 0


def _sealed_end(log: Log) -> int:
    return log.segments[len(log.sealed())].base_offset
