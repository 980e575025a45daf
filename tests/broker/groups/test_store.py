"""Group logs: rewriting, crashes, and losses."""

import errno

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Promise
from goqueue.broker.groups import state
from goqueue.broker.groups import store as group_store
from goqueue.broker.groups.records import GroupRecord
from goqueue.errors import DiskFull, GoQueueError, LogFenced
from goqueue.limits import GROUP_LOGS
from goqueue.storage.log import LogSettings
from tests.broker.brokers import KEEPS, Running, Told, going_on
from tests.broker.crashes import crash_points
from tests.broker.groupwork import Team, values_of


def busy_team(rounds: int = 8) -> tuple[Team, str]:
    """With a log of many small segments, and something in every state."""
    team = Team()
    group_log = team.coordinator.store.group_log
    group_log._bytes_max, group_log.log.settings = 1024, LogSettings(1024)
    team.publish(*(f"message-{number}" for number in range(rounds + 8)))
    one = team.join()
    for _ in range(rounds):
        team.ack(team.take(one, 1))
    batch = team.take(one, 5)
    team.ack(batch, (batch.grant.first + 1, batch.grant.first + 2))
    team.settle("reject", batch, (batch.grant.first + 2, batch.grant.first + 3))
    team.nack(batch, (batch.grant.first + 3, batch.grant.first + 4), delay=100.0)
    return team, one


def state_of(team: Team) -> list[GroupRecord]:
    return list(team.coordinator.store.group_log.state.records())


def rewrite_log(team: Team) -> None:
    team.do(team.running.broker.groups.rewrite_logs())


def test_lease_id_names_log_of_its_group() -> None:
    shards = Team().running.broker.groups
    names = [f"group-{number}" for number in range(200)]
    assert {shards.number(name) for name in names} == set(range(GROUP_LOGS))
    assert all(shards.of(name).store.new_lease_id()[0] == str(shards.number(name)) for name in names)


def test_record_applies_at_once_and_is_answered_when_durable(team: Team) -> None:
    team.leave(team.join())
    done: Told[GoQueueError | None] = Told()
    team.coordinator.store.record("team", [], done)
    assert done.all == []
    team.running.flush()
    assert done.all == [None]


def test_long_log_is_rewritten() -> None:
    team, one = busy_team()
    log, before = team.coordinator.store.group_log.log, state_of(team)
    size = log.size
    rewrite_log(team)
    assert log.first_offset > 0
    assert log.size < size
    assert state_of(team) == before
    after = team.crash()
    assert state_of(after) == before
    assert values_of(after.poll(one, 1)) == ["message-13"]


def test_short_log_is_not_rewritten(team: Team) -> None:
    team.publish("a")
    team.ack(team.take(team.join()))
    log = team.coordinator.store.group_log.log
    end = log.next_offset
    rewrite_log(team)
    assert (log.first_offset, log.next_offset) == (0, end)


def test_rewritten_log_is_not_rewritten_again_soon() -> None:
    team, _ = busy_team(rounds=40)
    log = team.coordinator.store.group_log.log
    rewrite_log(team)
    end = log.next_offset
    rewrite_log(team)
    assert log.next_offset == end


def test_changes_during_rewrite_are_kept() -> None:
    team, one = busy_team()
    work = team.running.broker.groups.rewrite_logs()
    job = next(work)
    assert isinstance(job, Promise)
    batch = team.take(one, 1)
    team.ack(batch)
    other = Team(team.running, "other-team")
    other.join()
    team.do(going_on(work, job))
    before = state_of(team)
    after = team.crash()
    assert state_of(after) == before
    assert after.cursor().is_settled(batch.grant.first, batch.grant.end)


def test_rewrite_drops_deleted_groups_and_cursors() -> None:
    team, one = busy_team()
    team.leave(one)
    assert team.delete() is None
    rewrite_log(team)
    assert state_of(team) == state_of(team.crash()) == []


def test_clean_stop_writes_snapshot_and_later_records_apply() -> None:
    team, one = busy_team()
    team = team.restart()
    assert team.coordinator.store.group_log.journal._snapshot_offset > 0
    team.ack(team.take(one, 1))
    before = state_of(team)
    group_log = team.coordinator.store.group_log
    group_log._bytes_max = 1024
    rewrite_log(team)
    assert state_of(team.restart().crash()) == before


def test_crash_loses_nothing_of_split_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "CURSOR_SNAPSHOT_BYTES", 1)
    for point in crash_points():
        team, _ = busy_team()
        before = state_of(team)
        assert len(before) > 3
        with point.during(team.running.disk):
            rewrite_log(team)
        for keep in KEEPS:
            after = team.after_crash(keep)
            assert state_of(after) == before
            after.coordinator.store.group_log._bytes_max = 1024
            rewrite_log(after)
            after = after.crash(keep)
            assert state_of(after) == state_of(after.restart()) == before


def test_failed_rewrite_does_not_block_other_logs() -> None:
    team, _ = busy_team()
    shards = team.running.broker.groups
    number = shards.number("team")
    after = next(f"g-{count}" for count in range(99) if shards.number(f"g-{count}") > number)
    other = Team(team.running, after)
    other.leave(other.join())
    group_log = other.coordinator.store.group_log
    group_log._bytes_max = 1
    team.running.refuse_writes(f"*/__consumer_offsets/{number}/*")
    with pytest.raises(DiskFull):
        rewrite_log(team)
    assert group_log.log.first_offset > 0


@pytest.mark.parametrize(("ranges", "turns"), [(1, 4), (6, 2), (100, 1)])
def test_rewrite_limits_ranges_per_turn(ranges: int, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_store, "_REWRITE_RANGES_MAX", ranges)
    team = Team(partitions=3)
    one = team.join()
    for number in range(3):
        team.publish(*"abc", ref=PartitionRef("orders", number))
    for batch in team.poll(one):
        team.ack(batch, (1, 2))
    assert [cursor.run_count for cursor in team.coordinator.store.cursors("team").values()] == [3, 3, 3]
    group_log = team.coordinator.store.group_log
    group_log._bytes_max, made = 1, 0
    work = group_log.rewrite_log()
    job = next(work)
    while isinstance(job, Promise):
        made += 1
        team.running.flush()
        job = work.send(job.result())
    assert made == turns


def test_rewrite_refused_by_disk_can_be_repeated() -> None:
    team, _ = busy_team()
    before = state_of(team)
    team.running.refuse_writes()
    with pytest.raises(DiskFull):
        rewrite_log(team)
    assert state_of(team) == before
    rewrite_log(team)
    assert state_of(team) == state_of(team.crash()) == before


def test_refused_records_are_undone_before_callbacks_run() -> None:
    team, one = busy_team()
    before = state_of(team)
    seen: list[list[GroupRecord]] = []
    batch = team.command("release", team.take(one, 1))
    team.ask_to_settle(one, batch)
    team.coordinator.store.record("team", [], lambda _: seen.append(state_of(team)))
    team.running.refuse_writes()
    team.running.flush()
    assert seen == [state_of(team)]
    assert before != state_of(team)
    assert team.cursor().leased == 3


def test_unreadable_log_refuses_only_its_groups(team: Team) -> None:
    one = team.join()
    number = team.running.broker.groups.number("team")
    name = next(f"g-{count}" for count in range(99) if team.running.broker.groups.number(f"g-{count}") != number)
    other = Team(team.running, name)
    member = other.join()
    disk = team.running.disk.crash("synced")
    disk.fail("open", errno.EIO, path=f"*/__consumer_offsets/{number}/*.log", times="forever")
    running = Running(disk, team.running.clock)
    assert Team(running, name).has(member)
    with pytest.raises(LogFenced):
        Team(running).coordinator.store.record("team", [])
    disk.end_faults()
    assert Team(running.crash()).has(one)


def test_fenced_log_is_not_rewritten() -> None:
    team, _ = busy_team()
    team.coordinator.store.group_log.log.fence_off(DiskFull("no room"))
    rewrite_log(team)
    assert repr(team.coordinator.store) == "<GroupStore 1 groups>"
