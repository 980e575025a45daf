"""Removing whole segments that are too old or too many.

Where the clock is in doubt, what is old by it alone may only go up to a number of bytes.

The job is planned and finished on the owner's thread; what lies between touches files only and may
run on any. The oldest goes first, and its name is off the device before the next one goes: after a
crash the log begins where it began before, or later, and has no hole.
"""

from dataclasses import dataclass, field

from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.leader_epochs import EpochNote
from goqueue.storage.log import Log
from goqueue.storage.segment import Segment, last_time_of


@dataclass(slots=True)
class Retention:
    """Segments that may go, and what decides about it. `apply` is due after a `run` that raised as well."""

    log: Log
    disk: Disk
    candidates: list[Segment]
    before_time: int
    bytes_to_free: int
    certain_before: int | None = None
    """Segments that end before it are too old whatever the clock says; None: the clock is not in doubt."""
    doubtful_bytes: int = 0
    """How much may go that is too old by the clock alone."""
    doubtful_removed: int = 0
    is_held_back: bool = False
    """Whether something stayed that would have gone without the doubt."""
    removed: list[Segment] = field(default_factory=list)
    failure: GoQueueError | None = None
    """What left it open whether a segment that is gone stays gone: the log is fenced until it has been read again."""
    _ends: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        following = self.log.segments[1 : len(self.candidates) + 1]
        self._ends = [segment.base_offset for segment in following]

    def run(self) -> None:
        """Remove what has to go. On any thread."""
        freed = 0
        note: EpochNote | None = None
        for number, segment in enumerate(self.candidates):
            if freed + segment.size > self.bytes_to_free and not self._may_go_for_its_age(number):
                break
            if self.log.is_closed:
                return
            if not self.removed:
                note = EpochNote.load(self.disk, segment.directory)
            if note is not None:
                note.cover(self.disk, segment, self._ends[number])
            # The log goes last: should that fail, it can still be read.
            remove_files(self.disk, *segment.companions, segment.path)
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

    def _may_go_for_its_age(self, number: int) -> bool:
        if not self._is_older(number, self.before_time):
            return False
        if self.certain_before is None or self._is_older(number, self.certain_before):
            return True
        size = self.candidates[number].size
        if self.doubtful_removed + size > self.doubtful_bytes:
            self.is_held_back = True
            return False
        self.doubtful_removed += size
        return True

    def _is_older(self, number: int, time: int) -> bool:
        """Return whether all of a segment is older; an unreadable one is as new as the next."""
        for segment in self.candidates[number:]:
            if segment.last_time is None:
                segment.last_time = last_time_of(self.disk, segment)
            if segment.last_time:
                return segment.last_time < time
        return False


def plan_retention(
    log: Log,
    disk: Disk,
    *,
    before_time: int = 0,
    bytes_kept: int | None = None,
    below: int | None = None,
    certain_before: int | None = None,
    doubtful_bytes: int = 0,
) -> Retention:
    """Choose what retention may remove: messages older than a time and the oldest above a size, none from `below` on.

    With `certain_before`, of those that are not older than that at most `doubtful_bytes` go for their age.
    Only sealed segments go, so an active one whose messages are all old is sealed for the next time.
    """
    log.refuse_unless_open()
    if log.active.size and log.last_time < before_time:
        log.roll()
    excess = max(0, log.size - bytes_kept) if bytes_kept is not None else 0
    ends = [segment.base_offset for segment in log.segments[1:]]
    candidates = [one for one, end in zip(log.sealed(), ends, strict=False) if below is None or end <= below]
    job = Retention(log, disk, candidates, before_time, excess, certain_before, doubtful_bytes)
    log.begin_job(job)
    return job
