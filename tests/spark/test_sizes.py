"""Sizes against messages measured one by one."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.compression import decompress
from goqueue.limits import FRAME_HEADER_BYTES, MIB
from goqueue.spark.inspections.sizes import MessagePart, SizeCounts, measure_sizes, rounded
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.storage import frame
from tests.spark import naive
from tests.spark.stock import Sent, made, stocked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sizes_of(message: frame.StoredMessage) -> dict[MessagePart, int]:
    encoded = frame.encode_headers(message.headers)
    headers = 0 if encoded == frame.NO_HEADERS else len(encoded)
    key, value = len(message.key or b""), len(message.value)
    return {
        "frame": FRAME_HEADER_BYTES + key + value + len(encoded),
        "value": value,
        "key": key,
        "headers": headers,
    }


def test_all_parts_are_measured(spark: "SparkSession", tmp_path: Path) -> None:
    path = made(tmp_path / "data").path
    logs = DirectoryLogs.at(str(path))
    (found,), biggest = measure_sizes(spark, logs, make_plan(logs, TopicSelection()).splits(logs, split_bytes=4096), 4)
    placed = [
        (partition, segment, message)
        for partition in (0, 1)
        for segment, _, message in naive.frames(path, "orders", partition)
        if not message.flags & frame.CONTROL
    ]
    for part, sizes in found.parts.items():
        expected = Counter(sizes_of(message)[part] for _, _, message in placed)
        assert dict(zip(sizes.sizes.tolist(), sizes.counts.tolist(), strict=True)) == expected
    compressed = [message.value for _, _, message in placed if message.flags & frame.COMPRESSED]
    assert (found.compressed, found.stored_bytes) == (len(compressed), sum(map(len, compressed)))
    assert found.plain_bytes == sum(len(decompress(value)) for value in compressed)
    assert found.ratio == found.plain_bytes / found.stored_bytes
    largest = sorted((-sizes_of(message)["frame"], partition, message.offset, segment)
                     for partition, segment, message in placed)[:4]  # fmt: skip
    assert [(-one.size, one.partition, one.offset, one.segment) for one in biggest] == largest


def test_large_messages_are_measured_as_well(spark: "SparkSession", tmp_path: Path) -> None:
    with stocked(tmp_path / "data", partitions=1, count=7) as stock:
        stock.append("orders", Sent(bytes(100_000)), Sent(bytes(100_000)), Sent(bytes(2 * MIB + 1)))
    logs = DirectoryLogs.at(str(stock.path))
    (found,), biggest = measure_sizes(spark, logs, make_plan(logs, TopicSelection()).splits(logs), 1)
    assert found.parts["value"].sizes[-2:].tolist() == [100_000, 2 * MIB + 1024]
    assert found.parts["value"].counts[-2:].tolist() == [2, 1]
    assert biggest[0].size == 2 * MIB + 1 + FRAME_HEADER_BYTES + 2


@given(st.lists(st.integers(0, 5000), min_size=1), st.floats(0.01, 100))
def test_a_percentile_is_the_size_that_so_many_do_not_pass(sizes: list[int], share: float) -> None:
    found = SizeCounts(*map(np.asarray, np.unique(np.array(sizes, np.int64), return_counts=True)))
    value = found.percentile(share)
    assert value in sizes
    assert sum(size <= value for size in sizes) >= share * len(sizes) / 100 - 1e-6
    assert sum(size < value for size in sizes) < share * len(sizes) / 100 + 1e-6
    assert found.mean == pytest.approx(sum(sizes) / len(sizes))


@given(st.lists(st.integers(0, 5000), min_size=1))
def test_a_histogram_has_every_message_once(sizes: list[int]) -> None:
    found = SizeCounts(*map(np.asarray, np.unique(np.array(sizes, np.int64), return_counts=True)))
    steps = found.histogram()
    assert [count for *_, count in steps] == [sum(start <= size < end for size in sizes) for start, end, _ in steps]
    assert sum(count for *_, count in steps) == len(sizes)
    assert all(one[1] == other[0] for one, other in pairwise(steps))


def test_what_is_rounded_is_never_less_than_it_was() -> None:
    assert rounded(np.array([5, MIB, MIB + 1, MIB + 1025])).tolist() == [5, MIB, MIB + 1024, MIB + 2048]


def test_nothing_has_no_sizes() -> None:
    nothing = SizeCounts(np.empty(0, np.int64), np.empty(0, np.int64))
    assert (nothing.largest, nothing.mean, nothing.percentile(50), nothing.histogram()) == (0, 0.0, 0, [])
