"""When the messages of a delayed log are due, and what became of them: the broker's own table, made from the log.

What is recorded of a message stands somewhere behind it. So a task goes through its log twice: from its first offset
to the end for what is recorded, and then for its messages. In a delayed log nobody waits for a transaction that is
open: its own messages are not seen, and what stands behind them is.

What must stay true: the messages are read after the records. A broker at work sweeps its delayed logs: a record goes
after the messages that it ended, or with them, and a new deadline is told again behind all others before its record
goes; a marker goes after all messages that it speaks of. So records that were gone when their place was read speak of
messages that will not be found, or stand at the end; and the end is looked up again until no segment was replaced
since.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from goqueue.broker.delay.columns import news_in
from goqueue.broker.delay.news import apply
from goqueue.broker.delay.schedule import ABORTED, NEVER, STATE, STATES, UNDECIDED, Mask, Schedule
from goqueue.spark.logs.port import Logs
from goqueue.spark.reading import Broken, Run, Split, read
from goqueue.storage.scan import Bytes, Frames, Positions
from goqueue.storage.visit import LogView

_OF_TRANSACTIONS = ("undecided", "aborted")  # as whoever reads what is not committed is told
assert (len(STATES), len(STATES) + 1) == (UNDECIDED, ABORTED)


@dataclass(frozen=True, slots=True)
class Fates:
    """Deadlines and states of messages, by their offsets, which rise; a row behind all others is of none."""

    offsets: Positions
    dues: Positions
    states: Bytes

    @classmethod
    def of(cls, schedule: Schedule) -> "Fates":
        chunks = schedule.chunks
        return cls(
            np.concatenate([*(chunk.offsets for chunk in chunks), np.array([NEVER])]),
            np.concatenate([*(chunk.dues for chunk in chunks), np.zeros(1, np.int64)]),
            np.concatenate([*(chunk.states for chunk in chunks), np.zeros(1, np.uint8)]) & np.uint8(STATE),
        )

    def deliver_at(self, offsets: Positions) -> pa.Array:
        """Null where there is no sound message."""
        rows, absent = self._find(offsets)
        return pa.array(self.dues[rows] // 1000, pa.timestamp("us", "UTC"), mask=absent)

    def state(self, offsets: Positions) -> pa.Array:
        """The same."""
        rows, absent = self._find(offsets)
        return pa.array((*STATES, *_OF_TRANSACTIONS)).take(pa.array(self.states[rows], mask=absent))

    def _find(self, offsets: Positions) -> tuple[Positions, Mask]:
        rows = np.searchsorted(self.offsets, offsets)
        absent: Mask = self.offsets[rows] != offsets
        return rows, absent


def fates_of(logs: Logs, split: Split, *, fails_on_loss: bool) -> Fates:
    """Of the messages of a split, by all that is recorded when they are about to be read."""
    schedule, view = Schedule(), logs.view(split.topic, split.partition)
    first = max(split.first, view.earliest)
    while True:
        behind = replace(split, first=first, end=view.end, segments=view.segments)
        for frames in _sound(logs, behind, fails_on_loss=fails_on_loss):
            content = frames.buffer.data[int(frames.positions[0]) : frames.end]
            apply(schedule, news_in((content,)).of_messages_below(split.end))
        first, before = max(first, view.end), view
        view = logs.view(split.topic, split.partition)
        if _stands(before, view):
            return Fates.of(schedule)


def _sound(logs: Logs, split: Split, *, fails_on_loss: bool) -> Iterator[Frames]:
    """Damage can be of records; what was removed has taken the messages along that it spoke of."""
    for piece in read(logs, split):
        if isinstance(piece, Run):
            yield piece.frames
        elif isinstance(piece, Broken) and fails_on_loss:
            raise piece.error


def _stands(before: LogView, after: LogView) -> bool:
    """Whether all that was seen is there still: nothing was replaced or removed, and the last segment has grown."""
    if not before.segments:
        return True
    *sealed, active = before.segments
    return set(sealed) <= set(after.segments) and any(
        (one.base_offset, one.version) == (active.base_offset, active.version) and one.size >= active.size
        for one in after.segments
    )
