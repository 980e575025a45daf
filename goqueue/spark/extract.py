"""A split as record batches: what Spark's workers do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_BYTES_MAX
from goqueue.spark.columns import FATES, batches
from goqueue.spark.delayed import fates_of
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import Outcomes
from goqueue.spark.reading import Broken, Removed, Run, Split, read
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames


@dataclass(frozen=True, slots=True)
class Extract:
    """Which columns are wanted, and whether what is lost ends the reading."""

    logs: Logs
    columns: tuple[str, ...]
    fails_on_loss: bool = True

    @property
    def reads_fates(self) -> bool:
        """Whether what is behind a split has to be read as well."""
        return not FATES.keys().isdisjoint(self.columns)

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        names = list(self.columns)
        tells_unsound = "crc_ok" in names
        fates = fates_of(self.logs, split, fails_on_loss=self.fails_on_loss) if self.reads_fates else None
        outcomes = Outcomes(self.logs, split, fails_on_loss=self.fails_on_loss)
        for piece in read(self.logs, split):
            match piece:
                case Run():
                    yield from batches(split.topic, split.partition, outcomes.judged(piece), names, fates=fates)
                case Broken() if tells_unsound:
                    for frames in self._unsound(split, piece):
                        run = outcomes.judged(Run(piece.segment, frames))
                        is_sound = _is_sound(frames)
                        yield from batches(split.topic, split.partition, run, names, sound=is_sound, fates=fates)
                case Broken() | Removed():
                    if self.fails_on_loss:
                        raise piece.error

    def _unsound(self, split: Split, broken: Broken) -> Iterator[Frames]:
        """Frames that a damaged range begins with, one by one: whole ones that fit there, as far as they chain."""
        position, damage = broken.damage.position, broken.damage
        opened = self.logs.open(split.topic, split.partition, broken.segment)
        buffer = np.empty(min(FRAME_BYTES_MAX, damage.end - position), np.uint8)
        try:
            while position < damage.end:
                found = opened.file.read(position, buffer[: damage.end - position].data)
                frames = replace(scan.walk(buffer[:found]), origin=position)
                if not len(frames):
                    return
                yield from _fitting(frames, max(damage.first_offset, split.first), min(damage.next_offset, split.end))
                position += frames.end
        finally:
            opened.file.close()


def _fitting(frames: Frames, first: int, end: int) -> Iterator[Frames]:
    """The frames whose offsets can be right, each alone."""
    offsets = frames.offsets
    for number in np.flatnonzero((offsets >= first) & (offsets < end)).tolist():
        chosen = frames.first(number + 1)
        yield replace(chosen, positions=chosen.positions[number:], lengths=chosen.lengths[number:])


def _is_sound(frames: Frames) -> bool:
    """Whether its checksum is right: a frame can be out of order, and whole."""
    try:
        return frame.verify(frames.buffer.data, int(frames.positions[0])) > 0
    except FrameInvalid:
        return False
