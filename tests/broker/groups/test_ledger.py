"""The logs of groups: told again when they have become long, and whatever happens meanwhile nothing is lost."""

import errno

import pytest

from goqueue.broker.delivery import parts
from goqueue.broker.groups import ledger
from goqueue.broker.groups.state import Record
from goqueue.broker.work import Promise
from goqueue.errors import DiskFull, GoQueueError, LogFenced
from goqueue.limits import GROUP_LOGS
from goqueue.storage.log import LogSettings
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, Told
from tests.broker.groupwork import Team, values_of

KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


def busy_team(rounds: int = 12) -> tuple[Team, str]:
    """With a log of many small segments, and something in every state."""
    team = Team()
    shelf = team.coordinator.ledger.shelf("team")
    shelf._bytes_max, shelf.log.settings = 1024, LogSettings(1024)
    team.publish(*(f"message-{number}" for number in range(rounds + 8)))
    one = team.join()
    for _ in range(rounds):
        team.ack(team.take(one, 1))
    portion = team.take(one, 5)
    team.ack(portion, (portion.grant.first + 1, portion.grant.first + 2))
    team.say("reject", portion, (portion.grant.first + 2, portion.grant.first + 3))
    team.nack(portion, (portion.grant.first + 3, portion.grant.first + 4), delay=100.0)
    return team, one


def state_of(team: Team) -> list[Record]:
    return list(team.coordinator.ledger.shelf("team").state.records())


def tell_again(team: Team) -> None:
    team.do(team.coordinator.ledger.tell_again())


def test_groups_are_spread_over_the_logs_and_a_lease_says_in_which_it_is() -> None:
    ledger = Team().coordinator.ledger
    names = [f"group-{number}" for number in range(200)]
    assert {ledger.number(name) for name in names} == set(range(GROUP_LOGS))
    assert all(ledger.new_lease_id(name)[0] == str(ledger.number(name)) for name in names)


def test_what_is_recorded_holds_at_once_and_is_told_when_it_is_durable() -> None:
    team = Team()
    team.leave(team.join())
    done: Told[GoQueueError | None] = Told()
    team.coordinator.ledger.record("team", [], done)
    assert done.all == []
    team.running.flush()
    assert done.all == [None]


def test_a_log_that_has_become_long_is_told_again_and_is_short_then() -> None:
    team, one = busy_team()
    log, before = team.coordinator.ledger.shelf("team").log, state_of(team)
    size = log.size
    tell_again(team)
    assert log.first_offset > 0
    assert log.size < size
    assert state_of(team) == before
    after = team.crash()
    assert state_of(after) == before
    assert values_of(after.poll(one, 1)) == ["message-17"]


def test_a_short_log_is_left_alone() -> None:
    team = Team()
    team.publish("a")
    team.ack(team.take(team.join()))
    log = team.coordinator.ledger.shelf("team").log
    end = log.next_offset
    tell_again(team)
    assert (log.first_offset, log.next_offset) == (0, end)


def test_what_was_told_again_is_not_told_again_soon() -> None:
    team, _ = busy_team(rounds=40)
    log = team.coordinator.ledger.shelf("team").log
    tell_again(team)
    end = log.next_offset
    tell_again(team)
    assert log.next_offset == end


def test_what_happens_while_it_is_told_again_holds() -> None:
    team, one = busy_team()
    work = team.coordinator.ledger.tell_again()
    job = next(work)
    assert isinstance(job, Promise)
    portion = team.take(one, 1)
    team.ack(portion)
    other = Team(team.running, "other-team")
    other.join()
    try:
        while True:
            if isinstance(job, Promise):
                team.running.flush()
                job = work.send(job.result())
            else:
                job = work.send(job())
    except StopIteration:
        pass
    before = state_of(team)
    after = team.crash()
    assert state_of(after) == before
    assert after.cursor().is_settled(portion.grant.first, portion.grant.end)


def test_groups_and_places_that_are_gone_are_not_told_again() -> None:
    team, one = busy_team()
    team.leave(one)
    told: Told[GoQueueError | None] = Told()
    team.coordinator.membership.delete("team", told)
    team.running.flush()
    tell_again(team)
    assert state_of(team) == state_of(team.crash()) == []


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_at_any_operation_of_telling_again_loses_nothing(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        team, one = busy_team()
        before = state_of(team)
        operation += 1
        team.running.disk.crash_at(team.running.disk.operations + operation)
        try:
            tell_again(team)
            is_over = True
        except Crashed:
            pass
        after = team.crash(keep)
        assert state_of(after) == before
        assert values_of(after.poll(one, 1)) == ["message-17"]
    assert operation > 5


@pytest.mark.parametrize("keep", KEEPS)
def test_telling_again_after_a_crash_that_came_in_between_is_right_too(keep: Keep) -> None:
    team, _ = busy_team()
    before = state_of(team)
    team.running.disk.crash_at(team.running.disk.operations + 4)
    with pytest.raises(Crashed):
        tell_again(team)
    team = team.crash(keep)
    shelf = team.coordinator.ledger.shelf("team")
    shelf._bytes_max = 1024
    tell_again(team)
    tell_again(team)
    assert state_of(team) == before
    assert state_of(team.crash()) == before


def test_a_clean_stop_leaves_a_snapshot_and_what_comes_behind_it_counts() -> None:
    team, one = busy_team()
    team = team.restart()
    assert team.coordinator.ledger.shelf("team").journal._snapshot_offset > 0
    team.ack(team.take(one, 1))
    before = state_of(team)
    shelf = team.coordinator.ledger.shelf("team")
    shelf._bytes_max = 1024
    tell_again(team)
    assert state_of(team.restart().crash()) == before


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_loses_nothing_of_what_is_told_in_parts(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "STANDS_BYTES", 1)
    operation, is_over = 0, False
    while not is_over:
        team, _ = busy_team()
        before = state_of(team)
        assert len(before) > 3
        operation += 1
        team.running.disk.crash_at(team.running.disk.operations + operation)
        try:
            tell_again(team)
            is_over = True
        except Crashed:
            pass
        team = team.crash(keep)
        assert state_of(team) == before
        team.coordinator.ledger.shelf("team")._bytes_max = 1024
        tell_again(team)
        team = team.crash(keep)
        assert state_of(team) == before
        assert state_of(team.restart()) == before


def test_a_log_that_cannot_be_told_again_keeps_no_other_from_it() -> None:
    team, _ = busy_team()
    ledger = team.coordinator.ledger
    number = ledger.number("team")
    after = next(f"g-{count}" for count in range(99) if ledger.number(f"g-{count}") > number)
    other = Team(team.running, after)
    other.leave(other.join())
    shelf = ledger.shelf(after)
    shelf._bytes_max = 1
    team.running.disk.fail("write", errno.ENOSPC, path=f"*/__consumer_offsets/{number}/*")
    with pytest.raises(DiskFull):
        tell_again(team)
    assert shelf.log.first_offset > 0


@pytest.mark.parametrize(("ranges", "turns"), [(1, 4), (6, 2), (100, 1)])
def test_so_many_ranges_are_told_in_one_turn(ranges: int, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_RANGES_AT_ONCE", ranges)
    team = Team(partitions=3)
    one = team.join()
    for number in range(3):
        team.publish(*"abc", place=("orders", number))
    for portion in team.poll(one):
        team.ack(portion, (1, 2))
    assert [cursor.run_count for cursor in team.coordinator.ledger.cursors("team").values()] == [3, 3, 3]
    shelf = team.coordinator.ledger.shelf("team")
    shelf._bytes_max, made = 1, 0
    work = shelf.tell_again()
    job = next(work)
    while isinstance(job, Promise):
        made += 1
        team.running.flush()
        job = work.send(job.result())
    assert made == turns


def test_telling_again_that_the_disk_refuses_changes_nothing_and_can_be_repeated() -> None:
    team, _ = busy_team()
    before = state_of(team)
    team.running.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        tell_again(team)
    assert state_of(team) == before
    tell_again(team)
    assert state_of(team) == state_of(team.crash()) == before


def test_what_was_taken_back_is_gone_before_anybody_hears_of_it() -> None:
    team, one = busy_team()
    before = state_of(team)
    seen: list[list[Record]] = []
    portion = team.statement("release", team.take(one, 1))
    team.ask_to_settle(one, portion)
    team.coordinator.ledger.record("team", [], lambda _: seen.append(state_of(team)))
    team.running.disk.fail("write", errno.ENOSPC)
    team.running.flush()
    assert seen == [state_of(team)]
    assert before != state_of(team)
    assert team.cursor().leased == 3


def test_a_log_that_cannot_be_opened_refuses_its_groups_and_the_others_go_on() -> None:
    team = Team()
    one = team.join()
    number = team.coordinator.ledger.number("team")
    name = next(f"g-{count}" for count in range(99) if team.coordinator.ledger.number(f"g-{count}") != number)
    other = Team(team.running, name)
    member = other.join()
    disk = team.running.disk.crash("synced")
    disk.fail("open", errno.EIO, path=f"*/__consumer_offsets/{number}/*.log", times="forever")
    running = Running(disk, team.running.clock)
    assert Team(running, name).has(member)
    with pytest.raises(LogFenced):
        Team(running).coordinator.ledger.record("team", [])
    disk.heal()
    assert Team(running.crash()).has(one)


def test_a_log_that_is_fenced_is_not_told_again() -> None:
    team, _ = busy_team()
    team.coordinator.ledger.shelf("team").log.fence_off(DiskFull("no room"))
    tell_again(team)
    assert repr(team.coordinator.ledger) == "<Ledger 1 groups>"
