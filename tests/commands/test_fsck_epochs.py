"""`goqueue fsck` on logs with leader epochs: what is right is not reported, and what cannot be is named."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from goqueue.broker.core.epochs import begin_epoch, load_epochs, save_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.storage import frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.epoch_frame import KEY, EpochFrame
from goqueue.storage.layout import write_checkpoint
from tests.commands.test_fsck import codes, fsck, report
from tests.storage.stores import append, open_store

DISK = SystemDisk()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with epochs in several segments, and a note that has some of them."""
    store = open_store(DISK, path=str(tmp_path), segment_bytes=300)
    log = store.create("orders/0")
    run_work(load_epochs(log, DISK))
    for epoch in (1, 2, 5, 6):
        append(store, log, *[b"value"] * 7)
        begin_epoch(Partition("t", 0, log), epoch, "node", 0, lambda _: None)
        store.flush()
        if epoch == 5:
            run_work(save_epochs(log, DISK))
    store.close()
    return tmp_path


def note_path(data: Path) -> str:
    return f"{data}/logs/orders/0/epochs"


def with_frames(data: Path, frames: Sequence[bytes]) -> None:
    store = open_store(DISK, path=str(data), segment_bytes=300)
    for one in frames:
        store.log("orders/0").append(scan.check_batch(bytearray(one)))
    store.flush()
    store.close()


def test_sound_epochs_are_not_reported_and_not_counted_as_messages(data: Path) -> None:
    found = report(str(data))
    assert codes(found) == []
    assert [log["messages"] for log in found["logs"]] == [28]


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([EpochFrame(6, "node", 0, 2).encode()], "epoch 6, which begins at offset 32, follows epoch 6"),
        ([frame.encode(b"", KEY, flags=frame.CONTROL)], "epoch frame at offset 32 is impossible"),
        ([EpochFrame(7, "n", 0).encode(), EpochFrame(3, "n", 0).encode()], "epoch 3, which begins at offset 33"),
    ],
)
def test_epoch_frame_that_cannot_be_is_named(data: Path, frames: list[bytes], problem: str) -> None:
    with_frames(data, frames)
    found = report(str(data))
    assert codes(found) == ["epoch_wrong"]
    assert problem in str(found)
    assert fsck(str(data)).returncode == 1


@pytest.mark.parametrize("rows", [[], [[1, 7], [2, 16], [5, 23]], [[1, 7], [2, 15], [4, 20], [5, 23]], [[9, 7]]])
def test_note_that_differs_from_its_log_is_emptied(data: Path, rows: list[list[int]]) -> None:
    write_checkpoint(DISK, note_path(data), offset=25, epochs=rows)
    assert set(codes(report(str(data)))) == {"epoch_wrong"}
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert codes(report(str(data))) == []
    store = open_store(DISK, path=str(data))
    assert run_work(load_epochs(store.log("orders/0"), DISK)).rows_below(0, 99) == [(1, 7), (2, 15), (5, 23), (6, 31)]
    store.close()


@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_note_that_is_damaged_or_missing_is_no_finding(data: Path, content: bytes | None) -> None:
    if content is None:
        Path(note_path(data)).unlink()
    else:
        Path(note_path(data)).write_bytes(content)
    assert codes(report(str(data))) == []
