"""`goqueue fsck` from outside, on real directories that were damaged by hand."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.errors import DiskFull
from goqueue.storage import check, frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.transaction_index import NONE_ABORTED, SegmentTransactions, dump_aborted
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.testing.disk import FaultyDisk
from tests.forked import run
from tests.storage.stores import DATA, append, open_store, values

ROOT = Path(__file__).resolve().parent.parent.parent
LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"


def fsck(*words: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "goqueue", "fsck", *words], answer, cwd=ROOT, text=True)


def report(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fsck(*words, "-o", "json").stdout)
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for log in found["logs"] for finding in log["findings"]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two logs, stopped cleanly."""
    store = open_store(SystemDisk(), path=f"{tmp_path}/data", segment_bytes=1 << 20)
    for name in ("orders/0", "orders/1"):
        log = store.create(name)
        for number in range(20):
            append(store, log, *(b"%d" % number * 50 for _ in range(10)))
    store.close()
    return tmp_path / "data"


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_a_sound_directory_is_reported_and_ends_with_0(data: Path) -> None:
    done = fsck(str(data))
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split()[:3] == ["LOG", "SEGMENTS", "MESSAGES"]
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["orders/0", "orders/1"]
    assert "no damage" in done.stderr
    found = report(str(data))
    assert found["sound"] is True
    assert [(log["name"], log["messages"], log["next_offset"]) for log in found["logs"]] == [
        ("orders/0", 200, 200),
        ("orders/1", 200, 200),
    ]


def test_delayed_logs_and_what_is_kept_beside_segments_are_checked_as_all_else(data: Path) -> None:
    store = open_store(SystemDisk(), path=str(data), segment_bytes=4096)
    log = store.create("orders/0/delayed")
    for number in range(20):
        append(store, log, b"%d" % number * 300)
    store.close()
    first, *_, last = sorted((data / "logs/orders/0/delayed").glob("*.log"))
    first.with_suffix(".lanes").write_bytes(b"a cache")
    (first.parent / "schedule").write_bytes(b"another")
    found = report(str(data))
    assert [(log["name"], log["messages"]) for log in found["logs"]] == [
        ("orders/0", 200), ("orders/0/delayed", 20), ("orders/1", 200),
    ]  # fmt: skip
    assert (found["sound"], codes(found)) == (True, [])
    flip(last, 40)
    assert codes(report(str(data), "orders/0/*")) == ["range_damaged"]


def test_patterns_choose_logs_and_an_unknown_one_is_refused(data: Path) -> None:
    assert [log["name"] for log in report(str(data), "*/1")["logs"]] == ["orders/1"]
    done = fsck(str(data), "order")
    assert (done.returncode, done.stdout) == (5, "")
    assert "no log matches 'order'" in done.stderr


def test_damage_is_named_by_its_bytes_and_offsets_and_is_not_repaired(data: Path) -> None:
    path = data / "logs/orders/0" / LOG
    flip(path, 40)
    done = fsck(str(data))
    assert done.returncode == 1
    assert f"{path}: bytes 0 to 86, offset 0:" in done.stdout
    assert fsck(str(data), "--repair", "--yes").returncode == 1
    assert codes(report(str(data))) == ["range_damaged"]


def test_a_missing_segment_is_missing_messages(tmp_path: Path) -> None:
    store = open_store(SystemDisk(), path=str(tmp_path / "data"))
    log = store.create("t")
    for _ in range(60):
        append(store, log, b"x" * 200)
    store.close()
    segments = sorted((tmp_path / "data/logs/t").glob("*.log"))
    assert len(segments) > 2
    segments[1].unlink()
    assert "messages_missing" in codes(report(str(tmp_path / "data")))
    assert fsck(str(tmp_path / "data")).returncode == 1


def test_a_log_that_lost_its_synced_end_is_missing_messages(data: Path) -> None:
    path = data / "logs/orders/1" / LOG
    os.truncate(path, path.stat().st_size - 50)
    found = report(str(data), "orders/1")
    assert "messages_missing" in codes(found) or "range_damaged" in codes(found)
    assert found["sound"] is False


def test_what_a_crash_leaves_behind_is_no_damage_and_repair_clears_it(data: Path) -> None:
    directory = data / "logs/orders/0"
    with (directory / LOG).open("ab") as file:
        file.write(b"GQ\x01 a write that was torn")
    (directory / f"{INDEX}.tmp").write_bytes(b"half")
    (data / "logs/orders/1" / INDEX).unlink()
    assert fsck(str(data)).returncode == 0
    assert sorted(codes(report(str(data)))) == ["index_missing", "left_over", "tail_torn"]
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert codes(report(str(data))) == []
    assert len(values(open_store(SystemDisk(), path=str(data)).log("orders/0"))) == 200


def test_a_wrong_index_is_no_damage_and_repair_rebuilds_it(data: Path) -> None:
    path = data / "logs/orders/0" / INDEX
    right = path.read_bytes()
    flip(path, 20)
    done = fsck(str(data))
    assert done.returncode == 0
    assert "no damage, 1 cache to rebuild" in done.stdout + done.stderr
    assert codes(report(str(data))) == ["index_wrong"]
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert path.read_bytes() == right


def with_transactions(data: Path) -> Path:
    """A sealed segment with an aborted message, and what is known of it in a file; returns that."""
    store = open_store(SystemDisk(), path=str(data))
    log = store.create("t")
    append(store, log, b"never", flags=frame.TRANSACTIONAL)
    log.append(
        scan.check_batch(bytearray(b"".join(TransactionMarker(1, 0, is_commit=False, ranges=((0, 1),)).encode())))
    )
    log.roll()
    append(store, log, b"behind")
    store.close()
    store = open_store(SystemDisk(), path=str(data))
    assert run_work(Partition("t", 0, store.log("t")).aborted.within(0, 2)) == [(0, 1)]
    store.close()
    return data / f"logs/t/{0:020d}.aborted"


def test_what_is_known_of_aborted_messages_is_compared_with_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    path = with_transactions(data)
    assert path.exists()
    assert codes(report(str(data))) == []
    size = (data / f"logs/t/{0:020d}.log").stat().st_size
    path.write_bytes(dump_aborted(SegmentTransactions(NONE_ABORTED, is_plain=True), 0, 2, size))
    assert codes(report(str(data))) == ["aborted_wrong"]
    assert fsck(str(data)).returncode == 1
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert not path.exists()
    assert codes(report(str(data))) == []


def test_a_file_of_aborted_messages_that_is_not_whole_is_no_damage(tmp_path: Path) -> None:
    path = with_transactions(tmp_path / "data")
    path.write_bytes(path.read_bytes()[:20])
    assert codes(report(str(tmp_path / "data"))) == ["index_missing"]
    assert fsck(str(tmp_path / "data")).returncode == 0


@pytest.mark.parametrize(
    ("ranges", "problem"),
    [(((0, 9),), "speaks of messages behind it"), (((1, 1),), "do not rise"), (((1, 2), (0, 1)), "do not rise")],
)
def test_a_marker_that_says_what_cannot_be_is_found(tmp_path: Path, ranges: Any, problem: str) -> None:
    store = open_store(SystemDisk(), path=str(tmp_path / "data"))
    log = store.create("t")
    append(store, log, b"one", b"two", flags=frame.TRANSACTIONAL)
    log.append(scan.check_batch(bytearray(b"".join(TransactionMarker(1, 0, is_commit=True, ranges=ranges).encode()))))
    store.flush()
    store.close()
    found = report(str(tmp_path / "data"))
    assert codes(found) == ["marker_wrong"]
    assert problem in str(found)


def test_markers_that_disagree_are_found(tmp_path: Path) -> None:
    store = open_store(SystemDisk(), path=str(tmp_path / "data"))
    log = store.create("t")
    append(store, log, b"one", flags=frame.TRANSACTIONAL)
    for commits in (True, False):
        log.append(scan.check_batch(bytearray(b"".join(TransactionMarker(1, 0, commits, ((0, 1),)).encode()))))
    store.flush()
    store.close()
    assert codes(report(str(tmp_path / "data"))) == ["marker_wrong"]


def test_foreign_files_and_links_are_mentioned_and_left_alone(data: Path) -> None:
    (data / "logs/orders/0/notes.txt").write_text("mine")
    (data / "logs/orders/0/elsewhere").symlink_to(data)
    assert codes(report(str(data))) == ["file_foreign", "file_foreign"]
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert (data / "logs/orders/0/notes.txt").read_text() == "mine"


def test_nothing_is_changed_without_repair(data: Path) -> None:
    flip(data / "logs/orders/0" / LOG, 40)
    (data / "logs/orders/1" / INDEX).write_bytes(b"garbage")
    before = snapshot(data)
    fsck(str(data))
    after = snapshot(data)
    before.pop(str(data / "lock"))
    after.pop(str(data / "lock"))
    assert after == before


def test_repair_requires_yes_without_a_terminal(data: Path) -> None:
    (data / "logs/orders/1" / INDEX).unlink()
    before = snapshot(data / "logs")
    done = fsck(str(data), "--repair", answer="")
    assert done.returncode == 2
    assert "rebuild it from the log" in done.stderr
    assert "--yes" in done.stderr
    assert snapshot(data / "logs") == before


def test_many_processes_find_what_one_finds(tmp_path: Path) -> None:
    store = open_store(SystemDisk(), path=str(tmp_path / "data"), segment_bytes=16 << 20)
    log = store.create("t")
    for _ in range(70):
        append(store, log, b"x" * (1 << 20))
    store.close()
    flip(sorted((tmp_path / "data/logs/t").glob("*.log"))[1], 3_000_000)
    assert report(str(tmp_path / "data"), "--jobs", "1") == report(str(tmp_path / "data"), "--jobs", "2")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "the path of the directory is empty"),
        ("missing", "/missing does not exist"),
        ("file", "is not a directory"),
        ("empty", "is not a GoQueue data directory"),
        ("foreign", "is not a GoQueue data directory"),
    ],
)
def test_a_place_without_data_is_refused(tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "file").write_text("a file")
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign/etc").mkdir(parents=True)
    done = fsck(str(tmp_path / place) if place else "")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[0]
    assert ("\nhint: name a directory that a broker has used" in done.stderr) is said.endswith("data directory")


def test_a_directory_in_use_is_refused_and_names_who_uses_it(data: Path) -> None:
    store = open_store(SystemDisk(), path=str(data))
    done = fsck(str(data))
    store.close()
    assert done.returncode == 2
    assert "in use by this test" in done.stderr


# --- what a kill, a device and a person leave ---


@pytest.fixture
def rolled(tmp_path: Path) -> Path:
    """A data directory with a log of several segments, and one of another, stopped cleanly."""
    store = open_store(SystemDisk(), path=f"{tmp_path}/rolled")
    log, other = store.create("long"), store.create("short")
    for number in range(60):
        append(store, log, b"%d" % number * 100)
    append(store, other, b"x")
    assert len(log.segments) > 2
    store.close()
    return tmp_path / "rolled"


def verdict(data: Path) -> tuple[int, list[str]]:
    """Return the exit code and the findings."""
    return fsck(str(data)).returncode, codes(report(str(data)))


def newest(data: Path, suffix: str = "log") -> Path:
    return max((data / "logs/long").glob(f"*.{suffix}"))


def test_an_index_that_a_kill_left_behind_is_no_damage(data: Path) -> None:
    caches = [data / "logs/orders/0" / name for name in (INDEX, INDEX.replace("index", "timeindex"))]
    old = [path.read_bytes() for path in caches]
    store = open_store(SystemDisk(), path=str(data), segment_bytes=1 << 20)
    append(store, store.log("orders/0"), *(b"newer" * 20 for _ in range(200)))
    store.close()
    (data / "clean").unlink()
    for path, content in zip(caches, old, strict=True):
        path.write_bytes(content)
    assert verdict(data) == (0, ["index_missing", "index_missing"])
    assert fsck(str(data), "--repair", "--yes").returncode == 0
    assert verdict(data) == (0, [])


def spoiled(content: bytes) -> list[bytes]:
    """Return what a power failure may leave of a file that was not synced."""
    return [b"", content[:9], bytes(len(content)), b"\xff" * len(content)]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("number", range(4))
def test_an_index_that_a_loss_of_power_spoiled_is_no_damage(rolled: Path, suffix: str, number: int) -> None:
    path = (rolled / "logs/long" / INDEX).with_suffix(f".{suffix}")
    right = path.read_bytes()
    path.write_bytes(spoiled(right)[number])
    (rolled / "clean").unlink()
    code, found = verdict(rolled)
    assert code == 0
    assert set(found) <= {"index_wrong", "index_missing"}
    assert found
    assert fsck(str(rolled), "--repair", "--yes").returncode == 0
    assert path.read_bytes() == right


def test_a_wrong_mark_of_a_sealed_segment_is_a_wrong_index(rolled: Path) -> None:
    path = rolled / "logs/long" / INDEX
    right = path.read_bytes()
    for position in (-16, -9, -8, -1):
        path.write_bytes(right)
        flip(path, position)
        assert verdict(rolled) == (0, ["index_wrong"])
    assert fsck(str(rolled), "--repair", "--yes").returncode == 0
    assert path.read_bytes() == right


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_file_that_cannot_be_used_is_named_and_the_other_logs_are_checked(rolled: Path, suffix: str) -> None:
    (path := newest(rolled, suffix)).unlink()
    path.mkdir()
    done, found = fsck(str(rolled)), report(str(rolled))
    assert (done.returncode, codes(found)) == (1, ["file_unusable"])
    assert f"{path}: " in done.stdout
    assert [log["name"] for log in found["logs"]] == ["long", "short"]
    assert found["logs"][1]["messages"] == 1


def test_a_directory_in_place_of_the_newest_segment_is_damage(rolled: Path) -> None:
    (path := newest(rolled)).unlink()
    path.mkdir()
    code, found = verdict(rolled)
    assert code == 1
    assert "file_unusable" in found


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_newest_segment_that_is_gone_is_missing_messages(rolled: Path, with_index: bool, clean: bool) -> None:
    path = newest(rolled)
    path.unlink()
    if with_index:
        path.with_suffix(".index").unlink()
        path.with_suffix(".timeindex").unlink()
    if not clean:
        (rolled / "clean").unlink()
    code, found = verdict(rolled)
    if with_index and not clean:  # then it is unknown
        assert (code, found) == (0, [])
    else:
        assert code == 1
        assert "messages_missing" in found


def test_a_log_whose_directory_is_gone_is_missing_messages(rolled: Path) -> None:
    shutil.rmtree(rolled / "logs/long")
    done = fsck(str(rolled))
    assert done.returncode == 1
    assert f"{rolled}/logs/long: the log is gone; it went up to offset 60  [log_missing]" in done.stdout
    assert [log["messages"] for log in report(str(rolled))["logs"]] == [0, 1]


def test_a_link_to_a_log_is_not_followed(rolled: Path) -> None:
    (rolled / "logs/linked").symlink_to(rolled / "logs/long")
    assert [log["name"] for log in report(str(rolled))["logs"]] == ["long", "short"]
    assert fsck(str(rolled)).returncode == 0


def test_a_repair_that_the_disk_refuses_says_so() -> None:
    disk = FaultyDisk()
    store = open_store(disk)
    for _ in range(30):
        append(store, store.logs.get("t") or store.create("t"), b"x" * 400)
    index = store.log("t").segments[0].index_path
    store.close()
    disk.remove(index)
    directory = f"{DATA}/logs/t"
    tasks, strangers = check.plan_check(disk, "t", directory)
    found = check.summarize_log("t", directory, [check.check_segment(disk, task) for task in tasks], strangers, None)
    assert [finding.code for finding in found.findings] == ["index_missing"]
    disk.capacity_bytes = 0
    with pytest.raises(DiskFull):
        check.repair_log(disk, directory, found)
    disk.capacity_bytes = None
    check.repair_log(disk, directory, found)
    assert all(check.check_segment(disk, task).findings == [] for task in tasks)
