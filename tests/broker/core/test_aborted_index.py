"""Aborted messages stay hidden through segments, restarts, crashes, compaction, retention and caches of garbage."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core import aborted_index
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.work import run_work
from goqueue.limits import ABORTED_INDEXES_CACHED
from goqueue.storage import frame
from goqueue.storage.retention import plan_retention
from goqueue.storage.transaction_index import NONE_ABORTED
from tests.broker.brokers import Running, going_on
from tests.broker.transactions.traffic import Traffic, read_offsets, stored_offsets

VALUE = b"v" * 300  # some ten of them are a segment
PRODUCERS = st.sampled_from([1, 2, 3])
KEYS = st.sampled_from([None, b"a", b"b", b"c"])


def started(**chosen: Any) -> Traffic:
    running = Running()
    running.create(**chosen)
    return Traffic(running)


@dataclass
class Life:
    """A partition, and how it is used at random."""

    traffic: Traffic
    data: st.DataObject

    def step(self) -> None:
        kinds = ["plain", "write", "write", "commit", "abort", "abort", "roll", "store", "look", "restart", "crash"]
        getattr(self, self.data.draw(st.sampled_from([*kinds, "garbage", "retention", "compaction"])))()

    def plain(self) -> None:
        self.traffic.plain(*[VALUE] * self.data.draw(st.integers(1, 5)), key=self.data.draw(KEYS))

    def write(self) -> None:
        values = [VALUE] * self.data.draw(st.integers(1, 8))
        self.traffic.write(self.data.draw(PRODUCERS), *values, key=self.data.draw(KEYS))

    def commit(self) -> None:
        self.traffic.commit(self.data.draw(PRODUCERS))

    def abort(self) -> None:
        self.traffic.abort(self.data.draw(PRODUCERS))

    def roll(self) -> None:
        self.traffic.roll()

    def store(self) -> None:
        run_work(self.traffic.partition.aborted.store(self.traffic.running.disk))

    def look(self) -> None:
        """Anywhere: what is known afterwards must not be wrong later."""
        partition = self.traffic.partition
        if partition.earliest < partition.last_stable:
            run_work(partition.read(self.data.draw(st.integers(partition.earliest, partition.last_stable)), 500))

    def restart(self) -> None:
        self.traffic.move(self.traffic.running.restart())

    def crash(self) -> None:
        self.traffic.move(self.traffic.running.crash())

    def garbage(self) -> None:
        """In what is on disk, before the next start."""
        disk = self.traffic.running.disk
        for path in [path for path in disk.paths() if path.endswith(".aborted")]:
            match self.data.draw(st.sampled_from(["leave", "remove", "overwrite", "shorten"])):
                case "remove":
                    disk.remove(path)
                case "overwrite":
                    disk.open(path, "write").write(20, [b"garbage"])
                case "shorten":
                    disk.open(path, "write").truncate(9)
        self.restart()

    def retention(self) -> None:
        partition = self.traffic.partition
        end = min(partition.removable_end, self.data.draw(st.integers(0, len(self.traffic.states))))
        job = plan_retention(partition.log, self.traffic.running.disk, bytes_kept=0, below=end)
        job.run()
        job.apply()

    def compaction(self) -> None:
        traffic, partition = self.traffic, self.traffic.partition
        before = set(read_offsets(partition))
        traffic.running.maintain(TopicSettings(cleanup="compact"))
        after = set(read_offsets(partition))
        latest = {traffic.keys[offset]: offset for offset in sorted(before)}
        assert after <= before
        assert {
            offset for offset in before if latest[traffic.keys[offset]] == offset or not traffic.keys[offset]
        } <= after
        held = set(stored_offsets(partition))
        end = partition.log.segments[len(partition.log.sealed())].base_offset
        if partition.compacted_end == end:
            assert held.isdisjoint(traffic.hidden(0, end))
        for offset in range(partition.earliest, traffic.stable):
            if offset not in held:
                traffic.states[offset] = "control"  # there is no message any more

    def check(self) -> None:
        traffic, partition = self.traffic, self.traffic.partition
        assert partition.last_stable == traffic.stable
        if partition.earliest >= partition.last_stable:
            return
        first, end = sorted(
            self.data.draw(st.integers(partition.earliest, partition.last_stable), label="offset") for _ in range(2)
        )
        size = self.data.draw(st.sampled_from([1, 700, 3_000, 100_000]))
        assert read_offsets(partition, first, size) == traffic.visible(first)
        hidden = traffic.hidden(first, end)
        ranges = run_work(partition.aborted.within(first, end))
        assert [offset for start, stop in ranges for offset in range(start, stop)] == hidden
        assert all(one[1] < two[0] for one, two in pairwise(ranges))
        assert run_work(partition.aborted.within(first, end, 2)) == ranges[:2]
        assert first == end or partition.aborted.is_clean(first, end) == (not hidden)
        assert partition.aborted.roughly(first, end) == len(hidden)


@given(st.data())
def test_reads_match_naive_model(data: st.DataObject) -> None:
    life = Life(started(), data)
    for _ in range(data.draw(st.integers(1, 25))):
        life.step()
        life.check()


def with_segments(*counts: int, **chosen: Any) -> Traffic:
    """Sealed segments, in each so many aborted transactions of one message, behind a message that stays."""
    traffic = started(**chosen)
    for count in counts:
        traffic.plain(b"stays")
        for _ in range(count):
            traffic.aborted(b"never")
        traffic.roll()
    return traffic


def paths(traffic: Traffic) -> list[str]:
    return sorted(path for path in traffic.running.disk.paths() if path.endswith(".aborted"))


def upkeep(traffic: Traffic, **chosen: Any) -> None:
    traffic.running.maintain(TopicSettings(**chosen))


def test_read_without_aborted_messages_needs_no_job() -> None:
    traffic = started()
    traffic.plain(*[b"v"] * 5)
    assert traffic.partition.aborted.known(0, 5) is NONE_ABORTED
    assert next(traffic.partition.aborted.within(0, 5), None) is None


def test_aborted_ranges_of_sealed_segments_are_stored_and_reused() -> None:
    traffic = with_segments(2, 0, 3)
    upkeep(traffic)
    assert len(paths(traffic)) == 3
    traffic.move(traffic.running.restart())
    segment = traffic.partition.log.segments[0]
    assert read_offsets(traffic.partition, 0) == traffic.visible(0)
    assert segment.has_aborted_file
    assert segment.aborted is not None
    assert segment.aborted.within(0, 100) == [(1, 2), (3, 4)]
    assert segment.is_dense is False


def test_segment_without_aborted_messages_is_scanned_once_after_start() -> None:
    traffic = with_segments(0, 0)
    traffic.move(traffic.running.restart())
    assert paths(traffic) == []
    assert read_offsets(traffic.partition, 0) == traffic.visible(0)
    assert len(paths(traffic)) == 2
    assert traffic.partition.aborted.known(0, 2) is NONE_ABORTED


def test_ranges_are_not_stored_while_a_transaction_is_open() -> None:
    traffic = started()
    traffic.write(1, b"open")
    traffic.aborted(b"never", producer=2)
    traffic.roll()
    upkeep(traffic)
    assert paths(traffic) == []
    traffic.commit()
    upkeep(traffic)
    assert len(paths(traffic)) == 1
    traffic.move(traffic.running.restart())
    assert read_offsets(traffic.partition) == [0]


def test_ranges_are_not_stored_before_they_are_synced() -> None:
    """Where answers do not wait for the device, a marker that readers know of may be lost with the power."""
    traffic = started()
    traffic.aborted(b"never")
    traffic.roll()
    traffic.plain(b"behind")
    log = traffic.partition.log
    log.durable_end, end = 1, log.durable_end
    upkeep(traffic)
    assert paths(traffic) == []
    traffic.plain(b"later")
    log.durable_end = end  # as much as was visible at the last look is on the device now
    upkeep(traffic)
    assert len(paths(traffic)) == 1


def test_compaction_removes_aborted_messages_and_keeps_markers() -> None:
    traffic = with_segments(3, 3, cleanup="compact")
    log = traffic.partition.log
    upkeep(traffic, cleanup="compact")
    assert stored_offsets(traffic.partition) == [0, 2, 4, 6, 7, 9, 11, 13]
    assert all(segment.aborted is NONE_ABORTED for segment in log.sealed())
    assert traffic.partition.aborted.roughly(0, log.next_offset) == 0
    traffic.move(traffic.running.restart())
    assert run_work(traffic.partition.aborted.within(0, 14)) == []
    assert read_offsets(traffic.partition) == [0, 7]


def test_compaction_and_retention_stop_at_open_transactions() -> None:
    traffic = started(cleanup="compact")
    traffic.plain(b"old", key=b"k")
    traffic.roll()
    traffic.write(1, b"open", key=b"k")
    traffic.roll()
    traffic.plain(b"new", key=b"k")
    traffic.roll()
    upkeep(traffic, cleanup="compact")
    assert stored_offsets(traffic.partition) == [0, 1, 2]
    traffic.running.clock.advance(10**6)
    upkeep(traffic, retention_hours=0.001)
    assert traffic.partition.earliest == 1
    traffic.abort()
    upkeep(traffic, cleanup="compact")
    assert stored_offsets(traffic.partition) == [2, 3]


def test_started_read_hides_aborted_messages_after_compaction() -> None:
    traffic = with_segments(3, 0, cleanup="compact")
    reading = traffic.partition.read(0, 10_000)
    job = next(reading)
    upkeep(traffic, cleanup="compact")
    assert traffic.partition.log.segments[0].aborted is NONE_ABORTED
    read = run_work(going_on(reading, job))
    found = [frame.decode(buffer, at) for buffer in read.buffers for at in frame.walk(buffer)]
    assert [message.offset for message in found if not message.flags & frame.CONTROL] == [0]


def test_abort_during_a_segment_scan_is_included() -> None:
    traffic = started()
    traffic.plain(b"stays")
    traffic.write(1, b"never")
    traffic.roll()
    traffic.plain(b"stays too")
    traffic.move(traffic.running.restart())
    looking = traffic.partition.aborted.look_up(0, 1)
    job = next(looking)
    run_work(going_on(looking, job, traffic.abort))
    assert read_offsets(traffic.partition) == [0, 2]
    assert run_work(traffic.partition.aborted.within(0, 3)) == [(1, 2)]


def test_number_of_cached_large_range_lists_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aborted_index, "ABORTED_RANGES_PINNED", 2)
    traffic = with_segments(*[3] * (ABORTED_INDEXES_CACHED + 3))
    upkeep(traffic)
    segments = traffic.partition.log.sealed()
    assert sum(segment.aborted is not None for segment in segments) == ABORTED_INDEXES_CACHED
    assert read_offsets(traffic.partition) == traffic.visible(0)
    aborted = run_work(traffic.partition.aborted.within(0, 10**6))
    assert sum(end - first for first, end in aborted) == 3 * len(segments)
    assert sum(segment.aborted is not None for segment in segments) == ABORTED_INDEXES_CACHED


def test_damaged_marker_commits_nothing() -> None:
    traffic = started()
    traffic.committed(b"lost")
    traffic.plain(b"stays")
    traffic.roll()
    disk, segment = traffic.running.disk, traffic.partition.log.segments[0]
    content = bytearray(segment.size)
    disk.open(segment.path, "read").read(0, memoryview(content))
    places = list(frame.walk(bytes(content)))
    disk.open(segment.path, "write").write(places[1] + 40, [b"\xff"])
    traffic.move(traffic.running.restart())
    read = run_work(traffic.partition.read(0, 10_000, skip_damage=True))
    found = [frame.decode(buffer, at).value for buffer in read.buffers for at in frame.walk(buffer)]
    assert found == [b"stays"]
    assert paths(traffic) == []
