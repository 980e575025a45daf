"""Replacing segments by one: a crash at any point leaves the old or the new."""

import pytest

from goqueue.storage.layout import decode_checkpoint, encode_checkpoint
from goqueue.storage.swap import apply_swap, cleaned_path, commit_swap, finish_swap, is_swap_committed
from goqueue.testing.disk import Crashed, FaultyDisk, Keep

DIRECTORY = "/data/logs/t/0"
BASES = [0, 5, 9]
KEEPS: list[Keep] = ["everything", "synced", "some"]


def path(base: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base:020d}.{suffix}"


def prepared(seed: int = 0) -> FaultyDisk:
    """Old segments with indexes, one more behind them, and a replacement whose content is synced."""
    disk = FaultyDisk(seed)
    for base in (*BASES, 12):
        for suffix in ("log", "index", "timeindex"):
            disk.write_file(path(base, suffix), b"old %d" % base)
    file = disk.open(cleaned_path(DIRECTORY, 0), "create")
    file.write(0, [b"new"])
    file.sync()
    return disk


def swap(disk: FaultyDisk) -> None:
    commit_swap(disk, DIRECTORY, 0, BASES)
    apply_swap(disk, DIRECTORY, 0, BASES)


def logs(disk: FaultyDisk) -> dict[int, bytes]:
    return {base: disk.read_file(path(base)) for base in (*BASES, 12) if disk.kind(path(base)) == "file"}


OLD = {base: b"old %d" % base for base in (*BASES, 12)}
NEW = {0: b"new", 12: b"old 12"}


def test_swap_replaces_segments_and_removes_their_indexes() -> None:
    disk = prepared()
    swap(disk)
    assert logs(disk) == logs(disk.after_crash("synced")) == NEW
    assert [name for name in disk.paths() if "index" in name] == [path(12, "index"), path(12, "timeindex")]
    assert not is_swap_committed(disk, DIRECTORY, 0)


@pytest.mark.parametrize("keep", KEEPS)
def test_crash_during_swap_leaves_old_or_new_segments(keep: Keep) -> None:
    for operation in range(1, 30):
        for seed in range(10):
            disk = prepared(seed)
            disk.crash_at(disk.operations + operation)
            try:
                swap(disk)
            except Crashed:
                left = disk.crash(keep, torn=True)
                finish_swap(left, DIRECTORY, left.entries(DIRECTORY))
                assert logs(left) in (OLD, NEW), (operation, seed)
                assert logs(left.after_crash("synced")) == logs(left)
                assert not [name for name in left.paths() if name.endswith(("swap", "cleaned", "tmp"))]


def test_interrupted_finish_can_be_repeated() -> None:
    for operation in range(1, 16):
        for again in range(1, 16):
            disk = prepared()
            commit_swap(disk, DIRECTORY, 0, BASES)
            for stop in (operation, again):
                disk.crash_at(disk.operations + stop)
                try:
                    finish_swap(disk, DIRECTORY, disk.entries(DIRECTORY))
                except Crashed:
                    disk = disk.crash("some")
                disk.end_faults()
            finish_swap(disk, DIRECTORY, disk.entries(DIRECTORY))
            assert logs(disk) == NEW


def test_undecided_replacement_is_removed() -> None:
    disk = prepared()
    assert finish_swap(disk, DIRECTORY, disk.entries(DIRECTORY))
    assert logs(disk) == OLD
    assert cleaned_path(DIRECTORY, 0) not in disk.paths()


def test_finish_swap_without_leftovers_writes_nothing() -> None:
    disk = prepared()
    disk.remove(cleaned_path(DIRECTORY, 0))
    operations = disk.operations
    assert not finish_swap(disk, DIRECTORY, disk.entries(DIRECTORY))
    assert disk.operations == operations


@pytest.mark.parametrize(
    "facts", [{"replaces": [5, 9]}, {"replaces": []}, {"replaces": None}, {"replaces": [0, "5"]}, {}, {"format": 2}]
)
def test_invalid_swap_note_removes_nothing(facts: dict[str, object]) -> None:
    disk = prepared()
    disk.write_file(path(0, "swap"), encode_checkpoint(facts))
    finish_swap(disk, DIRECTORY, disk.entries(DIRECTORY))
    assert logs(disk) == OLD


# --- the notes ---


def test_checkpoint_round_trips() -> None:
    assert decode_checkpoint(encode_checkpoint({"a": [1, None], "b": {"ü": "x\n"}})) == {
        "format": 1,
        "a": [1, None],
        "b": {"ü": "x\n"},
    }


def test_damaged_checkpoint_is_ignored() -> None:
    whole = encode_checkpoint({"clean": 12})
    for position in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            assert decode_checkpoint(bytes(flipped)) is None
        assert decode_checkpoint(whole[:position]) is None
    assert decode_checkpoint(whole + b"\n") is None


def test_checkpoint_of_another_format_is_ignored() -> None:
    assert decode_checkpoint(encode_checkpoint({"format": 2})) is None
