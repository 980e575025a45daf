"""Key compaction: the newest message of every key stays where it is, and nothing else is lost."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.clock import NANOSECONDS
from goqueue.errors import DiskFailed, DiskFull, LogExists, LogFenced, RangeDamaged
from goqueue.storage import frame
from goqueue.storage.compaction import Compaction, plan_compaction
from goqueue.storage.compaction_progress import CompactionProgress, load_progress, raise_gaps
from goqueue.storage.log import Log
from goqueue.storage.reads import PendingRead
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import append, messages, offset_for_time, open_store, read_again, values

GRACE_SECONDS = 100


@pytest.fixture
def store(disk: FaultyDisk, clock: ManualClock) -> Store:
    return open_store(disk, clock, tail_bytes=1)


def publish(store: Store, log: Log, letters: str, size: int = 0) -> None:
    """One sealed segment: a letter is a key, a capital deletes it, `-` has none, `!` is a control record."""
    for letter in letters:
        value = b"%d" % log.next_offset + b"." * size
        if letter == "!":
            append(store, log, value, key=b"a", flags=frame.CONTROL)
        elif letter.isupper():
            append(store, log, b"", key=letter.lower().encode(), flags=frame.TOMBSTONE)
        else:
            append(store, log, value, key=None if letter == "-" else letter.encode())
    log.roll()
    store.flush()


def plan(log: Log, store: Store, *, keys_max: int | None = None) -> Compaction:
    resources = store.resources
    job = plan_compaction(log, resources.disk, now_ns=resources.clock.now_ns(), tombstone_grace_seconds=GRACE_SECONDS)
    if keys_max is not None:
        job.keys_max = keys_max
    return job


def compact(log: Log, store: Store, *, keys_max: int | None = None) -> Compaction:
    job = plan(log, store, keys_max=keys_max)
    job.run()
    job.apply()
    return job


def offsets(log: Log) -> list[int]:
    return [message.offset for message in messages(log)]


def test_compaction_keeps_the_newest_message_of_each_key(store: Store, log: Log) -> None:
    publish(store, log, "abcab")
    publish(store, log, "ca")
    job = compact(log, store)
    assert offsets(log) == [4, 5, 6]
    assert values(log) == [b"4", b"5", b"6"]
    assert job.messages_removed == 4
    assert (log.first_offset, log.next_offset) == (0, 7)


def test_compacted_messages_are_not_read_from_memory(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    log = store.create("t/0")
    publish(store, log, "aba")
    append(store, log, b"active", key=b"a")
    compact(log, store)
    assert values(log) == [b"1", b"2", b"active"]
    append(store, log, b"later")
    assert values(log)[-2:] == [b"active", b"later"]


def test_active_segment_is_not_compacted(store: Store, log: Log) -> None:
    publish(store, log, "ab")
    append(store, log, b"newer", key=b"a")
    active = log.active
    compact(log, store)
    assert log.active is active
    assert offsets(log) == [0, 1, 2]


def test_compaction_copies_messages_unchanged(store: Store, log: Log) -> None:
    headers = frame.encode_headers([("name", b"value")])
    append(store, log, b"old", key=b"k")
    append(store, log, b"new", key=b"k", headers=headers, priority=1, flags=frame.TRANSACTIONAL)
    log.roll()
    store.flush()
    before = messages(log)[1]
    compact(log, store)
    assert messages(log) == [before]


def test_tombstone_is_removed_after_the_grace_period(store: Store, log: Log, clock: ManualClock) -> None:
    publish(store, log, "ab")
    publish(store, log, "A")
    compact(log, store)
    assert [(message.offset, message.is_tombstone) for message in messages(log)] == [(1, False), (2, True)]
    clock.advance(GRACE_SECONDS + 1)
    compact(log, store)
    assert offsets(log) == [1]


def test_small_segments_are_joined(store: Store, log: Log) -> None:
    for _ in range(8):
        publish(store, log, "-", size=1500)
    compact(log, store)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    assert offsets(log) == list(range(8))


def test_fully_compacted_segment_is_empty_and_reads_skip_it(store: Store, log: Log) -> None:
    publish(store, log, "aaa")
    publish(store, log, "-", size=5000)
    publish(store, log, "a")
    compact(log, store)
    assert log.segments[0].size == 0
    assert offsets(log) == [3, 4]
    assert log.read(1, 100).next_offset == 4


def test_time_lookup_in_compacted_segments(store: Store, log: Log, clock: ManualClock) -> None:
    begin = clock.now_ns()
    for letters in ("ab", "-a", "b-"):
        publish(store, log, letters)
        clock.advance(10)
    compact(log, store)
    assert offsets(log) == [2, 3, 4, 5]
    assert [offset_for_time(log, begin + second * NANOSECONDS) for second in (0, 10, 11, 20, 21)] == [2, 2, 4, 4, 6]


def test_read_located_before_compaction_uses_the_old_segment(store: Store, log: Log) -> None:
    publish(store, log, "aaa")
    found = log.locate(0, 10_000)
    assert isinstance(found, PendingRead)
    compact(log, store)
    assert [frame.offset_at(view, place) for view in found.load().buffers for place in frame.walk(view)] == [0, 1, 2]
    assert offsets(log) == [2]


def test_compacted_segments_are_not_compared_again(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "aab")
    compact(log, store)
    assert load_progress(disk, log.directory) == CompactionProgress(clean=3, gaps=3)
    publish(store, log, "ba")
    compact(log, store)
    assert load_progress(disk, log.directory) == CompactionProgress(clean=5, gaps=5)
    assert offsets(log) == [3, 4]


def test_many_keys_are_compacted_in_steps(store: Store, log: Log, disk: FaultyDisk) -> None:
    for letters in ("abc", "abd", "bce", "aae"):
        publish(store, log, letters)
    steps = []
    while load_progress(disk, log.directory).clean < 12:
        compact(log, store, keys_max=1)
        steps.append(offsets(log))
    assert len(steps) == 4
    assert steps[-1] == [5, 6, 7, 10, 11]


def test_compaction_without_sealed_segments_writes_nothing(store: Store, log: Log, disk: FaultyDisk) -> None:
    append(store, log, b"x", key=b"a")
    operations = disk.operations
    compact(log, store)
    assert disk.operations == operations


# --- damage ---


def damaged(store: Store, log: Log, disk: FaultyDisk, letters: str, number: int) -> None:
    """A segment of which one message is damaged."""
    first = log.next_offset
    publish(store, log, letters, size=100)
    disk.flip(f"{log.directory}/{first:020d}.log", number * 139 + 60)


def test_damaged_segment_is_not_compacted(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "ab")
    damaged(store, log, disk, "aab", 1)
    publish(store, log, "ab")
    before = disk.read_file(f"{log.directory}/{2:020d}.log")
    compact(log, store)
    assert disk.read_file(f"{log.directory}/{2:020d}.log") == before
    with pytest.raises(RangeDamaged):
        messages(log)
    assert [message.offset for message in messages(log, skip=True)] == [2, 4, 5, 6]


def test_gaps_that_a_leader_has_sent_meanwhile_stay_noted(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "ab")
    damaged(store, log, disk, "aab", 1)
    publish(store, log, "ab")
    job = plan(log, store)
    job.interrupted = True
    job.run()
    job.apply()
    assert load_progress(disk, log.directory) == CompactionProgress(clean=0, gaps=7)
    raise_gaps(disk, log.directory, 100)
    job.interrupted = False

    job.run()
    job.apply()

    assert load_progress(disk, log.directory) == CompactionProgress(clean=2, gaps=100)


def test_tombstones_behind_damage_are_kept(store: Store, log: Log, disk: FaultyDisk, clock: ManualClock) -> None:
    publish(store, log, "xX")
    damaged(store, log, disk, "-k-", 1)
    publish(store, log, "K")
    clock.advance(GRACE_SECONDS + 1)
    for _ in range(2):
        compact(log, store)
        found = [(message.offset, message.is_tombstone) for message in messages(log, skip=True)]
        assert found == [(2, False), (4, False), (5, True)]
        assert load_progress(disk, log.directory).clean == 2


# --- a disk that refuses ---


def test_full_disk_during_compaction_keeps_old_segments(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "aab")
    disk.fail("write", errno.ENOSPC, path="*.cleaned")
    job = plan(log, store)
    with pytest.raises(DiskFull):
        job.run()
    job.apply()
    assert log.fence is None
    assert offsets(log) == [0, 1, 2]
    assert not [path for path in disk.paths() if path.endswith("cleaned")]
    compact(log, store)
    assert offsets(log) == [1, 2]


def test_interrupted_replacement_fences_the_log_until_reopened(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "aab")
    disk.fail("rename", path="*.cleaned")
    job = plan(log, store)
    with pytest.raises(DiskFailed):
        job.run()
    job.apply()
    with pytest.raises(LogFenced):
        append(store, log, b"x")
    with pytest.raises(LogFenced):
        plan(log, store)
    read_again(store, disk, "t/0")
    assert offsets(log) == [1, 2]
    assert append(store, log, b"x") == range(3, 4)


def test_replacements_before_a_failure_are_kept(store: Store, log: Log, disk: FaultyDisk) -> None:
    publish(store, log, "aa", size=1000)
    publish(store, log, "--", size=1800)
    publish(store, log, "bb", size=1000)
    disk.fail("sync", path=f"*/{4:020d}.cleaned")
    job = plan(log, store)
    with pytest.raises(DiskFailed):
        job.run()
    job.apply()
    assert offsets(log) == [1, 2, 3, 4, 5]
    assert log.fence is None
    assert offsets(open_store(disk.crash("synced")).logs["t/0"]) == [1, 2, 3, 4, 5]


# --- the twin ---

letters = st.text("abcABC-!", min_size=1, max_size=6)


@given(rounds=st.lists(st.lists(letters, min_size=1, max_size=4), min_size=1, max_size=4), wait=st.booleans())
def test_compaction_matches_naive_model(rounds: list[list[str]], wait: bool) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, tail_bytes=1)
    log = store.create("t/0")
    twin: dict[str, int] = {}
    others: list[int] = []
    for segments in rounds:
        for segment in segments:
            for offset, letter in enumerate(segment, log.next_offset):
                if letter in "-!":
                    others.append(offset)
                elif letter.isupper():
                    twin.pop(letter.lower(), None)
                else:
                    twin[letter] = offset
            publish(store, log, segment)
        if wait:
            clock.advance(GRACE_SECONDS + 1)
        compact(log, store, keys_max=3)
    found = messages(log)
    newest = {m.key.decode(): m for m in found if m.key and not m.flags & frame.CONTROL}
    assert {key: m.offset for key, m in newest.items() if not m.is_tombstone} == twin
    assert [m.offset for m in found if not m.key or m.flags & frame.CONTROL] == others
    assert messages(open_store(disk.crash("synced")).logs["t/0"]) == found


def test_compaction_without_new_messages_reads_nothing(store: Store, log: Log, clock: ManualClock) -> None:
    publish(store, log, "aabA")
    assert compact(log, store).messages_removed == 2
    before = store.resources.disk.operations  # type: ignore[attr-defined]
    clock.advance(GRACE_SECONDS / 2)
    compact(log, store)
    assert store.resources.disk.operations == before  # type: ignore[attr-defined]


def test_log_is_readable_between_run_and_apply(store: Store, log: Log) -> None:
    for letters in ("ab", "ac", "ad"):
        publish(store, log, letters)
    job = plan(log, store)
    job.run()
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    job.apply()
    assert offsets(log) == [1, 3, 4, 5]


def test_many_small_segments_are_compacted_in_several_runs(
    store: Store, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.storage.compaction.PINNED_SEGMENTS_MAX", 4)
    for _ in range(10):
        publish(store, log, "ab")
    job, runs = plan(log, store), 0
    while not job.is_done:
        job.run()
        job.apply()
        runs += 1
        assert offsets(log)[-2:] == [18, 19]
    assert runs > 2
    assert offsets(log) == [18, 19]


def test_log_allows_one_job_at_a_time(store: Store, log: Log) -> None:
    publish(store, log, "ab")
    job = plan(log, store)
    with pytest.raises(AssertionError, match="one job at a time"):
        plan_retention(log, store.resources.disk, bytes_kept=0)
    job.run()
    job.apply()
    plan_retention(log, store.resources.disk, bytes_kept=0)


def test_job_of_deleted_log_does_not_touch_its_successor(store: Store, log: Log) -> None:
    publish(store, log, "aab")
    expiry = plan_retention(log, store.resources.disk, bytes_kept=0)
    store.delete("t/0")
    with pytest.raises(LogExists, match="still being deleted"):
        store.create("t/0")
    expiry.run()
    expiry.apply()
    new = store.create("t/0")
    assert append(store, new, b"new") == range(1)
    assert values(new) == [b"new"]


def test_truncation_waits_for_a_running_job(store: Store, log: Log) -> None:
    publish(store, log, "aab")
    plan(log, store)
    with pytest.raises(AssertionError, match="waits for the end of the log's job"):
        truncate(log, store.resources.disk, 1)


def test_tombstones_without_key_and_in_control_records_are_kept(store: Store, log: Log, clock: ManualClock) -> None:
    append(store, log, b"", flags=frame.TOMBSTONE)
    append(store, log, b"", key=b"a", flags=frame.TOMBSTONE | frame.CONTROL)
    publish(store, log, "ab")
    clock.advance(GRACE_SECONDS + 1)
    compact(log, store)
    assert offsets(log) == [0, 1, 2, 3]
