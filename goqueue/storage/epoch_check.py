"""Check that the epoch frames of a log rise, and that the note beside it says what they say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from goqueue.errors import FrameInvalid
from goqueue.storage.disk import Disk
from goqueue.storage.epoch_frame import EpochFrame, decode_epoch_frame, epoch_messages
from goqueue.storage.leader_epochs import NOTE, EpochNote
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment


class EpochFault(NamedTuple):
    """Something that does not agree."""

    path: str
    sentence: str
    is_note: bool = False


@dataclass(slots=True)
class SegmentEpochCheck:
    """The epoch frames of one segment, for `fsck`."""

    segment: Segment
    frames: list[tuple[int, EpochFrame]] = field(default_factory=list)
    """Each with its offset."""
    faults: list[EpochFault] = field(default_factory=list)

    def note(self, frames: Frames) -> None:
        """These are in it."""
        for message in epoch_messages(frames):
            try:
                self.frames.append((message.offset, decode_epoch_frame(message)))
            except FrameInvalid as error:
                self.faults.append(EpochFault(self.segment.path, error.sentence))

    def compare(self, disk: Disk, end: int) -> None:
        """Take the note beside the log into account, if there is one; the segment ends at this offset.

        The note may not speak of the last of them yet, and may speak of an epoch that is only named as the one before.
        """
        directory = self.segment.directory
        note = EpochNote.load(disk, directory)
        if note is None:
            return
        found = [(began.epoch, offset) for offset, began in self.frames if offset < note.offset]
        named = {began.previous for _, began in self.frames}
        told = [row for row in note.epochs.rows if self.segment.base_offset <= row[1] < min(end, note.offset)]
        if [row for row in told if row[0] not in named or row in found] != found:
            self.faults.append(EpochFault(f"{directory}/{NOTE}", "does not say what the log says", is_note=True))


def find_epoch_faults(checks: Sequence[SegmentEpochCheck]) -> Iterator[EpochFault]:
    """Yield what is wrong in a log with these segments."""
    for check in checks:
        yield from check.faults
    begun = [(check.segment.path, offset, began) for check in checks for offset, began in check.frames]
    for (_, _, last), (path, offset, began) in pairwise(begun):
        if began.epoch <= last.epoch:
            yield EpochFault(path, f"epoch {began.epoch}, which begins at offset {offset}, follows epoch {last.epoch}")
