"""The order of polls: no partition and no waiting poll is forgotten."""

from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.errors import GroupNameInvalid, GroupNotFound, TopicNotFound
from tests.broker.brokers import Told, going_on, next_job
from tests.broker.groupwork import Team, values_of


def team_of(partitions: int, messages: int) -> Team:
    team = Team(partitions=partitions)
    for number in range(partitions):
        team.publish(*(f"{number}-{count}" for count in range(messages)), ref=PartitionRef("orders", number))
    return team


def test_member_with_little_room_reads_all_partitions() -> None:
    team = team_of(partitions=2, messages=40)
    one = team.join(in_flight_max=10)
    had: set[int] = set()
    for _ in range(6):
        batches = team.poll(one)
        assert team.poll(one) == [], "it asks again before it has room, as a consumer that reads ahead does"
        had |= {batch.partition for batch in batches}
        for batch in batches:
            team.ack(batch)
    assert had == {0, 1}


def test_ack_does_not_wake_poll_waiting_for_messages() -> None:
    team = team_of(partitions=1, messages=3)
    one = team.join()
    batch = team.take(one)
    assert team.poll(one) == []
    woken = team.watch(one)
    team.ack(batch, (0, 1))
    assert woken == []


def test_poll_refused_by_busy_partition_is_woken_when_free() -> None:
    team = team_of(partitions=1, messages=2)
    one = team.join()
    first = team.polling(one, 1)
    job = next_job(first)
    assert team.poll(one) == []
    woken = team.watch(one)
    team.do(going_on(first, job))
    assert woken == [one]
    assert len(values_of(team.poll(one))) == 1


def test_due_retry_with_blocked_key_wakes_poll(team: Team) -> None:
    team.publish("a1", "a2", "a3", key="a")
    one = team.join(order="key")
    team.nack(team.take(one, 1), delay=2.0)
    assert team.poll(one) == []
    team.due()
    woken = team.watch(one)
    team.due(1.0)
    assert woken == []
    team.due(1.0)
    assert woken == [one]
    assert values_of(team.poll(one)) == ["a1"]


def test_last_attempt_stays_alone_during_revocation() -> None:
    team = team_of(partitions=2, messages=3)
    one = team.join(confirms=True)
    for batch in team.poll(one):
        team.nack(batch, delay=0.0)
    for _ in range(2):
        for batch in team.poll(one):
            team.nack(batch, delay=0.0)
    alone = team.take(one)
    assert alone.grant.failures == 3
    team.join("two", confirms=True)
    assert len(team.group.partitions_to_revoke(one)) == 1
    assert team.poll(one) == []


def test_commit_during_retry_read_keeps_new_messages() -> None:
    team = team_of(partitions=1, messages=4)
    one = team.join()
    batch = team.take(one, 2)
    team.nack(batch, delay=0.0)
    poll = team.polling(one)
    job = next_job(poll)
    team.commit(one, 1)
    handed = team.do(going_on(poll, job))
    assert values_of(handed.batches) == ["0-1", "0-2", "0-3"]


def test_internal_group_is_not_visible_to_clients() -> None:
    team = team_of(partitions=1, messages=1)
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.group("__dead_letters")
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.delete("__dead_letters", Told[Any]())
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").join()
    with pytest.raises(TopicNotFound):
        team.reset("earliest", topic="__consumer_offsets")


def test_committed_offsets_are_reported_when_durable() -> None:
    team = team_of(partitions=1, messages=3)
    one = team.join()
    batch = team.take(one)
    told = team.ask_to_settle(one, team.command("ack", batch))
    assert team.coordinator.offsets.committed(team.name) == {"orders": {0: 0}}
    team.running.flush()
    assert told.result
    assert team.coordinator.offsets.committed(team.name) == {"orders": {0: 3}}


def test_default_client_id_does_not_identify_fenced_member() -> None:
    team = team_of(partitions=2, messages=1)
    one = team.join("till")
    team.join("till-2")
    assert len(team.has(one)) == 1
    fenced = team.coordinator.membership.session(team.name, one)
    fenced.is_fenced = True
    assert team.join("till", is_named=False) != one
    assert team.join("till") == one
