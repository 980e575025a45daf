"""What becomes of a delayed log when its messages are settled: it must not grow for ever.

Segments at its beginning in which nothing is pending go. One that is mostly settled is written anew: of its messages
the pending ones stay, at their offsets, and of its records those that somebody still needs. A message of a
transaction that has not ended is kept as a pending one is; one of a transaction that was aborted is settled.

A record speaks of messages that stand before it. It may go once every message that it speaks of is gone, or says the
same by itself; else one that was delivered would be pending again. So

* segments are written anew from the oldest on, each durably before the next, and what decides about a message goes in
  the same step as the message, or later;
* a record that ends messages stays as long as it speaks of one in a segment that is left as it is, because most of it
  is pending or because it is damaged;
* a marker stays as long as any message that it speaks of does, whatever became of it: each of these begins as an
  undecided one, at a start as for those who read the log itself, and without its marker it would be one for ever;
* new deadlines of pending messages are told again before anything goes, in one record behind all others; then older
  records of new deadlines may go. So is the position from which the topic would be searched after a crash. That waits
  until no decision is on its way: what the disk refuses must not have taken the place of what stood.

A snapshot that is older than what goes is made anew before, or removed: it would have messages pending that nothing
speaks of any more. What is settled while this goes on counts as pending, and goes the next time.
"""

from dataclasses import dataclass, field

import numpy as np

from goqueue.broker.delay import records
from goqueue.broker.delay.columns import staying_records
from goqueue.broker.delay.delays import Delays
from goqueue.broker.delay.schedule import DELIVERED, Mask, among
from goqueue.broker.delay.wheel import NONE, Numbers
from goqueue.broker.upkeep import is_usable, note_producers
from goqueue.broker.work import Work
from goqueue.limits import DELAY_LIVE_SHARE, DELAY_RETOLD_MESSAGES
from goqueue.storage import frame
from goqueue.storage.compaction import Sealed, plan_winnowing
from goqueue.storage.disk import Disk
from goqueue.storage.retention import Expiry
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment

_PATIENCE = 20  # decisions that are waited for, before it is left for another time


@dataclass(slots=True)
class _Part:
    """A sealed segment."""

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
class _Unsettled:
    """The rule for what stays."""

    offsets: Numbers
    """Of messages."""
    chosen: set[int]
    left: list[tuple[int, int]] = field(default_factory=list)
    """The ranges of offsets of segments that are left as they are."""
    damaged: list[int] = field(default_factory=list)

    def applies_to(self, one: Sealed) -> bool:
        if one.segment.base_offset in self.chosen:
            return True
        self.left.append((one.segment.base_offset, one.next_offset))
        return False

    def leave(self, one: Sealed) -> None:
        self.left.append((one.segment.base_offset, one.next_offset))
        self.damaged.append(one.segment.base_offset)

    def staying(self, frames: Frames) -> Mask:
        stays: Mask = among(frames.offsets, self.offsets)
        control = (frames.flags & frame.CONTROL) != 0
        stays[control] = staying_records(frames, np.flatnonzero(control), self.left, self.offsets)
        return stays


def sweep(delays: Delays, disk: Disk) -> Work[None]:
    """One look at a delayed log: remove what may go."""
    log = delays.inbox.log
    if log.job is not None or not is_usable(log) or not log.sealed():
        return
    delays.inbox.lanes.forget_sealed()
    yield from delays.catch_up()
    if not _may_go(delays):
        return
    yield from note_producers(delays.inbox, disk)
    for _ in range(_PATIENCE):
        if not delays.deciding:
            break
        yield delays.settled()
    yield from delays.catch_up()  # a record is judged by what it has done
    parts = _parts(delays)
    front = _front(parts)
    chosen = {part.first for part in parts[len(front) :] if part.is_mostly_settled} - delays.damaged
    if delays.deciding or not (front or chosen):
        return
    rule = _Unsettled(delays.schedule.unsettled_offsets(0, parts[-1].end), chosen)
    yield from _tell_again(delays, parts[-1].end)
    if front:
        yield from _drop(delays, disk, front, rule)
    if chosen and is_usable(log):
        yield from delays.renew_snapshot(disk)
    if chosen and is_usable(log):
        yield from _winnow(delays, disk, parts[len(front) :], rule)


def _parts(delays: Delays) -> list[_Part]:
    log, schedule = delays.inbox.log, delays.schedule
    ends = [segment.base_offset for segment in log.segments[1:]]
    places = [(segment, segment.base_offset, end) for segment, end in zip(log.sealed(), ends, strict=False)]
    return [
        _Part(segment, end, schedule.unsettled_within(first, end), schedule.count_within(first, end))
        for segment, first, end in places
    ]


def _front(parts: list[_Part]) -> list[_Part]:
    """The oldest ones, in which all is settled."""
    count = next((number for number, part in enumerate(parts) if part.unsettled), len(parts))
    return parts[:count]


def _may_go(delays: Delays) -> bool:
    parts = _parts(delays)
    return not parts[0].unsettled or any(part.is_mostly_settled for part in parts if part.first not in delays.damaged)


def _tell_again(delays: Delays, end: int) -> Work[None]:
    """What older records say and is needed still, durably."""
    offsets, dues = delays.schedule.moved(end)
    step = DELAY_RETOLD_MESSAGES
    starts = range(0, len(offsets), step)
    told = [records.rescheduled(offsets[first : first + step], dues[first : first + step]) for first in starts]
    if delays.since is not None:
        told.append(records.settled(DELIVERED, NONE, delays.since))
    if told:
        yield delays.record(*told)
    yield from delays.catch_up()
    yield from delays.synced(delays.inbox, delays.inbox.log_end)


def _drop(delays: Delays, disk: Disk, front: list[_Part], rule: _Unsettled) -> Work[None]:
    segments = [part.segment for part in front]
    job = Expiry(delays.inbox.log, disk, segments, 0, sum(segment.size for segment in segments))
    delays.inbox.log.begin_job(job)
    try:
        yield job.run
    finally:
        job.apply()
    delays.schedule.forget(0, delays.inbox.earliest, rule.offsets)


def _winnow(delays: Delays, disk: Disk, parts: list[_Part], rule: _Unsettled) -> Work[None]:
    job = plan_winnowing(delays.inbox.log, disk, [part.segment for part in parts], rule)
    while not job.is_done:
        try:
            yield job.run
        finally:
            job.apply()
    delays.damaged.update(rule.damaged)
    for part in parts:
        if part.first in rule.chosen and part.first not in delays.damaged:
            delays.schedule.forget(part.first, part.end, rule.offsets)
