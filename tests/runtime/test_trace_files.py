"""Trace files: bounded, read back after a restart, and no obstacle."""

import logging

import pytest

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import TraceRecord
from goqueue.broker.tracing.selection import TraceSelection
from goqueue.runtime.trace_files import TraceFiles
from goqueue.testing.disk import FaultyDisk

REF = LogRef("orders", 0)


def records(first: int, count: int, topic: str = "orders") -> list[TraceRecord]:
    return [TraceRecord("consume.acked", topic, 0, one, one + 1, 1_000 + one) for one in range(first, first + count)]


def opened(disk: FaultyDisk, file_bytes: int = 10_000, files_bytes: int = 50_000) -> TraceFiles:
    files = TraceFiles(disk, "/data", file_bytes, files_bytes)
    files.open()
    return files


def offsets(files: TraceFiles, selection: TraceSelection, most: int = 10_000) -> list[int]:
    return [one.first for one in files.read(selection, most)]


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_directory("/data")
    return disk


def test_files_are_rotated_bounded_and_read_back_after_a_restart(disk: FaultyDisk) -> None:
    files = opened(disk)
    for first in range(0, 2_000, 10):
        files.write(records(first, 10))
    sizes = [disk.open(f"/data/traces/{one.name}", "read").size() for one in disk.entries("/data/traces")]
    assert len(sizes) > 3
    assert sum(sizes) == files.size <= 50_000
    assert max(sizes) < 11_000
    files.close()
    for again in (files, opened(disk)):
        found = offsets(again, TraceSelection())
        assert found == list(range(1_999, 1_999 - len(found), -1))
        assert len(found) > 400
        assert offsets(again, TraceSelection.of_message(REF, 1_990)) == [1_990]
        assert offsets(again, TraceSelection.of_message(REF, 10)) == []
        assert offsets(again, TraceSelection(start_ns=2_998), 5) == [1_999, 1_998]
        assert offsets(again, TraceSelection("other")) == []
    following = opened(disk)
    following.write(records(5_000, 1))
    assert offsets(following, TraceSelection(), 2) == [5_000, 1_999]


def test_torn_line_is_skipped(disk: FaultyDisk) -> None:
    files = opened(disk)
    files.write(records(0, 3))
    files.close()
    (entry,) = disk.entries("/data/traces")
    file = disk.open(f"/data/traces/{entry.name}", "write")
    file.truncate(file.size() - 9)
    file.close()
    again = opened(disk)
    again.write(records(3, 1))
    assert offsets(again, TraceSelection()) == [3, 1, 0]
    assert offsets(again, TraceSelection.of_message(REF, 2)) == []


def test_full_disk_costs_only_traces(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk(capacity_bytes=20_000)
    disk.make_directory("/data")
    files = opened(disk)
    with caplog.at_level(logging.WARNING):
        for first in range(0, 1_000, 10):
            files.write(records(first, 10))
    assert files.dropped > 0
    assert len(disk.entries("/data/traces")) < 5
    assert len([one for one in caplog.records if "traces cannot be written" in one.getMessage()]) == 1
    assert offsets(files, TraceSelection(), 1_000)[-1] == 0
