"""A group that is deleted leaves nothing behind, unless the disk refuses that it goes."""

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.errors import DiskFull
from goqueue.limits import GROUP_RETENTION_SECONDS
from tests.broker.groupwork import Team


@pytest.fixture
def team(team: Team) -> Team:
    team.publish(*"abcde", key="k")
    return team


def worked_with(team: Team) -> None:
    """Settle, retry, lease and move messages of a group, and let its members leave."""
    one = team.join(order="key")
    batch = team.take(one)
    team.ack(batch, (0, 1))
    team.nack(batch, (1, 2), delay=0.0)
    team.settle("reject", batch, (2, 3))
    assert team.poll(one, 1)
    team.leave(one)


def known(team: Team) -> list[object]:
    """Return everything that is kept by the name of a group."""
    it = team.coordinator
    return [
        it.lags._meters,
        it.polling._services.key_order._blocking,
        it.polling._lane_polling._schedulers,
        it.deadlines._armed,
        it.deadlines._by_subject,
    ]


def test_deleted_group_leaves_nothing_in_memory(team: Team) -> None:
    for number in range(20):
        team = Team(team.running, f"group-{number}")
        worked_with(team)
        assert team.delete() is None
    assert known(team) == [{}, {}, {}, {}, {}]
    assert len(team.coordinator.deadlines._heap) < 200


def test_group_deletion_refused_by_disk_happens_after_retention(team: Team) -> None:
    worked_with(team)
    team.running.refuse_writes("*/__consumer_offsets/*")
    assert isinstance(team.delete(), DiskFull)
    assert team.group.members == {}
    team.due(GROUP_RETENTION_SECONDS + 1.0)
    assert team.coordinator.store.group("team") is None
    assert team.coordinator.lags._meters == {}


def test_join_during_deletion_gets_a_rebalance(team: Team) -> None:
    worked_with(team)
    told = team.ask_to_delete()
    joined = team.ask_to_join("two")
    team.running.flush()
    assert told.result is None
    team.due(1.0)
    assert team.has(joined.result[0]) == [PartitionRef("orders", 0)]
