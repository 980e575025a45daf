"""Many frames of a delayed log at once: which messages they are, when those are due, and what is recorded.

A header that says when stands at the beginning of its frame's headers, so sixteen bytes that are always the same can
be compared as two numbers. A frame with a producer's mark has it one place further, and takes the plain way.
"""

from collections.abc import Iterable

import numpy as np

from goqueue.broker.delay import records
from goqueue.broker.delay.news import News
from goqueue.broker.delay.schedule import PENDING, UNDECIDED, Mask
from goqueue.broker.delay.wheel import Numbers
from goqueue.delay import DELAYED_OF, DELIVER_AT, DELIVER_IN, HEADER_BYTES, PREFIX_BYTES, PREFIXES, due_of
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.marker import of_transactions
from goqueue.storage.scan import Frames

_COUNT_BYTES = len(frame.NO_HEADERS)
_WORDS = {
    name: (int.from_bytes(prefix[:8], "big"), int.from_bytes(prefix[8:], "big")) for name, prefix in PREFIXES.items()
}


def news_in(buffers: Iterable[memoryview]) -> News:
    """All that these frames tell."""
    found = [_news(scan.walk(buffer)) for buffer in buffers]
    return News(
        np.concatenate([one.offsets for one in found]),
        np.concatenate([one.dues for one in found]),
        np.concatenate([one.times for one in found]),
        np.concatenate([one.priorities for one in found]),
        np.concatenate([one.states for one in found]),
        [record for one in found for record in one.records],
    )


def _news(frames: Frames) -> News:
    control = (frames.flags & frame.CONTROL) != 0
    told = [records.decode(frame.decode(frames.buffer.data, at)) for at in frames.positions[control].tolist()]
    dues, times, priorities = dues_in(frames, ~control), frames.timestamps[~control], frames.priorities[~control]
    is_undecided = of_transactions(frames)[0][~control]
    states = np.where(is_undecided, np.uint8(UNDECIDED), np.uint8(PENDING))
    return News(frames.offsets[~control], dues, times, priorities, states, told)


def staying_records(frames: Frames, rows: Numbers, left: list[tuple[int, int]], staying: Numbers) -> Mask:
    """Which of these control records are needed where all messages in some ranges of offsets stay, and these ones.

    The end of a message in one of the ranges; of a transaction also where one of its messages stays by itself.
    """
    stays = np.zeros(len(rows), np.bool_)
    for place, position in enumerate(frames.positions[rows].tolist()):
        record = records.decode(frame.decode(frames.buffer.data, position))
        if isinstance(record, records.Rescheduled):
            continue
        stays[place] = any(bool(((record.firsts < end) & (record.ends > first)).any()) for first, end in left)
        if isinstance(record, records.Ended):
            stays[place] |= bool(
                (np.searchsorted(staying, record.firsts) < np.searchsorted(staying, record.ends)).any()
            )
    return stays


def dues_in(frames: Frames, chosen: Mask) -> Numbers:
    """When these are due; at once where they do not say."""
    positions, times = frames.positions[chosen], frames.timestamps[chosen]
    dues = times.copy()
    at, values = leading(frames, chosen, DELIVER_AT)
    dues[at] = values
    after, values = leading(frames, chosen, DELIVER_IN)
    dues[after] += values
    for row in np.flatnonzero(~(at | after)).tolist():  # behind a mark
        message = frame.decode(frames.buffer.data, int(positions[row]))
        due = due_of(message.headers, message.timestamp_ns)
        dues[row] = message.timestamp_ns if due is None else due
    return dues


def leading(frames: Frames, chosen: Mask, name: str) -> tuple[Mask, Numbers]:
    """Which of these frames have this one of our headers as their first, and what it says."""
    starts = header_starts(frames)[chosen]
    lengths = scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[frames.positions[chosen]]
    words, (one, two) = scan.column(frames.buffer, ">u8", 0), _WORDS[name]
    found = lengths >= _COUNT_BYTES + HEADER_BYTES
    found[found] = (words[starts[found]] == one) & (words[starts[found] + 8] == two)
    return found, words[starts[found] + PREFIX_BYTES].astype(np.int64)


def header_starts(frames: Frames) -> Numbers:
    """Where the first header of each frame begins, if it has one."""
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions]
    starts: Numbers = frames.positions + frames.key_lengths + values + (FRAME_HEADER_BYTES + _COUNT_BYTES)
    return starts


def readdress(frames: Frames, chosen: Numbers) -> None:
    """Have these begin with `__delayed_of`, where their headers say when they are due. The buffer is ours.

    None is a message of a transaction any more: how that ended is said in the delayed log alone.
    """
    scan.column(frames.buffer, "u1", frame.AT_FLAGS)[frames.positions] &= ~np.uint8(frame.TRANSACTIONAL)
    starts = header_starts(frames)[chosen]
    words, (one, two) = scan.column(frames.buffer, ">u8", 0), _WORDS[DELAYED_OF]
    words[starts], words[starts + 8] = one, two
    words[starts + PREFIX_BYTES] = frames.offsets[chosen]


def origins_in(buffers: Iterable[memoryview]) -> Numbers:
    """The offsets in the delayed log of those messages in a topic that were delivered."""
    found: list[Numbers] = [np.empty(0, np.int64)]
    for buffer in buffers:
        frames = scan.walk(buffer)
        found.append(leading(frames, np.ones(len(frames), np.bool_), DELAYED_OF)[1])
    return np.concatenate(found)
