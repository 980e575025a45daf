"""What retention and compaction do to one partition, a step at a time, beside its traffic."""

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass

from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.retention_clock import RetentionClock
from goqueue.broker.topic import TopicSettings
from goqueue.broker.work import Promise, Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage.aborted import Aborted
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.marker import Range
from goqueue.storage.retention import plan_expiry

_HOUR_NS = 3600 * NANOSECONDS


def keep_up(
    partition: Partition,
    settings: TopicSettings,
    disk: Disk,
    now_ns: int,
    clock: RetentionClock | None = None,
    topic_bytes: int = 0,
) -> Work[None]:
    """One look at a partition: note its producers and lanes, remove what may go, compact what is new.

    The note comes first, since the marks of producers go with the messages that carry them. Where `clock` is in doubt,
    a share of the topic's bytes may go for its age.
    """
    log = partition.log
    if log.job is not None or not is_usable(log):
        return
    with suppress(GoQueueError):  # a full disk needs the room that retention makes
        yield from partition.save_producers(disk)
        if not is_internal(partition.topic):
            yield from partition.lanes.store(disk)
            yield from partition.aborted.store(disk)
    if "delete" in settings.cleanup and is_usable(log):
        yield from _expire(partition, settings, disk, now_ns, clock, topic_bytes)
    if "compact" in settings.cleanup and is_usable(log):
        yield from _compact(partition, disk, now_ns if clock is None else clock.trusted_ns())


def is_usable(log: Log) -> bool:
    return not log.is_closed and log.fence is None


def _expire(
    partition: Partition,
    settings: TopicSettings,
    disk: Disk,
    now_ns: int,
    clock: RetentionClock | None,
    topic_bytes: int,
) -> Work[None]:
    hours, size = settings.retention_hours, settings.retention_bytes
    before = now_ns - round(hours * _HOUR_NS) if hours is not None else 0
    log = partition.log
    oldest = log.segments[0].first_time or 0  # not known of what was sealed before the start: the job looks
    if not log.size or (oldest >= before and (size is None or log.size <= size)):
        return
    allowance = None if clock is None or hours is None else clock.allowance(partition.topic, topic_bytes)
    job = plan_expiry(
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


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction has left."""

    size_before: int
    size_after: int
    messages_removed: int


def compact(partition: Partition, disk: Disk, now_ns: int) -> Work[Compacted]:
    """All that there is now, whether much of it is new or not: the active segment is sealed for it.

    Nobody else has a job on the log meanwhile, as with `keep_up`.
    """
    log, durable = partition.log, Promise[None]()
    size = log.size
    if log.roll(durable):
        yield durable
    removed = yield from _compact_sealed(partition, disk, now_ns)
    return Compacted(size, log.size, removed)


def _compact(partition: Partition, disk: Disk, now_ns: int) -> Work[None]:
    if _sealed_end(partition.log) != partition.compacted_end:
        yield from _compact_sealed(partition, disk, now_ns)


def _compact_sealed(partition: Partition, disk: Disk, now_ns: int) -> Work[int]:
    """How many messages went."""
    log = partition.log
    if not is_internal(partition.topic):
        yield from note_producers(partition, disk)
    aborted, offset = list[Range](), log.first_offset
    while offset < (end := _compactable_end(partition)):  # while it was looked up, more may have become so
        aborted += yield from partition.aborted.within(offset, end)
        offset = end
    sealed_end = _sealed_end(log)
    job = plan_compaction(log, disk, now_ns=now_ns, below=end, aborted=Aborted.of(aborted))
    while not job.is_done:
        try:
            yield job.run
        finally:
            job.apply()
    if end >= sealed_end:
        partition.compacted_end = sealed_end
    return job.messages_removed


def note_producers(partition: Partition, disk: Disk) -> Work[None]:
    """All whose marks a compaction may take now, those that came during the last noting included."""
    while partition.producers_saved < _sealed_end(partition.log):
        if partition.producers is None:
            yield from partition.load_producers(disk)
        yield from partition.save_producers(disk, even_none=True)


def _compactable_end(partition: Partition) -> int:
    """Where the last sealed segment ends of which everything may be removed."""
    end, log = partition.removable_end, partition.log
    bases = [segment.base_offset for segment in log.segments[: len(log.sealed()) + 1]]
    return bases[bisect_right(bases, end) - 1] if bases[0] <= end else 0


def _sealed_end(log: Log) -> int:
    return log.segments[len(log.sealed())].base_offset
