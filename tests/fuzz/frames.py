"""Any bytes at all, given to everything that reads frames.

`fuzz_one` holds what must be true of any input. `python -m tests.fuzz.frames --seconds 60` feeds it
mutations of real logs from a seed, which a failure prints; the suite does the same for a moment.
"""

import argparse
import secrets
import sys
import time
from collections.abc import Iterator
from random import Random

import numpy as np

from goqueue.errors import FrameInvalid
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.index import Index
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.testing.disk import FaultyDisk
from tests.storage.samples import KINDS, steps

SIZE_MAX = 20_000


def fuzz_one(data: bytes) -> None:
    """Everything that reads frames agrees on these bytes, stays within them, and raises nothing but `FrameInvalid`."""
    codecs_agree(data)
    batches_agree(data)
    surveys_agree(data)
    survey_of(data, index_of_any(data))


def codecs_agree(data: bytes) -> None:
    """The scanner takes what the plain codec takes, whatever help it is given."""
    places, end = steps(data, frame.measure)
    for place in places:
        message_or_refusal(data, place)
    candidates = np.array(places + list(range(0, len(data), 97)), np.int64)
    for entries in (None, np.array(places, np.int64), candidates):
        frames = scan.walk(bytearray(data), 0, entries)
        assert (frames.positions.tolist(), frames.end) == (places, end)
    chained = scan._chain(scan.as_bytes(data), 0)
    assert (chained.positions.tolist(), chained.end) == (places, end)


def message_or_refusal(data: bytes, place: int) -> None:
    try:
        message = frame.decode(data, place)
    except FrameInvalid:
        return  # its headers are malformed
    assert len(message.key or b"") + len(message.value) <= len(data)


def batches_agree(data: bytes) -> None:
    """A batch is taken whole or refused at the first place that the plain codec refuses, and never changed."""
    verified, end = steps(data, frame.verify)
    content = bytearray(data)
    assert batch_or_refusal(content) == (len(verified) if end == len(data) else FrameInvalid, end)
    assert scan.verify(scan.walk(content)) == len(verified)
    assert content == data


def batch_or_refusal(content: bytearray) -> tuple[int | type[FrameInvalid], int]:
    """Return the number of frames, or the refusal; and where it ends or goes wrong."""
    try:
        return len(scan.check_batch(content)), len(content)
    except FrameInvalid as refused:
        return FrameInvalid, refused.details["position"]


def surveys_agree(data: bytes) -> None:
    """Where the bytes are a log in order, a survey says the same."""
    verified, end = steps(data, frame.verify)
    offsets = [frame.offset_at(data, place) for place in verified]
    times = [frame.timestamp_at(data, place) for place in verified]
    found = survey_of(data, None)
    if end == len(data) and offsets == sorted({*offsets}) and times == sorted(times):
        assert found == verified or max(offsets + times) > OFFSET_MAX


def survey_of(data: bytes, index: Index | None) -> list[int]:
    """Where a survey finds frames; it ends, covers every byte once, and reads nothing outside."""
    disk = FaultyDisk()
    disk.write_file("/log", data)
    end, last, positions = 0, -1, []
    for piece in scan_segment(disk.open("/log", "read"), ScanRange(0, len(data), 0), index):
        start = piece.position if isinstance(piece, Damage) else piece.origin + int(piece.positions[0])
        assert start == end
        if isinstance(piece, Damage):
            assert piece.end > end
            end, last = piece.end, piece.next_offset - 1
            continue
        places = (piece.positions + piece.origin).tolist()
        for place in places:
            frame.verify(data, place)
            assert last < frame.offset_at(data, place)
            last = frame.offset_at(data, place)
        positions += places
        end = piece.origin + piece.end
    assert end == len(data)
    return positions


def index_of_any(data: bytes) -> Index:
    """Entries made of the bytes themselves: some may be true."""
    index = Index()
    for number, place in enumerate(range(0, len(data), 97)):
        index.add(number + data[place], place, number)
    return index


# --- inputs ---


def seeds() -> list[bytes]:
    """Where mutations begin: frames of all kinds, logs in order, values that look like frames."""
    in_order = [frame.encode(b"v" * (n * 7 % 90), b"k", offset=n, timestamp_ns=n + 1) for n in range(300)]
    forged = frame.encode(b"".join(in_order[40:44]), offset=40, timestamp_ns=41)
    kinds = list(KINDS.values())
    return [
        b"",
        b"GQ\x01",
        *kinds,
        b"".join(kinds),
        b"".join(in_order[:60]),
        b"".join([*in_order[:40], forged]),
        b"".join(in_order),
    ]


def mutated(random: Random, content: bytearray, others: list[bytes]) -> None:
    """One small change, of the kinds that find mistakes."""
    place = random.randrange(len(content) + 1)
    other = random.choice(others)
    match random.randrange(8):
        case 0 if content:
            content[place - 1] ^= 1 << random.randrange(8)
        case 1:
            del content[place:]
        case 2:
            del content[place : place + random.randrange(1, 50)]
        case 3:
            content[place:place] = other
        case 4:
            content[place : place + len(other)] = other
        case 5:
            content[place:place] = random.choice((b"GQ", b"GQ\x01", bytes(40), b"\xff" * 4, bytes(4096)))
        case 6 if content:
            field = random.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\xff\0\0", b"\x7f\xff", b"\x80"))
            start = random.choice(starts_of(content)) + random.randrange(34)
            content[start : start + len(field)] = field
        case _:
            for position in steps(content, frame.measure)[0]:  # right checksums let other lies pass
                frame.stamp(
                    content, position, frame.measure(content, position), random.randrange(300), random.randrange(9)
                )
    del content[SIZE_MAX:]


def starts_of(content: bytearray) -> list[int]:
    return scan.candidates(scan.as_bytes(content)).tolist() or [0]


def inputs(seed: int) -> Iterator[tuple[int, bytes]]:
    """Mutations without end, each with the seed that makes it again."""
    corpus = seeds()
    while True:
        random = Random(seed)
        content = bytearray(random.choice(corpus))
        for _ in range(random.randrange(1, 6)):
            mutated(random, content, corpus)
        yield seed, bytes(content)
        seed += 1


def run(seed: int, *, count: int | None = None, seconds: float = 0) -> int:
    """Try so many inputs, or for so long; the number of the tried."""
    end, tried = time.monotonic() + seconds, 0
    for number, content in inputs(seed):
        if tried == count or (count is None and time.monotonic() >= end):
            break
        try:
            fuzz_one(content)
        except BaseException as error:
            error.add_note(f"repeat with: python -m tests.fuzz.frames --seed {number} --count 1")
            raise
        tried += 1
    return tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--count", type=int, help="so many inputs, however long they take")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    chosen = parser.parse_args()
    tried = run(chosen.seed, count=chosen.count, seconds=chosen.seconds)
    sys.stdout.write(f"{tried} inputs from seed {chosen.seed} on, all as they should be\n")


if __name__ == "__main__":
    main()
