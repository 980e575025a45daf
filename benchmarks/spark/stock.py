"""A log like those of real shops: orders as JSON under the key of a customer, no two alike."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.limits import MIB
from goqueue.spark.sink.frames import MessageArrays, encode
from goqueue.storage import scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store, StoreSettings
from goqueue.testing.clock import ManualClock

TOPIC, PARTITIONS = "orders", 4
CUSTOMERS = 997
SEGMENT_BYTES = 64 * MIB
ONE_SEGMENT = 4095 * MIB
BATCH = 2_000
BATCH_SECONDS = 130.0
"""Between batches, so that sixteen million messages are three days."""
MEMORY_LESS = 2**20
FLUSH_BATCHES = 200
_NOTE_BYTES = 20


def make_log(path: Path, messages: int, *, partitions: int = PARTITIONS, segment_bytes: int = SEGMENT_BYTES) -> None:
    """A data directory as a broker leaves it at a clean stop, made without one."""
    random, clock = Random(1), ManualClock()
    log_settings = LogSettings(segment_bytes=segment_bytes, segment_age_ns=10**18)
    settings = StoreSettings(tail_bytes=MEMORY_LESS, log=log_settings)
    store = Store.open(SystemDisk(), str(path), clock, owner="a benchmark", settings=settings)
    logs = [store.create(f"{TOPIC}/{number}") for number in range(partitions)]
    for number, first in enumerate(range(0, messages, BATCH)):
        clock.advance(BATCH_SECONDS / partitions)
        logs[number % partitions].append(scan.check_batch(_frames(first, random)))
        if number % FLUSH_BATCHES == 0:
            store.flush()
    store.flush()
    store.close()


def _frames(first: int, random: Random) -> bytearray:
    """One batch, as a producer would send it: some 150 bytes for each message."""
    keys, values = columns(np.arange(first, first + BATCH), random)
    return bytearray(encode(MessageArrays(values, keys)).content)


def columns(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]", random: Random) -> tuple[pa.Array, pa.Array]:
    """Keys and values of the orders of these numbers."""
    keys = _joined("customer-", _text(numbers * 7919 % CUSTOMERS))
    notes = np.frombuffer(random.randbytes(_NOTE_BYTES * len(numbers)).hex().encode(), f"S{2 * _NOTE_BYTES}")
    values = _joined(
        '{"order": ',
        _text(numbers),
        ', "customer": "',
        keys.cast(pa.string()),
        '", "total": ',
        _text(numbers * 31 % 500),
        '.5, "note": "',
        pa.array(notes.astype("U")),
        '"}',
    )
    return keys, values


def _text(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _joined(*parts: object) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())
