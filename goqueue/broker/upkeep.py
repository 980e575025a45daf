"""What retention and compaction do to one partition, a step at a time, beside its traffic."""

from goqueue.broker.partition import Partition
from goqueue.broker.topic import TopicSettings
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_expiry

_HOUR_NS = 3600 * NANOSECONDS


def keep_up(partition: Partition, settings: TopicSettings, disk: Disk, now_ns: int) -> Work[None]:
    """One look at a partition: remove what may go, compact what is new, note its producers."""
    log = partition.log
    if log.job is not None or not _is_usable(log):
        return
    if "delete" in settings.cleanup:
        yield from _expire(partition, settings, disk, now_ns)
    if "compact" in settings.cleanup and _is_usable(log):
        yield from _compact(partition, disk, now_ns)
    if _is_usable(log):
        yield from partition.save_producers(disk)


def _is_usable(log: Log) -> bool:
    return not log.is_closed and log.fence is None


def _expire(partition: Partition, settings: TopicSettings, disk: Disk, now_ns: int) -> Work[None]:
    hours, size = settings.retention_hours, settings.retention_bytes
    before = now_ns - round(hours * _HOUR_NS) if hours is not None else 0
    log = partition.log
    is_too_large = size is not None and log.size > size
    if not is_too_large and (log.segments[0].first_time or now_ns) >= before:
        return
    job = plan_expiry(log, disk, before_time=max(before, 0), bytes_kept=size)
    try:
        yield job.run
    finally:
        job.apply()


def _compact(partition: Partition, disk: Disk, now_ns: int) -> Work[None]:
    sealed = len(partition.log.sealed())
    if sealed == partition.sealed_seen:
        return
    job = plan_compaction(partition.log, disk, now_ns=now_ns)
    while not job.is_done:
        try:
            yield job.run
        finally:
            job.apply()
    partition.sealed_seen = len(partition.log.sealed())
