"""A group that is deleted leaves nothing behind, unless the disk refuses that it goes."""

import errno

from goqueue.errors import DiskFull, GoQueueError
from goqueue.limits import GROUP_RETENTION_SECONDS
from tests.broker.brokers import Told
from tests.broker.groupwork import Team


def worked_with(team: Team) -> None:
    """Something is done, tried again, in hand and on its way, and nobody is in it any more."""
    one = team.join(order="key")
    portion = team.take(one)
    team.ack(portion, (0, 1))
    team.nack(portion, (1, 2), delay=0.0)
    team.say("reject", portion, (2, 3))
    assert team.poll(one, 1)
    team.leave(one)


def team_with_messages() -> Team:
    team = Team()
    team.publish(*"abcde", key="k")
    return team


def delete(team: Team) -> GoQueueError | None:
    told: Told[GoQueueError | None] = Told()
    team.coordinator.membership.delete(team.name, told)
    team.running.flush()
    (result,) = told.all
    return result


def known(team: Team) -> list[object]:
    """Whatever is kept by the names of groups."""
    it = team.coordinator
    return [
        it.lags._meters,
        it.polls._lender.keys._exceptions,
        it.polls._turns._shares,
        it.deadlines._armed,
        it.deadlines._about,
    ]


def test_of_a_group_that_is_deleted_nothing_is_left() -> None:
    team = team_with_messages()
    for number in range(20):
        team = Team(team.running, f"group-{number}")
        worked_with(team)
        assert delete(team) is None
    assert known(team) == [{}, {}, {}, {}, {}]
    assert len(team.coordinator.deadlines._heap) < 200


def test_a_group_that_the_disk_does_not_let_go_is_forgotten_when_its_time_is_over() -> None:
    team = team_with_messages()
    worked_with(team)
    team.running.disk.fail("write", errno.ENOSPC, path="*/__consumer_offsets/*")
    assert isinstance(delete(team), DiskFull)
    assert team.group.members == {}
    team.due(GROUP_RETENTION_SECONDS + 1.0)
    assert team.coordinator.ledger.group("team") is None
    assert team.coordinator.lags._meters == {}


def test_who_joins_in_the_same_moment_has_its_meeting() -> None:
    team = team_with_messages()
    worked_with(team)
    told: Told[GoQueueError | None] = Told()
    team.coordinator.membership.delete("team", told)
    joined = team.ask_to_join("two")
    team.running.flush()
    assert told.result is None
    team.due(1.0)
    assert team.has(joined.result[0]) == [("orders", 0)]
