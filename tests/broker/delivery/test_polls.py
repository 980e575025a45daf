"""What a poll hands out: to whom, how much of it, in which order, and what is handed out alone."""

import errno
from typing import cast

import pytest

from goqueue.broker.delivery.taking import Handed, Portion
from goqueue.broker.work import Job, Promise, Work
from goqueue.errors import DiskFull, GenerationStale, GroupNotFound, LogFenced, MemberUnknown
from goqueue.storage.compaction import plan_compaction
from tests.broker.brokers import Running, frames_of
from tests.broker.groupwork import Team, offsets_of, values_of


def team_with(*values: str) -> tuple[Team, str]:
    team = Team()
    team.publish(*values)
    return team, team.join()


def fail(team: Team, portion: Portion, times: int = 1) -> None:
    """Let it fail so often, counting what comes of it."""
    team.nack(portion, delay=0.0)
    for _ in range(times - 1):
        team.nack(team.take(portion.grant.member), delay=0.0)


def decide(work: Work[Handed]) -> None:
    """Advance the work to where it waits for what it has decided to be durable."""
    job = next(work)
    while not isinstance(job, Promise):
        job = work.send(job())


def rest_of(work: Work[Handed], job: Job) -> Work[Handed]:
    """The work that was begun, from the job on that it has asked for."""
    try:
        while True:
            result: object = yield job
            job = cast(Job, work.send(result))
    except StopIteration as end:
        handed: Handed = end.value
        return handed


# --- how much, in which order ---


def test_new_messages_are_handed_out_in_their_order_and_once() -> None:
    team, one = team_with("a", "b", "c")
    assert [values_of(team.poll(one, 2)), values_of(team.poll(one, 2)), team.poll(one, 2)] == [["a", "b"], ["c"], []]


def test_what_is_to_be_tried_again_comes_before_what_is_new() -> None:
    team, one = team_with("a", "b", "c")
    team.nack(team.take(one, 1), delay=0.0)
    assert values_of(team.poll(one)) == ["a", "b", "c"]


def test_a_lease_is_a_range_with_the_same_history() -> None:
    team, one = team_with("a", "b", "c", "d")
    portion = team.take(one, 3)
    team.nack(portion, (0, 2), delay=0.0)
    team.say("release", portion, (2, 3))
    grants = [portion.grant for portion in team.poll(one)]
    assert sorted((grant.first, grant.end, grant.deliveries, grant.failures) for grant in grants) == [
        (0, 2, 2, 1),
        (2, 3, 2, 0),
        (3, 4, 1, 0),
    ]


def test_a_member_has_no_more_in_hand_than_it_said() -> None:
    team = Team()
    team.publish(*"abcdef")
    one = team.join(in_flight_max=4)
    portion = team.take(one, 3)
    assert values_of(team.poll(one)) == ["d"]
    assert team.poll(one) == []
    team.ack(portion, (0, 2))
    assert values_of(team.poll(one)) == ["e", "f"]


def test_what_waits_to_be_tried_again_takes_no_room() -> None:
    team = Team()
    team.publish("a", "b")
    one = team.join(in_flight_max=1)
    team.nack(team.take(one), delay=100.0)
    assert values_of(team.poll(one)) == ["b"]


def test_two_polls_of_one_member_at_once_get_no_more_than_one_would() -> None:
    running = Running()
    running.create("orders", 2)
    team = Team(running)
    for number in (0, 1):
        team.publish("a", "b", place=("orders", number))
    one = team.join(in_flight_max=2)
    first, second = team.polling(one), team.polling(one)
    read = next(first)  # its place is not decided yet
    assert not isinstance(read, Promise)
    handed = team.do(second)
    other = team.do(rest_of(first, read))
    assert len(values_of(handed.portions)) == 2
    assert other.portions == []


def test_bytes_are_limited_and_one_message_is_always_had() -> None:
    team, one = team_with("a" * 1000, "b" * 1000, "c" * 1000)
    assert len(values_of(team.poll(one, bytes_max=1))) == 1
    assert len(values_of(team.poll(one, bytes_max=2500))) == 2


def test_every_place_has_its_turn() -> None:
    running = Running()
    running.create("orders", 3)
    team = Team(running)
    for number in range(3):
        team.publish("a", "b", place=("orders", number))
    one = team.join()
    assert {portion.partition for _ in range(3) for portion in team.poll(one, 1)} == {0, 1, 2}


def test_a_topic_that_compaction_has_thinned_out_is_handed_out_without_its_holes() -> None:
    team = Team(Running())
    team.running.create("orders", cleanup="compact")
    for value in ("a1", "b1", "a2", "b2"):
        team.publish(value, key=value[0])
    log = team.running.partition().log
    log.roll()
    team.publish("c1", key="c")
    job = plan_compaction(log, team.running.disk, now_ns=team.running.clock.now_ns())
    while not job.is_done:
        job.run()
        job.apply()
    one = team.join()
    portions = team.poll(one)
    assert values_of(portions) + values_of(team.poll(one)) == ["a2", "b2", "c1"]
    assert team.cursor().leased == 3
    for portion in portions:
        team.ack(portion)
    assert team.cursor().floor >= 4


def test_what_retention_was_quicker_with_is_counted_and_passed_over_at_once() -> None:
    team, one = team_with("a", "b", "c", "d", "e")
    portion = team.take(one, 3)
    team.nack(portion, (0, 1), delay=0.0)
    team.expire()
    team.publish("f")
    assert values_of(team.poll(one)) == ["f"]
    cursor = team.crash().cursor()
    assert (cursor.floor, cursor.lost) == (5, 3)


# --- to whom ---


def test_a_group_that_is_not_there_and_a_member_that_is_none_get_nothing() -> None:
    team = Team()
    with pytest.raises(GroupNotFound):
        team.poll("one")
    team.join()
    with pytest.raises(MemberUnknown):
        team.poll("stranger")


def test_a_stale_generation_gets_nothing() -> None:
    team, one = team_with("a")
    team.reset("earliest")
    with pytest.raises(GenerationStale) as refusal:
        team.poll(one, generation=1)
    assert refusal.value.details["generation"] == 2
    assert values_of(team.poll(one, generation=2)) == ["a"]


def test_each_member_is_handed_what_it_has_and_nothing_else() -> None:
    running = Running()
    running.create("orders", 2)
    team = Team(running)
    team.publish("a", place=("orders", 0))
    team.publish("b", place=("orders", 1))
    one, two = team.ask_to_join("one"), team.ask_to_join("two")
    team.due(0.03)
    found = [values_of(team.poll(told.result[0])) for told in (one, two)]
    assert sorted(found) == [["a"], ["b"]]


def test_what_a_member_is_asked_to_give_up_is_handed_to_nobody() -> None:
    running = Running()
    running.create("orders", 2)
    team = Team(running)
    one = team.join("one", confirms=True)
    two = team.join("two")
    for number in (0, 1):
        team.publish("a", place=("orders", number))
    assert len(team.poll(one)) == 1
    assert team.poll(two) == []
    team.revoke(one, *team.group.to_give_up(one))
    assert len(team.poll(two)) == 1


def test_a_poll_says_when_there_is_something_to_learn() -> None:
    running = Running()
    running.create("orders", 2)
    team = Team(running)
    one = team.join("one")
    assert not team.ask_poll(one, generation=1).is_news
    team.join("two")
    assert team.group.generation == 3
    with pytest.raises(GenerationStale):
        team.ask_poll(one, generation=1)
    two = team.join("three")
    assert team.has(two) == []


# --- durable first ---


def test_nothing_is_handed_out_before_it_is_durable_that_it_is() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    decide(work)
    after = team.crash()
    assert after.cursor().position == 0
    assert after.take(one).grant.deliveries == 1
    assert after.crash().cursor().leased == 1


def test_what_the_disk_refuses_is_handed_out_to_nobody() -> None:
    team, one = team_with("a")
    team.running.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        team.poll(one)
    assert team.cursor().leased == 0
    assert team.take(one).grant.deliveries == 1


def test_a_fenced_log_hands_out_nothing() -> None:
    team, one = team_with("a")
    team.running.disk.fail("sync", errno.EIO, path="*/__consumer_offsets/*.log")
    for _ in range(2):
        with pytest.raises(LogFenced):
            team.poll(one)


def test_who_leaves_before_it_is_durable_gives_back_what_it_would_have_had() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    decide(work)
    work.close()
    team.running.flush()
    again = team.take(one)
    assert (again.grant.deliveries, again.grant.failures) == (2, 0)


def test_who_leaves_while_more_is_read_gives_back_what_it_would_have_had() -> None:
    running = Running()
    running.create("orders", 2)
    team = Team(running)
    for number in (0, 1):
        team.publish("a", place=("orders", number))
    one = team.join()
    work = team.polling(one)
    job = next(work)
    assert not isinstance(job, Promise)
    job = work.send(job())
    assert not isinstance(job, Promise), "one place is decided, the other one is read"
    assert sum(team.cursor(("orders", number)).leased for number in (0, 1)) == 1
    work.close()
    team.running.flush()
    assert sum(team.cursor(("orders", number)).leased for number in (0, 1)) == 0
    assert len(team.poll(one)) == 2


def test_when_the_place_goes_to_another_while_it_is_read_nothing_is_handed_out() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    job = next(work)
    assert not isinstance(job, Promise)
    team.leave(one)
    two = team.join("two")
    with pytest.raises(StopIteration) as end:
        work.send(job())
    assert end.value.value.portions == []
    assert values_of(team.poll(two)) == ["a"]


# --- the last chance ---


def test_a_message_whose_next_failure_is_its_last_is_handed_out_alone() -> None:
    team, one = team_with("a", "b", "c")
    fail(team, team.take(one, 1))
    for _ in range(2):
        team.nack(team.take(one, 1), delay=0.0)
    lone = team.take(one)
    assert (values_of([lone]), lone.grant.failures) == (["a"], 3)
    assert team.poll(one) == []
    team.ack(lone)
    assert values_of(team.poll(one)) == ["b", "c"]


def test_it_waits_until_its_member_has_nothing_else_in_hand() -> None:
    team, one = team_with("a", "b", "c")
    fail(team, team.take(one, 1))
    team.nack(team.take(one, 1), delay=0.0)
    again, other = team.take(one, 1), team.take(one, 1)
    team.nack(again, delay=0.0)
    assert values_of([other]) == ["b"]
    assert team.poll(one) == []
    team.ack(other)
    assert values_of(team.poll(one)) == ["a"]


def test_several_of_them_come_one_by_one() -> None:
    team, one = team_with("a", "b")
    for _ in range(3):
        team.nack(team.take(one), delay=0.0)
    for value in ("a", "b"):
        lone = team.take(one)
        assert values_of([lone]) == [value]
        team.ack(lone)
    assert team.cursor().floor == 2


def test_it_is_alone_after_a_crash_too() -> None:
    team, one = team_with("a", "b")
    for _ in range(3):
        team.nack(team.take(one, 1), delay=0.0)
    team = team.crash()
    assert values_of(team.poll(one)) == ["a"]
    team = team.crash()
    assert team.poll(one) == []


def test_when_the_last_chance_has_gone_with_retention_the_others_are_handed_out() -> None:
    team, one = team_with("a")
    for _ in range(3):
        team.nack(team.take(one), delay=0.0)
    team.expire()
    team.publish("b")
    assert values_of(team.poll(one)) == ["b"]


def test_dead_letters_have_no_last_chance() -> None:
    team = Team(Running())
    team.running.create("orders.dlq")
    team.running.publish(frames_of([b"a", b"b"]), "orders.dlq")
    one = team.join(topics=["orders.dlq"])
    for failures in range(6):
        portion = team.take(one)
        assert (values_of([portion]), portion.grant.failures) == (["a", "b"], failures)
        team.nack(portion, delay=0.0)


# --- who waits is woken ---


def test_who_waits_for_room_is_woken_when_there_is_enough_of_it() -> None:
    team = Team()
    team.publish(*"abcdefghij")
    one = team.join(in_flight_max=8)
    portion = team.take(one, 8)
    presence = team.coordinator.rebalancer.attendance("team").presence(one, 0)
    woken: list[str] = []
    assert team.poll(one) == []
    presence.waiting[lambda: woken.append("now")] = None
    team.ack(portion, (0, 1))
    assert woken == []
    team.ack(portion, (1, 2))
    assert woken == ["now"]
    assert offsets_of(team.take(one)) == [8, 9]


def test_who_waits_is_woken_when_something_is_due() -> None:
    team, one = team_with("a")
    team.nack(team.take(one))
    presence = team.coordinator.rebalancer.attendance("team").presence(one, 0)
    woken: list[str] = []
    presence.waiting[lambda: woken.append("now")] = None
    team.due(0.5)
    assert woken == []
    team.due(0.5)
    assert woken == ["now"]
