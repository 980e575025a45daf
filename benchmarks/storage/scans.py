"""The passes over frames that everything else is made of, on one core."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import machine
from benchmarks.harness.suite import Bench, Best, Figure, Measurement, Sample, at_least, measurement
from benchmarks.storage.reads import READ_AND_CHECK
from benchmarks.storage.stock import FRAME_BYTES, LOG, MB, Stopwatch, encoded, make_log
from goqueue.limits import INDEX_BLOCK_BYTES, SCAN_CHUNK_BYTES
from goqueue.storage import scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, load_index
from goqueue.storage.segment_scan import ScanRange, scan_segment

RATE = "messages/s"
CHECK = Best((machine.CRC,), lambda checksum: checksum * MB / FRAME_BYTES)
Pass = Callable[[Frames], object]


def passes(name: str, figure: Figure, one: Pass, *, frames: int = SCAN_CHUNK_BYTES // FRAME_BYTES) -> Measurement:
    """A function over frames in memory."""

    @measurement(f"{name} {frames:,}", figure)
    def measure(bench: Bench) -> Iterator[Sample]:
        found = scan.check_batch(bytearray(encoded(frames, bench.random)))
        scan.stamp(found, 1, 1)
        count = max(1, bench.size(3_000_000, 300_000) // frames)
        one(found)
        while True:
            watch = Stopwatch()
            for _ in range(count):
                one(found)
            yield count * frames / watch.seconds()

    return measure


def _walk(frames: Frames) -> object:
    return scan.walk(frames.buffer)


def _walk_with_index(frames: Frames) -> object:
    blocks = frames.positions // INDEX_BLOCK_BYTES
    entries = frames.positions[np.flatnonzero(np.diff(blocks, prepend=-1))]
    return scan.walk(frames.buffer, 0, entries)


def _stamp(frames: Frames) -> None:
    scan.stamp(frames, 1_000_000, 1_700_000_000_000_000_000)


walk = passes("walk", Figure(RATE), _walk)
walk_indexed = passes("walk with an index", Figure(RATE), _walk_with_index)
verify = passes("verify", Figure(RATE, best=CHECK), scan.verify)
stamp = passes("stamp", Figure(RATE), _stamp)
walk_1_000 = passes("walk", Figure(RATE), _walk, frames=1_000)
verify_1_000 = passes("verify", Figure(RATE, best=CHECK), scan.verify, frames=1_000)
stamp_1_000 = passes("stamp", Figure(RATE), _stamp, frames=1_000)
walk_100 = passes("walk", Figure(RATE), _walk, frames=100)
verify_100 = passes("verify", Figure(RATE, best=CHECK), scan.verify, frames=100)
stamp_100 = passes("stamp", Figure(RATE), _stamp, frames=100)


def surveys(name: str, *, with_index: bool) -> Measurement:
    """A whole segment in the page cache: read, walked, verified, in order."""

    @measurement(name, Figure(RATE, budget=at_least(5_000_000), best=READ_AND_CHECK))
    def measure(bench: Bench) -> Iterator[Sample]:
        path, messages = bench.room(), bench.size(2_000_000, 400_000)
        make_log(path, messages, bench.random, segment_bytes=2**30)
        disk = SystemDisk()
        segment = Segment(f"{path}/logs/{LOG}", 0, messages * FRAME_BYTES)
        index = load_index(disk, segment) if with_index else None
        file = disk.open(segment.path, "read")
        while True:
            watch = Stopwatch()
            pieces = scan_segment(file, ScanRange(0, segment.size, 0), index)
            found = sum(len(piece) for piece in pieces if isinstance(piece, Frames))
            yield messages / watch.seconds()
            assert found == messages

    return measure


survey_plain = surveys("survey a segment", with_index=False)
survey_indexed = surveys("survey a segment with its index", with_index=True)
