"""Delivery and lag of groups with transactions: committed messages only, or
all of them where the group asks for that."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.view import PartitionView, count_between, measure_backlog
from goqueue.broker.core.work import Job, run_work
from goqueue.errors import GroupMismatch
from goqueue.runtime.group_survey import offsets_left
from goqueue.storage import frame
from goqueue.storage.lanes import LANES
from tests.broker.brokers import going_on
from tests.broker.groupwork import ORDERS, Team, values_of
from tests.broker.transactions.traffic import Traffic, read_offsets


def at_work(**options: Any) -> tuple[Team, Traffic, str]:
    team = Team()
    traffic = Traffic(team.running)
    return team, traffic, team.join(**options)


def lag_of(team: Team) -> int:
    (lag,) = team.do(team.coordinator.lags.of_group(team.name))
    return lag.messages


def finish(team: Team, member: str) -> list[str]:
    """Poll and acknowledge until there is nothing."""
    found: list[str] = []
    while batches := team.poll(member):
        found += values_of(batches)
        for portion in batches:
            team.ack(portion)
    return found


def test_lease_excludes_offsets_of_aborted_messages() -> None:
    team, traffic, member = at_work()
    traffic.plain(b"one")
    traffic.aborted(b"never")
    traffic.plain(b"two")
    (portion,) = team.poll(member)
    assert portion.content.ranges() == [(0, 1), (3, 4)]
    team.nack(portion, *portion.content.ranges(), delay=0.0)
    assert values_of(team.poll(member)) == ["one", "two"]


def test_join_with_other_isolation_is_refused() -> None:
    team, _, _ = at_work()
    with pytest.raises(GroupMismatch, match="isolation read_committed"):
        team.ask_to_join("two", isolation="read_uncommitted")
    assert team.group.isolation == "read_committed"


@pytest.mark.parametrize(
    ("isolation", "expected"), [PartitionRef("read_committed", 1), PartitionRef("read_uncommitted", 3)]
)
def test_latest_position_depends_on_isolation(team: Team, isolation: str, expected: int) -> None:
    traffic = Traffic(team.running)
    traffic.plain(b"one")
    traffic.write(1, b"two", b"three")
    team.join(start="latest", isolation=isolation)
    assert team.cursor().position == expected
    (reset,) = team.reset("latest")
    assert reset.after == expected


def test_key_order_holds_across_aborted_messages() -> None:
    team, traffic, member = at_work(order="key")
    traffic.plain(b"one", key=b"k")
    traffic.aborted(b"never", key=b"k")
    traffic.committed(b"two", key=b"k")
    (portion,) = team.poll(member, 1)
    team.nack(portion, delay=1.0)
    assert finish(team, member) == []
    team.due(2.0)
    assert finish(team, member) == ["one", "two"]


def test_lane_continues_after_aborted_messages() -> None:
    team, traffic, member = at_work()
    traffic.plain(*[b"normal"] * 3)
    for _ in range(4):
        traffic.aborted(*[b"never"] * 30, lane=0)
    traffic.plain(b"urgent", lane=0)
    assert values_of(team.poll(member, 1)) == ["urgent"]
    assert sorted(finish(team, member)) == ["normal"] * 3
    assert lag_of(team) == 1


def test_fully_aborted_lane_is_skipped() -> None:
    team, traffic, member = at_work()
    traffic.plain(b"normal")
    traffic.aborted(*[b"never"] * 30, lane=0)
    traffic.aborted(*[b"never"] * 30, lane=4)
    assert finish(team, member) == ["normal"]
    assert lag_of(team) == 0
    traffic.plain(b"later", lane=1)
    assert finish(team, member) == ["later"]


class Life:
    """A group at work on a partition with transactions, and what it was handed."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.isolation = data.draw(st.sampled_from(["read_committed", "read_uncommitted"]))
        self.lanes = data.draw(st.sampled_from([(2,), tuple(LANES)]))
        self.team, self.traffic, self.member = at_work(isolation=self.isolation)
        self.handed: list[int] = []

    def seen(self) -> list[int]:
        """The messages that it should receive, as known now."""
        if self.isolation == "read_committed":
            return self.traffic.visible(0)
        return [offset for offset, state in enumerate(self.traffic.states) if state != "control"]

    def step(self) -> None:
        kinds = ["plain", "write", "end", "end", "roll", "restart", "poll", "poll"]
        getattr(self, self.data.draw(st.sampled_from(kinds)))()

    def _values(self) -> list[bytes]:
        return [b"v" * 200] * self.data.draw(st.integers(1, 12))

    def plain(self) -> None:
        self.traffic.plain(*self._values(), lane=self.data.draw(st.sampled_from(self.lanes)))

    def write(self) -> None:
        lane = self.data.draw(st.sampled_from(self.lanes))
        self.traffic.write(self.data.draw(st.integers(1, 2)), *self._values(), lane=lane)

    def end(self) -> None:
        self.traffic.end(self.data.draw(st.integers(1, 2)), commits=self.data.draw(st.booleans()))

    def roll(self) -> None:
        self.traffic.roll()

    def restart(self) -> None:
        self.team = self.team.restart()
        self.traffic.move(self.team.running)
        self.team.due(60.0)
        self.member = self.team.join(isolation=self.isolation)

    def poll(self, messages: int = 12) -> bool:
        batches = self.team.poll(self.member, messages)
        for portion in batches:
            self.handed += [offset for first, end in portion.content.ranges() for offset in range(first, end)]
            self.team.ack(portion)
        return bool(batches)


@given(st.data())
def test_delivery_and_lag_match_naive_model(data: st.DataObject) -> None:
    life = Life(data)
    for _ in range(data.draw(st.integers(1, 20))):
        life.step()
        left = len(set(life.seen()) - set(life.handed))
        if len(life.lanes) == 1:
            assert lag_of(life.team) == left
            view = PartitionView(life.traffic.partition, life.team.group.isolation)
            assert offsets_left(life.team.cursor(), view) >= left
    while life.poll(50):
        pass
    assert len(life.handed) == len(set(life.handed))
    assert set(life.seen()) <= set(life.handed)
    assert all(life.traffic.states[offset] != "control" for offset in life.handed)
    if life.isolation == "read_committed":
        assert sorted(life.handed) == life.seen()


@given(st.data())
def test_backlog_with_transactions_matches_naive_model(data: st.DataObject) -> None:
    team = Team()
    traffic = Traffic(team.running)
    for _ in range(data.draw(st.integers(1, 15))):
        match data.draw(st.sampled_from(["plain", "write", "commit", "abort", "roll", "restart"])):
            case "plain":
                traffic.plain(*[b"v" * 100] * data.draw(st.integers(1, 5)))
            case "write":
                traffic.write(data.draw(st.integers(1, 2)), *[b"v" * 100] * data.draw(st.integers(1, 5)))
            case "roll":
                traffic.roll()
            case "restart":
                team = team.restart()
                traffic.move(team.running)
            case what:
                traffic.end(data.draw(st.integers(1, 2)), commits=what == "commit")
        traffic.running.clock.advance(1)
        partition, size = traffic.partition, len(traffic.states)
        edges = sorted(data.draw(st.lists(st.integers(0, size), max_size=6, unique=True)))
        settled = [(first, end) for first, end in zip(edges[1::2], edges[2::2], strict=False) if first < end]
        first, end = sorted(data.draw(st.integers(0, size)) for _ in range(2))
        left = [one for one in traffic.visible(first) if not any(start <= one < stop for start, stop in settled)]
        found = run_work(measure_backlog(PartitionView(partition), first, settled))
        assert found.messages == len(left)
        assert found.oldest_ns == (times_of(traffic)[left[0]] if left else None)
        assert run_work(count_between(PartitionView(partition), first, end)) == len(traffic.visible(first, end))
        assert run_work(count_between(PartitionView(partition, "read_uncommitted"), first, end)) == len(
            [offset for offset in range(first, end) if traffic.states[offset] != "control"]
        )


@pytest.mark.parametrize("jobs", range(6))
def test_backlog_is_correct_when_segments_are_compacted_meanwhile(team: Team, jobs: int) -> None:
    traffic = Traffic(team.running)
    for _ in range(3):
        traffic.plain(b"stays")
        traffic.aborted(b"never", b"never")
        traffic.roll()
    traffic.move(traffic.running.restart())
    running, partition = traffic.running, traffic.partition

    work = measure_backlog(PartitionView(partition), 0, ())
    job = next(work)
    for _ in range(jobs):
        job = work.send(cast(Job, job)())
    found = run_work(going_on(work, job, lambda: running.maintain(TopicSettings(cleanup="compact"))))
    assert found.messages == 3


def times_of(traffic: Traffic) -> dict[int, int]:
    partition, offset, times = traffic.partition, 0, dict[int, int]()
    while (read := run_work(partition.read_uncommitted(offset, 10_000))).buffers:
        for buffer in read.buffers:
            times |= {frame.offset_at(buffer, at): frame.timestamp_at(buffer, at) for at in frame.walk(buffer)}
        offset = read.next_offset
    return times


def test_dead_letter_of_transactional_message_is_not_transactional() -> None:
    team, traffic, member = at_work()
    traffic.committed(b"bad")
    (portion,) = team.poll(member)
    team.settle("reject", portion, *portion.content.ranges(), reason="no good")
    team.move_dead_letters()
    (letter,) = team.messages()
    assert letter.value == b"bad"
    assert not letter.flags & frame.TRANSACTIONAL
    assert read_offsets(team.running.partition("orders.dlq")) == [0]
    assert team.cursor(ORDERS).floor == 2 or lag_of(team) == 0
