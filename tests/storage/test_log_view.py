"""A log as a visitor sees it: never more than a crash would leave, and what the next start would make of it."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import DirectoryEntry, Disk, Mode, SystemDisk, SystemFile
from goqueue.storage.flusher import FlushMode as Flush
from goqueue.storage.layout import find_logs
from goqueue.storage.log import Log
from goqueue.storage.log_view import LogView, SegmentView, view_log
from goqueue.storage.recovery import recover
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.store import Store
from goqueue.storage.swap import cleaned_path, commit_swap, content_path
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk, Keep
from tests.crash.life import Scenario, telling
from tests.crash.scenarios import SCENARIOS, crashes, writing_slowly
from tests.storage.stores import DATA, append, batch, open_store

DIRECTORY = f"{DATA}/logs/t/0"


def path(base: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base:020d}.{suffix}"


def held(disk: Disk, directory: str, view: LogView) -> list[int]:
    """The offsets of all messages in it."""
    found: list[int] = []
    for one in view.segments:
        file = disk.open(content_path(disk, directory, one.base_offset), "read")
        for piece in scan_segment(file, ScanRange(0, one.size, one.base_offset, one.next_offset)):
            if not isinstance(piece, Damage):
                found += piece.offsets.tolist()
    return found


def after_a_start(disk: FaultyDisk, directory: str) -> tuple[FaultyDisk, LogView]:
    """Return what recovery makes of a copy."""
    copy = disk.after_crash("everything")
    found = recover(copy, directory)
    ends = [segment.base_offset for segment in found.segments[1:]] + [found.next_offset]
    views = [SegmentView(one.base_offset, end, one.size) for one, end in zip(found.segments, ends, strict=True)]
    return copy, LogView(tuple(views))


def killed(*, flush: Flush = "always") -> tuple[FaultyDisk, Store]:
    """A log of several segments and a writer at work."""
    disk = FaultyDisk()
    store = open_store(disk, flush=flush, segment_bytes=4096)
    log = store.create("t/0")
    for number in range(12):
        append(store, log, b"%d" % number * 400, key=b"k")
    return disk, store


def every_nth(ends: Iterable[Any], share: int) -> Iterator[Any]:
    return islice(ends, 0, None, share)


# --- where no broker is at work ---


@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_view_equals_the_state_after_recovery(scenario: Scenario, keep: Keep) -> None:
    for how, ended, _ in crashes(scenario, every_nth, 7):
        disk = ended.crash(keep, torn=True)
        if disk.kind(f"{DATA}/logs") != "directory":
            continue
        for name in find_logs(disk, f"{DATA}/logs"):
            directory = f"{DATA}/logs/{name}"
            with telling(how, disk):
                operations = disk.operations
                seen = view_log(disk, directory, is_live=False)
                assert disk.operations == operations, "a visitor changes nothing"
                copy, recovered = after_a_start(disk, directory)
                assert (seen.earliest, seen.end) == (recovered.earliest, recovered.end)
                assert held(disk, directory, seen) == held(copy, directory, recovered)


def test_view_of_cleanly_stopped_log_is_complete() -> None:
    disk, store = killed()
    store.close()
    seen = view_log(disk, DIRECTORY, is_live=False)
    assert (seen.earliest, seen.end, held(disk, DIRECTORY, seen)) == (0, 12, list(range(12)))
    assert all(one.next_offset == other.base_offset for one, other in pairwise(seen.segments))


def test_view_omits_a_torn_write() -> None:
    disk, store = killed()
    store.close()
    (*_, last) = [name for name in disk.paths() if name.endswith(".log")]
    content = disk.read_file(last)
    disk.write_file(last, content + bytes(batch([b"whole"]).buffer)[:-1])
    assert view_log(disk, DIRECTORY, is_live=False).segments[-1].size == len(content)


def test_view_of_directory_without_segments_is_empty(disk: FaultyDisk) -> None:
    disk.make_directory(DIRECTORY)
    for is_live in (True, False):
        seen = view_log(disk, DIRECTORY, is_live=is_live)
        assert (seen.segments, seen.earliest, seen.end, seen.size) == ((), 0, 0, 0)


def test_view_end_includes_a_lost_last_segment() -> None:
    disk, store = killed()
    store.close()
    (*_, last) = [name for name in disk.paths() if name.endswith(".log")]
    disk.remove(last)
    seen = view_log(disk, DIRECTORY, is_live=False)
    assert seen.end == after_a_start(disk, DIRECTORY)[1].end == 12


# --- where a broker is at work ---


@pytest.mark.parametrize("flush", ["always", "interval"])
@pytest.mark.parametrize("scenario", [*SCENARIOS[:3], writing_slowly], ids=lambda one: one.__name__)
def test_viewed_messages_survive_power_loss(scenario: Scenario, flush: Flush) -> None:
    for how, ended, _ in crashes(scenario, every_nth, 9, flush=flush):
        now, later = ended.after_crash("everything"), ended.after_crash("synced")
        if now.kind(f"{DATA}/logs") != "directory":
            continue
        for name in find_logs(now, f"{DATA}/logs"):
            directory = f"{DATA}/logs/{name}"
            with telling(how, now):
                seen = view_log(now, directory, is_live=True)
                if later.kind(directory) != "directory":
                    assert seen.end == 0
                    continue
                copy, recovered = after_a_start(later, directory)
                assert seen.end <= recovered.end
                kept = [offset for offset in held(copy, directory, recovered) if offset < seen.end]
                first = max(seen.earliest, recovered.earliest)
                seen_offsets = [offset for offset in held(now, directory, seen) if offset >= first]
                assert scenario.__name__ == "compacting" or seen_offsets == [one for one in kept if one >= first]


def test_unsynced_messages_are_not_seen() -> None:
    disk, store = killed()
    before = view_log(disk, DIRECTORY, is_live=True)
    assert before.end == 12
    log = store.logs["t/0"]
    log.append(batch([b"waits"]))
    flusher = store.resources.flusher
    flusher._round(flusher._gathered(), sync=False)
    assert disk.read_file(path(before.segments[-1].base_offset))[before.segments[-1].size :].startswith(b"GQ")
    assert view_log(disk, DIRECTORY, is_live=True) == before
    store.flush()
    assert view_log(disk, DIRECTORY, is_live=True).end == 12 + 1


@pytest.mark.parametrize("left", [0, 1, 10, 23])
def test_torn_mark_is_ignored(left: int) -> None:
    disk, _ = killed()
    base = view_log(disk, DIRECTORY, is_live=True).segments[-1].base_offset
    index = disk.read_file(path(base, "index"))
    disk.write_file(path(base, "index"), index[: len(index) - 24 + left])
    seen = view_log(disk, DIRECTORY, is_live=True)
    assert seen.segments[-1] == SegmentView(base, base, 0)
    assert seen.end == base


class Meanwhile(SystemDisk):
    """A disk on which something happens while a visitor looks."""

    def __init__(self, happens: Callable[[str, str], None]) -> None:
        self._happens = happens

    def open(self, path: str, mode: Mode) -> SystemFile:
        self._happens("open", path)
        return super().open(path, mode)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """The first half as it was before it happened, and the second as it was afterwards."""
        before = super().entries(path)
        self._happens("entries", path)
        after = super().entries(path)
        middle = before[len(before) // 2].name
        return [entry for entry in before if entry.name < middle] + [entry for entry in after if entry.name >= middle]


def at_work(tmp_path: Path) -> tuple[Store, Log, str]:
    """The same log as `killed` has, on a real disk."""
    store = open_store(SystemDisk(), path=str(tmp_path / "d"), segment_bytes=4096)
    log = store.create("t/0")
    for number in range(40):
        append(store, log, b"%d" % number * 400, key=b"k%d" % (number % 9))
    return store, log, log.directory


def compact(log: Log) -> None:
    job = plan_compaction(log, SystemDisk(), now_ns=ManualClock().now_ns())
    while not job.is_done:
        job.run()
        for replacement in job.replacements:
            for segment in replacement.old:
                assert segment.pinned is not None
                segment.pinned.file.close()
        job.apply()


def test_mark_that_is_whole_at_the_second_read_is_used(tmp_path: Path) -> None:
    store, log, directory = at_work(tmp_path)
    index = Path(log.active.index_path)
    whole, looks = index.read_bytes(), count()

    def is_written(operation: str, path: str) -> None:
        if (operation, path) == ("open", str(index)):
            index.write_bytes(whole if next(looks) else whole[:-1])

    assert view_log(Meanwhile(is_written), directory, is_live=True).end == 40
    store.close()


def test_view_is_complete_during_compaction(tmp_path: Path) -> None:
    store, log, directory = at_work(tmp_path)
    runs = count()

    def is_compacted(operation: str, _: str) -> None:
        if operation == "entries" and not next(runs):
            compact(log)

    seen = view_log(Meanwhile(is_compacted), directory, is_live=True)
    assert seen == view_log(SystemDisk(), directory, is_live=True)
    assert len(seen.segments) == len(log.segments) < 10
    store.close()


def test_view_tolerates_a_swap_completed_meanwhile(tmp_path: Path) -> None:
    store, log, directory = at_work(tmp_path)
    bases = [segment.base_offset for segment in log.segments]
    swap = Path(f"{directory}/{0:020d}.swap")
    shutil.copy(log.segments[0].path, cleaned_path(directory, 0))
    commit_swap(SystemDisk(), directory, 0, bases[:1])
    Path(cleaned_path(directory, 0)).unlink()

    def is_carried_out(operation: str, path: str) -> None:
        if (operation, path) == ("open", str(swap)):
            swap.unlink()

    seen = view_log(Meanwhile(is_carried_out), directory, is_live=True)
    assert [one.base_offset for one in seen.segments] == bases
    store.close()
