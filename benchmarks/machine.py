"""The limits of this machine, as a base for other figures.

Each is the plainest program that does the thing, so nothing built on it can be faster.
"""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from crc32c import crc32c

from benchmarks.harness.suite import Bench, Figure, Sample, Suite, measurement

MB = 1e6
MIB = 2**20
WRITE = "write 64 MiB, fdatasync"
SYNC = "append 4 KiB, fdatasync"
READ_DEVICE = "read, not in the page cache"
READ_CACHE = "read from the page cache"
CRC = "CRC-32C"
COPY = "copy memory"


@measurement(WRITE, Figure("MB/s"))
def write(bench: Bench) -> Iterator[Sample]:
    block = memoryview(bytearray(os.urandom(MIB)))
    count = bench.size(512, 64)
    while True:
        path = bench.room()
        with _created(path) as descriptor:
            begin = time.perf_counter()
            for number in range(count):
                os.pwrite(descriptor, block, number * MIB)
                if number % 64 == 63:
                    os.fdatasync(descriptor)
            yield count * MIB / MB / (time.perf_counter() - begin)
        os.unlink(path)


@measurement(SYNC, Figure("µs", less_is_better=True), Figure("µs", "99th of 100", less_is_better=True))
def sync(bench: Bench) -> Iterator[Sample]:
    block = os.urandom(4096)
    count = bench.size(1000, 200)
    while True:
        path = bench.room()
        with _created(path) as descriptor:
            times = []
            for number in range(count):
                begin = time.perf_counter()
                os.pwrite(descriptor, block, number * len(block))
                os.fdatasync(descriptor)
                times.append((time.perf_counter() - begin) * 1e6)
            yield statistics.median(times), statistics.quantiles(times, n=100)[-1]
        os.unlink(path)


@measurement(READ_DEVICE, Figure("MB/s"))
def read_device(bench: Bench) -> Iterator[Sample]:
    with _filled(bench, bench.size(512, 64)) as (descriptor, size):
        while True:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            yield _read_rate(descriptor, size)


@measurement(READ_CACHE, Figure("MB/s"))
def read_cache(bench: Bench) -> Iterator[Sample]:
    with _filled(bench, bench.size(512, 64)) as (descriptor, size):
        _read_rate(descriptor, size)
        while True:
            yield _read_rate(descriptor, size)


@measurement(CRC, Figure("MB/s"))
def checksum(bench: Bench) -> Iterator[Sample]:
    content = os.urandom(MIB)
    count = bench.size(2000, 200)
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            crc32c(content)
        yield count * MIB / MB / (time.perf_counter() - begin)


@measurement(COPY, Figure("MB/s"))
def copy(bench: Bench) -> Iterator[Sample]:
    source = np.frombuffer(os.urandom(64 * MIB), np.uint8)
    target = np.zeros_like(source)
    count = bench.size(20, 5)
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            np.copyto(target, source)
        yield count * len(source) / MB / (time.perf_counter() - begin)


@contextmanager
def _created(path: str) -> Iterator[int]:
    """A new file's descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _filled(bench: Bench, mebibytes: int) -> Iterator[tuple[int, int]]:
    """A file on the device, as descriptor and size."""
    block = os.urandom(MIB)
    with _created(bench.room()) as descriptor:
        for number in range(mebibytes):
            os.pwrite(descriptor, block, number * MIB)
        os.fsync(descriptor)
        yield descriptor, mebibytes * MIB


def _read_rate(descriptor: int, size: int) -> float:
    buffer = [memoryview(bytearray(MIB))]
    begin = time.perf_counter()
    for position in range(0, size, MIB):
        os.preadv(descriptor, buffer, position)
    return size / MB / (time.perf_counter() - begin)


SUITE = Suite.of("machine", sys.modules[__name__])
