"""Removes settled messages from a delayed log.

Old segments without pending messages are removed. A segment that is mostly settled is rewritten: pending messages
stay at their offsets, with the records that are still needed. Messages of an open transaction count as pending,
aborted ones as settled.

A record refers to messages before it. It may be removed when these messages are removed; otherwise a delivered one
would be pending again. Therefore:

* Segments are rewritten from the oldest on, each durably before the next. A record that settles a message is removed
  with the message, or later.
* A record that settles messages stays while it refers to one in a segment that is not rewritten.
* A control record of a transaction stays while any of its messages does: without it they would be undecided for ever.
* New delivery times of pending messages, and the search position in the topic, are recorded again at the end before
  anything is removed. That waits until no decision is under way.

An older snapshot is renewed or removed first: it would have removed messages pending. Messages settled meanwhile
count as pending until the next run.
"""

from dataclasses import dataclass, field

import numpy as np

from goqueue.broker.core.upkeep import is_usable, save_compacted_producers
from goqueue.broker.core.work import Work
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.records import encode_rescheduled, encode_settled, needed_records
from goqueue.broker.delay.schedule import DELIVERED, Mask, contained_in
from goqueue.broker.delay.timing_wheel import NONE, Numbers
from goqueue.limits import DELAY_LIVE_SHARE, DELAY_REWRITE_MESSAGES, OFFSET_MAX
from goqueue.storage import frame
from goqueue.storage.compaction import SealedSegment, plan_rewrite
from goqueue.storage.disk import Disk
from goqueue.storage.retention import Retention
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment

_PATIENCE = 20  # decisions to wait for before giving up until the next run


@dataclass(slots=True)
class _SegmentStats:
    segment: Segment
    end: int
    unsettled: int
    rows: int

    @property
    def first(self) -> int:
        return self.segment.base_offset

    @property
    def is_mostly_settled(self) -> bool:
        return self.rows > 0 and self.unsettled < DELAY_LIVE_SHARE * self.rows


@dataclass(slots=True)
class _KeepUnsettled:
    """The rewrite rule: keeps unsettled messages and needed records."""

    offsets: Numbers
    """Offsets of messages that stay."""
    chosen: set[int]
    left: list[tuple[int, int]] = field(default_factory=list)
    """Offset ranges of segments that are not rewritten."""
    damaged: list[int] = field(default_factory=list)

    def applies_to(self, one: SealedSegment) -> bool:
        if one.segment.base_offset in self.chosen:
            return True
        self.left.append((one.segment.base_offset, one.next_offset))
        return False

    def leave(self, one: SealedSegment) -> None:
        self.left.append((one.segment.base_offset, one.next_offset))
        self.damaged.append(one.segment.base_offset)

    def staying(self, frames: Frames) -> Mask:
        stays: Mask = contained_in(frames.offsets, self.offsets)
        control = (frames.flags & frame.CONTROL) != 0
        stays[control] = needed_records(frames, np.flatnonzero(control), self.left, self.offsets)
        return stays


def clean_delayed_log(delays: DelayedMessages, disk: Disk) -> Work[None]:
    log = delays.delayed_log.log
    if log.job is not None or not is_usable(log) or not log.sealed():
        return
    delays.delayed_log.lanes.forget_sealed()
    yield from delays.catch_up()
    if not delays.is_led:
        yield from _follow_front(delays, disk)
        return
    if not _has_removable(delays):
        return
    yield from save_compacted_producers(delays.delayed_log, disk)
    for _ in range(_PATIENCE):
        if not delays.deciding:
            break
        yield delays.settled()
    yield from delays.catch_up()  # records must be applied before they are judged
    parts = _parts(delays)
    settled = next((number for number, part in enumerate(parts) if part.unsettled), len(parts))
    front = parts[:settled]
    role = delays.delayed_log.leadership
    common_end = OFFSET_MAX if role is None else role.common_end  # a replica must not miss what was settled
    chosen = {part.first for part in parts[len(front) :] if part.is_mostly_settled and part.end <= common_end}
    chosen -= delays.damaged
    if delays.deciding or not (front or chosen):
        return
    rule = _KeepUnsettled(delays.schedule.unsettled_offsets(0, parts[-1].end), chosen)
    yield from _rewrite_needed_records(delays, parts[-1].end)
    if front:
        yield from _drop_segments(delays, disk, front, rule)
    if chosen and is_usable(log):
        yield from delays.renew_snapshot(disk)
    if chosen and is_usable(log):
        yield from _rewrite_segments(delays, disk, parts[len(front) :], rule)


def _follow_front(delays: DelayedMessages, disk: Disk) -> Work[None]:
    """Remove what the leader has removed from the front. A follower rewrites nothing: it records nothing."""
    role = delays.delayed_log.leadership
    front = [part for part in _parts(delays) if role is not None and part.end <= role.log_start and not part.unsettled]
    if front and not (role is not None and role.is_leading):
        yield from save_compacted_producers(delays.delayed_log, disk)
        yield from _drop_segments(delays, disk, front, _KeepUnsettled(NONE, set()))


def _parts(delays: DelayedMessages) -> list[_SegmentStats]:
    log, schedule = delays.delayed_log.log, delays.schedule
    ends = [segment.base_offset for segment in log.segments[1:]]
    places = [(segment, segment.base_offset, end) for segment, end in zip(log.sealed(), ends, strict=False)]
    return [
        _SegmentStats(segment, end, schedule.unsettled_within(first, end), schedule.count_within(first, end))
        for segment, first, end in places
    ]


def _has_removable(delays: DelayedMessages) -> bool:
    parts = _parts(delays)
    return not parts[0].unsettled or any(part.is_mostly_settled for part in parts if part.first not in delays.damaged)


def _rewrite_needed_records(delays: DelayedMessages, end: int) -> Work[None]:
    """Record again, durably, what older records say and is still needed."""
    offsets, dues = delays.schedule.moved(end)
    step = DELAY_REWRITE_MESSAGES
    starts = range(0, len(offsets), step)
    told = [encode_rescheduled(offsets[first : first + step], dues[first : first + step]) for first in starts]
    if delays.since is not None:
        told.append(encode_settled(DELIVERED, NONE, delays.since))
    if told:
        yield delays.record(*told)
    yield from delays.catch_up()
    yield from delays.delayed_log.synced(delays.delayed_log.log_end)


def _drop_segments(delays: DelayedMessages, disk: Disk, front: list[_SegmentStats], rule: _KeepUnsettled) -> Work[None]:
    segments = [part.segment for part in front]
    job = Retention(delays.delayed_log.log, disk, segments, 0, sum(segment.size for segment in segments))
    delays.delayed_log.log.begin_job(job)
    try:
        yield job.run
    finally:
        job.apply()
    delays.schedule.forget(0, delays.delayed_log.earliest, rule.offsets)


def _rewrite_segments(
    delays: DelayedMessages, disk: Disk, parts: list[_SegmentStats], rule: _KeepUnsettled
) -> Work[None]:
    job = plan_rewrite(delays.delayed_log.log, disk, [part.segment for part in parts], rule)
    while not job.is_done:
        try:
            yield job.run
        finally:
            job.apply()
    delays.damaged.update(rule.damaged)
    for part in parts:
        if part.first in rule.chosen and part.first not in delays.damaged:
            delays.schedule.forget(part.first, part.end, rule.offsets)
