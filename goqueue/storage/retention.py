"""Removing whole segments that are too old or too many.

The job is planned and finished on the owner's thread; what lies between touches files only and may
run on any. The oldest goes first, and its name is off the device before the next one goes: after a
crash the log begins where it began before, or later, and has no hole.
"""

from dataclasses import dataclass, field

from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, discard
from goqueue.storage.log import Log
from goqueue.storage.segment import Segment, last_time_of


@dataclass(slots=True)
class Expiry:
    """Segments that may go, and what decides about it. `apply` is due after a `run` that raised as well."""

    log: Log
    disk: Disk
    candidates: list[Segment]
    before_time: int
    bytes_to_free: int
    removed: list[Segment] = field(default_factory=list)
    failure: GoQueueError | None = None
    """What left it open whether a segment that is gone stays gone: the log is fenced until it has been read again."""

    def run(self) -> None:
        """Remove what has to go. On any thread."""
        freed = 0
        for number, segment in enumerate(self.candidates):
            if freed + segment.size > self.bytes_to_free and not self._is_old(number):
                break
            if self.log.is_closed:
                return
            # The log goes last: should that fail, it can still be read.
            discard(self.disk, *segment.companions, segment.path)
            try:
                self.disk.sync_directory(segment.directory)
            except GoQueueError as error:
                self.failure = error
                raise
            self.removed.append(segment)
            freed += segment.size

    def apply(self) -> None:
        """Let the log forget them. On the owner's thread."""
        self.log.job = None
        if self.removed:
            self.log.replace_segments(self.removed, [])
        if self.failure is not None:
            self.log.fence_off(self.failure)

    def _is_old(self, number: int) -> bool:
        """Whether all of it is; what cannot be read is as new as what follows it."""
        for segment in self.candidates[number:]:
            if segment.last_time is None:
                segment.last_time = last_time_of(self.disk, segment)
            if segment.last_time:
                return segment.last_time < self.before_time
        return False


def plan_expiry(
    log: Log, disk: Disk, *, before_time: int = 0, bytes_kept: int | None = None, below: int | None = None
) -> Expiry:
    """What a log may lose: messages older than a time, and the oldest ones above a size; none from `below` on.

    Only sealed segments go, so an active one whose messages are all old is sealed for the next time.
    """
    log.refuse_unless_open()
    if log.active.size and log.last_time < before_time:
        log.roll()
    excess = max(0, log.size - bytes_kept) if bytes_kept is not None else 0
    ends = [segment.base_offset for segment in log.segments[1:]]
    candidates = [one for one, end in zip(log.sealed(), ends, strict=False) if below is None or end <= below]
    job = Expiry(log, disk, candidates, before_time, excess)
    log.begin_job(job)
    return job
