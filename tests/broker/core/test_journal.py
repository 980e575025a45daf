"""The journal: what is recorded comes back, what is refused goes back, and the snapshot is only a cache."""

import errno
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import run_work
from goqueue.errors import DiskFailed, DiskFull, FilesExhausted, GoQueueError, LogClosed, LogFenced, MessageTooLarge
from goqueue.limits import SNAPSHOT_RECORDS, VALUE_BYTES_MAX
from goqueue.storage import frame, scan
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.storage.stores import Answers, open_store

Pair = tuple[str, str]
DAY_SECONDS = 24 * 3600


class Words:
    """A machine with a word for each name; an empty word is none."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.lost = 0

    def clear(self) -> None:
        self.known.clear()

    def note_loss(self, count: int) -> None:
        self.lost += count

    def apply(self, record: Pair) -> None:
        name, word = record
        self.known.pop(name, None)
        if word:
            self.known[name] = word

    def records(self) -> list[Pair]:
        return list(self.known.items())


def encode(record: Pair) -> bytes:
    name, word = record
    return frame.encode(word.encode(), name.encode(), flags=0 if word else frame.TOMBSTONE)


def decode(message: frame.StoredMessage) -> Pair:
    return (message.key or b"").decode(), message.value.decode()


class Writing:
    """A journal at work."""

    def __init__(self, disk: FaultyDisk | None = None, clock: ManualClock | None = None) -> None:
        self.disk = disk or FaultyDisk()
        self.clock = clock or ManualClock()
        self.store: Store = open_store(self.disk, self.clock, tail_bytes=1)
        self.log: Log = self.store.logs.get("words") or self.store.create("words")
        self.words = Words()
        self.journal: Journal[Pair] = Journal(Partition("words", 0, self.log), self.disk, self.words, encode, decode)
        self.journal.replay()

    def record(self, *records: Pair) -> None:
        done = Answers()
        self.journal.record(records, done)
        self.store.flush()
        assert done.given == [None]

    def after_crash(self) -> "Writing":
        return Writing(self.disk.after_crash("synced"), self.clock)

    @property
    def known(self) -> dict[str, str]:
        return self.words.known


def test_unsynced_record_applies_at_once_and_is_lost_in_a_crash() -> None:
    writing = Writing()
    writing.journal.record([("a", "apple")], Answers())
    assert writing.known == {"a": "apple"}
    assert writing.after_crash().known == {}


def test_full_disk_restores_the_state_before_the_callback() -> None:
    writing = Writing()
    writing.record(("a", "apple"))
    seen: list[tuple[GoQueueError | None, dict[str, str]]] = []
    writing.journal.record([("a", "axe"), ("b", "bear")], lambda error: seen.append((error, dict(writing.known))))
    writing.disk.fail("write", errno.ENOSPC)
    writing.store.flush()
    ((error, known),) = seen
    assert isinstance(error, DiskFull)
    assert known == {"a": "apple"}
    writing.record(("c", "cat"))
    assert writing.after_crash().known == {"a": "apple", "c": "cat"}


def test_state_is_restored_without_reading_the_failed_disk() -> None:
    writing = Writing()
    writing.record(("a", "apple"))
    writing = Writing(writing.disk.crash("everything"))
    done = Answers()
    writing.journal.record([("b", "bear")], done)
    writing.disk.fail("open", errno.EMFILE, times="forever")
    writing.store.flush()
    assert isinstance(done.given[0], FilesExhausted)
    assert writing.known == {"a": "apple"}


def test_record_made_in_a_refusal_callback_survives_later_callbacks() -> None:
    writing = Writing()
    again = Answers()

    def try_again(error: GoQueueError | None) -> None:
        assert isinstance(error, DiskFull)
        writing.journal.record([("a", "again")], again)

    others = Answers()
    writing.journal.record([("a", "apple")], try_again)
    writing.journal.record([("b", "bear"), ("c", "cat")], others)
    writing.disk.fail("write", errno.ENOSPC)
    writing.store.flush()
    assert isinstance(others.given[0], DiskFull)
    assert writing.known == {"a": "again"}
    writing.store.flush()
    assert again.given == [None]
    assert writing.known == writing.after_crash().known == {"a": "again"}


def test_replay_starts_at_the_snapshot() -> None:
    writing = Writing()
    writing.record(("a", "apple"))
    writing.journal.snapshot()
    writing.record(("b", "bear"))
    again = writing.after_crash()
    assert again.journal._snapshot_offset == 1
    assert again.known == {"a": "apple", "b": "bear"}


def test_snapshot_is_written_after_many_records() -> None:
    writing = Writing()
    writing.record(*((f"name-{number}", "word") for number in range(SNAPSHOT_RECORDS)))
    assert writing.after_crash().journal._snapshot_offset == SNAPSHOT_RECORDS


def test_refused_snapshot_fails_no_record() -> None:
    writing = Writing()
    writing.disk.fail("create", errno.ENOSPC, path="*snapshot*", times="forever")
    writing.record(*((f"name-{number}", "word") for number in range(SNAPSHOT_RECORDS)))
    assert len(writing.after_crash().known) == SNAPSHOT_RECORDS


def test_garbage_snapshot_is_ignored() -> None:
    for garbage in (b"", b"\0" * 100, b'{"format": 1, "offset": 1}\n00000000\n'):
        writing = Writing()
        writing.record(("a", "apple"))
        writing.disk.write_file(f"{writing.log.directory}/snapshot", garbage)
        assert writing.after_crash().known == {"a": "apple"}


def test_unreadable_snapshot_is_ignored() -> None:
    writing = Writing()
    writing.record(("a", "apple"))
    writing.journal.snapshot()
    writing.disk.fail("read", errno.EIO, path="*snapshot", times="forever")
    writing.journal.replay()
    assert writing.known == {"a": "apple"}


def test_snapshot_of_a_longer_log_is_ignored() -> None:
    writing, shorter = Writing(), Writing()
    writing.record(("a", "apple"), ("b", "bear"))
    writing.journal.snapshot()
    path = f"{writing.log.directory}/snapshot"
    shorter.record(("c", "cat"))
    shorter.disk.write_file(path, writing.disk.read_file(path))
    assert shorter.after_crash().known == {"c": "cat"}


def test_snapshot_does_not_restore_keys_deleted_and_compacted() -> None:
    writing = Writing()
    writing.record(("a", "apple"))
    writing.journal.snapshot()
    writing.record(("a", ""))
    writing.log.roll()
    writing.record(("b", "bear"))
    writing.clock.advance(2 * DAY_SECONDS)
    job = plan_compaction(writing.log, writing.disk, now_ns=writing.clock.now_ns())
    job.run()
    job.apply()
    assert job.messages_removed == 2
    assert writing.after_crash().known == {"b": "bear"}


pairs = st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "one", "two"]))
actions = st.lists(
    st.one_of(st.lists(pairs, min_size=1, max_size=3), st.sampled_from(["flush", "refuse", "fence", "snapshot"])),
    max_size=25,
)


@given(actions)
def test_state_matches_answered_records_of_naive_model(
    taken: list[list[Pair] | str],
) -> None:
    writing, certain = Writing(), Words()
    waiting: list[list[Pair]] = []

    def done(error: GoQueueError | None) -> None:
        records = waiting.pop(0)
        for record in records if error is None else ():
            certain.apply(record)
        assert error is None or isinstance(error, (DiskFull, DiskFailed, LogFenced))

    for action in taken:
        if isinstance(action, list):
            waiting.append(action)
            writing.journal.record(action, done)
            continue
        if action == "snapshot":
            writing.journal.snapshot()
            continue
        if action != "flush":
            writing.disk.fail("write" if action == "refuse" else "sync", errno.ENOSPC, path="*.log")
        writing.store.flush()
        writing.disk.end_faults()
        assert not waiting
        assert writing.known == certain.known
        if writing.log.fence is None:
            assert writing.after_crash().known == certain.known


# --- what gathers ---


def test_gathered_records_share_an_append() -> None:
    writing, one, two = Writing(), Answers(), Answers()
    assert writing.journal.add([("a", "apple")], one)
    assert not writing.journal.add([("b", "bear"), ("c", "cat")], two)
    assert writing.known == {"a": "apple", "b": "bear", "c": "cat"}
    assert writing.log.next_offset == 0
    writing.journal.commit()
    assert one.given == two.given == []
    writing.store.flush()
    assert one.given == two.given == [None]
    assert writing.after_crash().known == writing.known


def test_empty_record_is_answered_when_earlier_records_are_durable() -> None:
    writing, one, follower, late = Writing(), Answers(), Answers(), Answers()
    writing.journal.add([], late)
    writing.journal.commit()
    assert late.given == [None], "there was nothing before"
    writing.journal.add([("a", "apple")], one)
    writing.journal.commit()
    writing.journal.add([], follower)
    writing.journal.commit()
    assert follower.given == []
    writing.store.flush()
    assert (one.given, follower.given) == ([None], [None])


def test_records_after_a_refused_one_are_refused_and_undone() -> None:
    writing, one, two, empty, three = Writing(), Answers(), Answers(), Answers(), Answers()
    writing.record(("a", "apple"))
    for done, words in ((one, ["axe"]), (two, ["arm"]), (empty, list[str]())):
        writing.journal.add([("a", word) for word in words], done)
        writing.journal.commit()
    writing.journal.add([("a", "ant")], three)  # not on its way yet
    writing.disk.fail("write", errno.ENOSPC)
    writing.store.flush()
    for done in (one, two, empty, three):
        assert [type(error) for error in done.given] == [DiskFull]
    assert writing.known == {"a": "apple"}
    writing.journal.commit()
    writing.store.flush()
    assert len(three.given) == 1
    writing.record(("a", "again"))
    assert writing.after_crash().known == {"a": "again"}


def test_records_that_another_leader_decides_about_are_undone_together() -> None:
    writing, seen = Writing(), list[tuple[GoQueueError | None, dict[str, str]]]()
    writing.record(("a", "apple"))
    commits = writing.journal.partition.commits
    commits.replicated_end = writing.log.next_offset
    for word in ("axe", "arm"):
        writing.journal.record([("a", word)], lambda error: seen.append((error, dict(writing.known))))
    writing.store.flush()
    assert seen == []
    commits.obstacle = LogClosed("another node leads")
    commits.advance()
    assert seen == [(commits.obstacle, {"a": "apple"})] * 2


def test_fenced_log_refuses_gathered_records() -> None:
    writing, one, two = Writing(), Answers(), Answers()
    writing.record(("a", "apple"))
    writing.journal.add([("b", "bear")], one)
    writing.journal.add([], two)
    writing.log.fence_off(DiskFailed("the device is gone"))
    writing.journal.commit()
    assert [type(done.given[0]) for done in (one, two)] == [LogFenced, LogFenced]
    assert writing.known == {"a": "apple"}


def test_durable_callback_gets_every_record_with_its_offset() -> None:
    told: list[tuple[Pair, int]] = []

    def journal_of(writing: Writing) -> Journal[Pair]:
        return Journal(
            writing.journal.partition,
            writing.disk,
            writing.words,
            encode,
            decode,
            snapshots=False,
            on_durable=lambda record, offset: told.append((record, offset)),
        )

    writing = Writing()
    journal = journal_of(writing)
    journal.add([("a", "apple")], Answers())
    journal.add([("b", "bear")], Answers())
    journal.commit()
    assert told == []
    writing.store.flush()
    expected = [(("a", "apple"), 0), (("b", "bear"), 1)]
    assert told == expected
    told.clear()
    journal_of(writing.after_crash()).replay()
    assert told == expected


gatherings = st.lists(
    st.one_of(st.lists(pairs, max_size=2), st.sampled_from(["commit", "flush", "refuse", "fence"])), max_size=25
)


@given(gatherings)
def test_gathered_records_match_naive_model(
    taken: list[list[Pair] | str],
) -> None:
    writing, certain = Writing(), Words()
    open_count = 0

    def answer(records: list[Pair], error: GoQueueError | None) -> None:
        nonlocal open_count
        open_count -= 1
        for record in records if error is None else ():
            certain.apply(record)

    for action in [*taken, "commit", "flush"]:
        if isinstance(action, list):
            if writing.log.fence is None:
                open_count += 1
                writing.journal.add(action, partial(answer, action))
        elif action == "commit":
            writing.journal.commit()
        else:
            if action != "flush":
                writing.disk.fail("write" if action == "refuse" else "sync", errno.ENOSPC, path="*.log")
            writing.store.flush()
            writing.disk.end_faults()
            if writing.log.fence is None:
                assert writing.after_crash().known == certain.known
    assert open_count == 0
    assert writing.known == certain.known


def test_too_large_record_changes_nothing() -> None:
    writing, told = Writing(), list[object]()
    writing.journal.add([("a", "apple")], told.append)
    with pytest.raises(MessageTooLarge):
        writing.journal.add([("b", "bear"), ("c", "c" * (VALUE_BYTES_MAX + 1))], told.append)
    assert writing.known == {"a": "apple"}
    writing.journal.commit()
    writing.store.flush()
    assert told == [None]


PAIRS = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["", "apple", "bear", "cat"])), max_size=30)


@given(PAIRS, st.data())
def test_journal_cut_back_equals_one_that_never_had_the_records(records: list[Pair], data: st.DataObject) -> None:
    writing, twin = Writing(), Writing()
    for record in records:
        writing.record(record)
        if data.draw(st.booleans(), "snapshot"):
            writing.journal.snapshot()
    offset = data.draw(st.integers(0, len(records)), "cut")
    run_work(truncate_partition(writing.journal.partition, writing.disk, offset))
    for record in records[:offset]:
        twin.record(record)
    assert writing.known == twin.known
    for one in (writing, twin):  # a snapshot of what is gone would fit the log again
        for number in range(len(records) - offset + 1):
            one.record(("later", str(number)))
    assert writing.known == twin.known == writing.after_crash().known


@given(PAIRS, st.data())
def test_journal_that_follows_has_the_state_of_the_one_that_records(records: list[Pair], data: st.DataObject) -> None:
    writing, follower = Writing(), Writing()
    for record in records:
        writing.record(record)
        if data.draw(st.booleans(), "follow"):
            copy_log(writing, follower)
            follower.journal.follow()
            assert follower.known == writing.known
    copy_log(writing, follower)
    follower.journal.follow()
    assert follower.known == writing.known == follower.after_crash().known
    follower.record(("a", "leads"))  # from here on it records itself
    assert follower.known == {**writing.known, "a": "leads"}


def copy_log(source: Writing, target: Writing) -> None:
    """Append to the target's log what it does not have."""
    log = target.log
    while log.next_offset < source.log.readable_end:
        for buffer in source.log.read(log.next_offset, 1 << 20).buffers:
            target.journal.partition.append(scan.check_batch(bytearray(buffer)), lambda _: None)
        target.store.flush()


# --- closing ---


def test_closed_journal_answers_with_its_error_and_keeps_what_was_added() -> None:
    writing, answers = Writing(), Answers()
    writing.journal.record([("a", "one")], answers)
    writing.journal.add([("b", "two")], answers)
    error = LogClosed("closed")
    settled = writing.journal.close(error)
    assert answers.given == [error, error]
    kept_before = settled.is_kept
    for refused in (writing.journal.refuse_when_closed, partial(writing.journal.add, [("c", "three")], answers)):
        with pytest.raises(LogClosed):
            refused()
    writing.store.flush()
    assert (kept_before, settled.is_kept) == (False, True), "until nothing is being written"
    assert writing.journal.close(error) is settled
    assert len(answers.given) == 2
    assert Writing(writing.disk.crash("everything")).words.known == {"a": "one", "b": "two"}


def test_closing_is_settled_when_the_disk_refuses_what_is_being_written() -> None:
    writing = Writing()
    writing.record(("a", "one"))
    writing.journal.record([("b", "two")], Answers())
    writing.disk.fail("write", errno.ENOSPC)
    settled = writing.journal.close(LogClosed("closed"))
    writing.store.flush()
    assert settled.is_kept
    partition = writing.journal.partition
    again: Journal[Pair] = Journal(partition, writing.disk, Words(), encode, decode)
    again.open()
    assert list(again.durable.records()) == [("a", "one")]
    assert partition.derived == [again]


def test_idle_journal_is_closed_at_once() -> None:
    assert Writing().journal.close(LogClosed("closed")).is_kept
