"""Whose turn it is: no partition waits for ever behind others, and nobody who waits is forgotten."""

from typing import Any

import pytest

from goqueue.broker.work import Promise
from goqueue.errors import GroupNameInvalid, GroupNotFound, TopicNotFound
from tests.broker.brokers import Running, Told
from tests.broker.groupwork import Team, values_of


def team_of(partitions: int, messages: int) -> Team:
    running = Running()
    running.create("orders", partitions)
    team = Team(running)
    for number in range(partitions):
        team.publish(*(f"{number}-{count}" for count in range(messages)), place=("orders", number))
    return team


def waits(team: Team, member: str) -> list[None]:
    """Fills when the member is woken."""
    woken: list[None] = []
    team.coordinator.membership.presence(team.name, member).waiting[lambda: woken.append(None)] = None
    return woken


def test_a_member_that_is_short_of_room_reads_all_its_partitions() -> None:
    team = team_of(partitions=2, messages=40)
    one = team.join(in_flight_max=10)
    had: set[int] = set()
    for _ in range(6):
        portions = team.poll(one)
        assert team.poll(one) == [], "it asks again before it has room, as a consumer that reads ahead does"
        had |= {portion.partition for portion in portions}
        for portion in portions:
            team.ack(portion)
    assert had == {0, 1}


def test_an_ack_wakes_nobody_who_waits_for_messages_and_not_for_room() -> None:
    team = team_of(partitions=1, messages=3)
    one = team.join()
    portion = team.take(one)
    assert team.poll(one) == []
    woken = waits(team, one)
    team.ack(portion, (0, 1))
    assert woken == []


def test_whoever_was_turned_away_from_a_place_is_called_when_it_is_free() -> None:
    team = team_of(partitions=1, messages=2)
    one = team.join()
    first = team.polling(one, 1)
    job = next(first)
    assert not isinstance(job, Promise)
    assert team.poll(one) == []
    woken = waits(team, one)
    finish(team, first, job)
    assert woken == [None]
    assert len(values_of(team.poll(one))) == 1


def finish(team: Team, work: Any, job: Any) -> Any:
    """The rest of a poll, of which a job is to be done."""
    try:
        while True:
            if isinstance(job, Promise):
                team.running.flush()
                job = work.send(job.result())
            else:
                job = work.send(job())
    except StopIteration as end:
        return end.value


def test_a_retry_behind_which_others_of_its_key_are_held_back_wakes_who_waits_when_it_is_due() -> None:
    running = Running()
    running.create("orders")
    team = Team(running)
    team.publish("a1", "a2", "a3", key="a")
    one = team.join(order="key")
    team.nack(team.take(one, 1), delay=2.0)
    assert team.poll(one) == []
    team.due()
    woken = waits(team, one)
    team.due(1.0)
    assert woken == []
    team.due(1.0)
    assert woken == [None]
    assert values_of(team.poll(one)) == ["a1"]


def test_a_last_try_stays_alone_while_its_partition_is_asked_back() -> None:
    team = team_of(partitions=2, messages=3)
    one = team.join(confirms=True)
    for portion in team.poll(one):
        team.nack(portion, delay=0.0)
    for _ in range(2):
        for portion in team.poll(one):
            team.nack(portion, delay=0.0)
    alone = team.take(one)
    assert alone.grant.failures == 3
    team.join("two", confirms=True)
    assert len(team.group.to_give_up(one)) == 1
    assert team.poll(one) == []


def test_a_commit_while_a_retry_is_read_does_not_hide_what_is_new() -> None:
    team = team_of(partitions=1, messages=4)
    one = team.join()
    portion = team.take(one, 2)
    team.nack(portion, delay=0.0)
    poll = team.polling(one)
    job = next(poll)
    assert not isinstance(job, Promise)
    team.commit(one, 1)
    handed = finish(team, poll, job)
    assert values_of(handed.portions) == ["0-1", "0-2", "0-3"]


def test_what_the_broker_keeps_for_itself_is_no_group_of_clients() -> None:
    team = team_of(partitions=1, messages=1)
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.group("__dead_letters")
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.delete("__dead_letters", Told[Any]())
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").join()
    with pytest.raises(TopicNotFound):
        team.reset("earliest", topic="__consumer_offsets")


def test_offsets_are_told_when_they_are_durable() -> None:
    team = team_of(partitions=1, messages=3)
    one = team.join()
    portion = team.take(one)
    told = team.ask_to_settle(one, team.statement("ack", portion))
    assert team.coordinator.offsets.committed(team.name) == {"orders": {0: 0}}
    team.running.flush()
    assert told.result
    assert team.coordinator.offsets.committed(team.name) == {"orders": {0: 3}}


def test_a_name_that_all_have_who_give_none_is_nobodys_way_back() -> None:
    team = team_of(partitions=2, messages=1)
    one = team.join("till")
    team.join("till-2")
    assert len(team.has(one)) == 1
    fenced = team.coordinator.membership.presence(team.name, one)
    fenced.is_fenced = True
    assert team.join("till", is_named=False) != one
    assert team.join("till") == one
