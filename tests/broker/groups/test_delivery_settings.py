"""Delivery settings of groups and topics: whose holds, what follows from it, and that it is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goqueue.broker.core.delivery_settings import NOTHING_SET, DeliverySettings
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import Topic
from goqueue.broker.groups.records import Group, decode_group_record, encode_group_record
from goqueue.broker.groups.retries import DeliveryPolicy, resolve_delivery
from goqueue.broker.groups.settlement import DroppedMessages
from goqueue.clock import NANOSECONDS
from goqueue.errors import DeadLetterFinal, GoQueueError, RequestInvalid
from goqueue.storage import frame
from goqueue.storage.log import LogSettings
from tests.broker.brokers import KEEPS, Running, Told
from tests.broker.groups.dead_letter_setup import redrive, settle
from tests.broker.groupwork import GATHERED, ORDERS, Team, team_with, values_of

SECONDS = st.sampled_from((None, 0.5, 1.0, 5.0, 60.0, 600.0))
SETTINGS = st.builds(
    DeliverySettings,
    max_retries=st.sampled_from((None, 0, 1, 7, "unlimited")),
    retry_delay=SECONDS,
    max_retry_delay=SECONDS,
    visibility_timeout=SECONDS,
    dead_letter_topic=st.sampled_from((None, "failed", "none", "orders")),
).filter(lambda one: (one.retry_delay or 0) <= (one.max_retry_delay or 1e9))


def alter_topic(running: Running, name: str = "orders", **settings: Any) -> None:
    told: Told[Any] = Told()
    running.broker.alter_topic(name, settings, told)
    running.flush()
    assert told.result


def fail(team: Team, member: str, times: int = 1) -> Any:
    """Fail the next message so often; return the last outcome."""
    outcome = None
    for _ in range(times):
        outcome = team.nack(team.take(member), delay=0.0)
    return outcome


def team_of_topic(**settings: Any) -> tuple[Team, str]:
    team = Team(**settings)
    team.publish("a")
    return team, team.join()


# --- the rule ---


@given(SETTINGS, SETTINGS, st.sampled_from(("orders", "orders.dlq")))
def test_each_setting_is_of_the_first_level_that_has_it(
    of_group: DeliverySettings, of_topic: DeliverySettings, topic: str
) -> None:
    broker = DeliveryPolicy()
    found = resolve_delivery(topic, broker, of_topic, of_group)
    levels = {"group": of_group, "topic": of_topic}

    def first(name: str, default: Any) -> tuple[Any, str]:
        named = ((getattr(one, name), level) for level, one in levels.items() if getattr(one, name) is not None)
        return next(named, (default, "broker"))

    policy, origins = found.policy, found.origins
    lease, whose = first("visibility_timeout", 30.0)
    assert (policy.visibility_ns, origins["visibility_timeout"]) == (round(lease * NANOSECONDS), whose)
    (wait, whose), (most, other) = first("retry_delay", 1.0), first("max_retry_delay", 60.0)
    order = ["group", "topic", "broker"]
    if wait > most:  # the earlier level decides for both
        wait = most = wait if order.index(whose) < order.index(other) else most
    assert (policy.retry_ns, policy.retry_ns_max) == (round(wait * NANOSECONDS), round(most * NANOSECONDS))
    target, _ = first("dead_letter_topic", None if topic.endswith(".dlq") else f"{topic}.dlq")
    goes_to = None if target in ("none", topic) else target
    assert (policy.dead_letter_topic, policy.drops) == (goes_to, target == "none")
    retries, _ = first("max_retries", 3)
    is_endless = retries == "unlimited" or policy.is_final
    assert policy.retries_max == (None if is_endless else retries)
    assert policy.is_last_attempt(10**9) is not is_endless


def test_group_setting_goes_before_that_of_the_topic() -> None:
    team, one = team_of_topic(max_retries=1)
    other = Team(team.running, "other")
    two = other.join()
    team.alter(max_retries=2)
    assert [fail(other, two, 2).requeued, fail(team, one, 2).requeued] == [False, True]
    assert not fail(team, one).requeued


def test_topic_setting_goes_before_that_of_the_broker() -> None:
    team, one = team_of_topic(retry_delay=8.0, visibility_timeout=5.0)
    batch = team.take(one, visibility=None)
    assert batch.grant.until_ns - batch.grant.given_ns == 5 * NANOSECONDS
    team.nack(batch)
    team.due(7.9)
    assert team.poll(one) == []
    team.due(0.1)
    assert team.poll(one)


def test_visibility_of_a_poll_goes_before_all_others() -> None:
    team, one = team_with("a", delivery={"visibility_timeout": 5.0})
    assert team.take(one, visibility=9.0).grant.until_ns == team.coordinator.clock.now_ns() + 9 * NANOSECONDS


def test_changed_setting_holds_for_the_next_failure() -> None:
    team, one = team_with("a")
    fail(team, one, 3)
    team.alter(max_retries="unlimited")
    assert fail(team, one, 20).requeued
    team.alter(max_retries=None)
    assert not fail(team, one).requeued


def test_last_attempt_by_the_setting_of_the_group_is_delivered_alone() -> None:
    team, one = team_with("a", "b", delivery={"max_retries": 1})
    batch = team.take(one)
    team.nack(batch, (0, 1), delay=0.0)
    team.ack(batch, (1, 2))
    team.publish("c")
    assert values_of(team.poll(one)) == ["a"]
    assert team.poll(one) == []


# --- who sets it ---


def test_last_join_that_names_a_value_sets_it() -> None:
    team = Team()
    one = team.join("one", delivery={"max_retries": 5, "retry_delay": 2.0})
    assert team.group.delivery == DeliverySettings(max_retries=5, retry_delay=2.0)
    team.ask_to_join("two", delivery={"max_retries": 7})
    team.ask_to_join("three", delivery={"max_retries": 9})
    team.join("four")
    assert team.group.delivery == DeliverySettings(max_retries=9, retry_delay=2.0)
    team.join("one", member_id=one, delivery={"max_retries": 4})
    assert team.group.delivery.max_retries == 4
    assert len(team.group.members) == 4


def test_change_while_a_member_joins_is_the_last_word() -> None:
    team, _ = team_with()
    team.ask_to_join("two", delivery={"max_retries": 7, "retry_delay": 2.0})
    team.alter(max_retries=1)
    team.due(GATHERED)
    assert team.group.delivery == DeliverySettings(max_retries=1, retry_delay=2.0)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    team, one = team_with(delivery={"max_retry_delay": 10.0})
    for settings in ({"retry_delay": 20.0}, {"dead_letter_topic": "orders"}, {"dead_letter_topic": "__metadata"}):
        with pytest.raises(RequestInvalid):
            team.alter(**settings)
        with pytest.raises(RequestInvalid):
            team.ask_to_join("two", delivery=settings)
    assert team.group.delivery == DeliverySettings(max_retry_delay=10.0)
    team.leave(one)
    with pytest.raises(RequestInvalid, match="reads topic 'orders'"):
        team.alter(dead_letter_topic="orders")
    team.alter(dead_letter_topic="failed")
    team.running.create("failed")
    with pytest.raises(RequestInvalid, match="which is its dead_letter_topic"):
        team.ask_to_join("two", topics=["failed"])


@pytest.mark.parametrize("target", ["orders", "__consumer_offsets", "no/name"])
def test_topic_refuses_a_dead_letter_topic_that_it_cannot_have(target: str) -> None:
    running = Running()
    with pytest.raises(RequestInvalid, match="dead_letter_topic"):
        running.ask_to_create("orders", dead_letter_topic=target)
    running.create("orders")
    with pytest.raises(RequestInvalid, match="dead_letter_topic"):
        running.broker.alter_topic("orders", {"dead_letter_topic": target}, Told[Topic]())
    assert running.broker.topic("orders").settings.dead_letter_topic is None


def test_topics_refuse_dead_letters_in_a_circle() -> None:
    running = Running()
    for name, target in (("c", None), ("b", "c"), ("a", "b")):
        running.create(name, dead_letter_topic=target)
    with pytest.raises(RequestInvalid, match="c to a to b to c"):
        running.broker.alter_topic("c", {"dead_letter_topic": "a"}, Told[Topic]())


# --- other dead-letter topics ---


def test_dead_letters_go_to_the_topic_that_the_group_names() -> None:
    team, one = team_with("a", partitions=2, delivery={"max_retries": 0, "dead_letter_topic": "failed"})
    assert fail(team, one).dead_letter_topic == "failed"
    team.move_dead_letters()
    (letter,) = team.messages("failed")
    assert (letter.value, dict(letter.headers)["dlq.topic"]) == (b"a", b"orders")
    assert len(team.running.broker.topic("failed").partitions) == 2
    assert "orders.dlq" not in team.running.names()


def test_shared_dead_letter_topic_is_redriven_topic_by_topic() -> None:
    running = Running()
    for name in ("orders", "payments"):
        running.create(name, dead_letter_topic="failed")
    team = Team(running)
    team.publish("a")
    team.publish("b", ref=PartitionRef("payments", 0))
    member = team.join(topics=("orders", "payments"))
    for batch in team.poll(member):
        team.settle("reject", batch)
    settle(running)
    assert len(team.messages("failed")) == 2
    report = redrive(running, "payments")
    assert (report.moved, [one.target_topic for one in report.results], report.topic) == (1, ["payments"], "failed")
    assert redrive(running, "failed").moved == 1
    assert values_of(team.poll(member)) == ["a", "b"]


def test_dead_letters_of_one_group_are_found_by_its_name() -> None:
    team, one = team_with("a", delivery={"dead_letter_topic": "failed"})
    team.settle("reject", team.take(one))
    settle(team.running)
    assert redrive(team.running, is_dry=True).topic == "failed"  # there are no others yet
    team.alter(dead_letter_topic=None)
    team.publish("b")
    team.settle("reject", team.take(one))
    settle(team.running)
    team.alter(dead_letter_topic="failed")
    assert [redrive(team.running, group=group, is_dry=True).topic for group in (None, "team")] == [
        "orders.dlq",
        "failed",
    ]
    assert redrive(team.running, group="team").moved == 1


def test_reader_of_a_dead_letter_topic_may_give_up_where_a_setting_says_so() -> None:
    running = Running()
    running.create("orders.dlq")
    team = Team(running)
    team.publish("a", ref=PartitionRef("orders.dlq", 0))
    one = team.join(topics=("orders.dlq",), delivery={"max_retries": 0})
    batch = team.take(one)
    with pytest.raises(DeadLetterFinal):
        team.settle("reject", batch)
    team.nack(batch, delay=0.0)
    assert fail(team, one, 9).requeued
    team.alter(dead_letter_topic="lost")
    assert fail(team, one).dead_letter_topic == "lost"


# --- dropped ---


def dropping(*values: str, **delivery: Any) -> tuple[Team, str, list[DroppedMessages]]:
    """A group that drops what fails for the last time, and what was reported of it."""
    team, one = team_with(*values, delivery={"max_retries": 0, "dead_letter_topic": "none", **delivery})
    told: list[DroppedMessages] = []
    team.coordinator.settlement.on_dropped.subscribe(told.append)
    return team, one, told


def test_message_without_a_dead_letter_topic_is_dropped_counted_and_reported() -> None:
    team, one, told = dropping("a", "b")
    batch = team.take(one)
    asked = team.ask_to_settle(one, team.command("nack", batch, [(0, 1)], reason="broken"))
    assert told == []  # it is not durable yet
    team.running.flush()
    (outcome,) = asked.result
    assert not isinstance(outcome, GoQueueError)
    assert (outcome.requeued, outcome.dropped, outcome.dead_letter_topic) == (False, 1, None)
    assert told == [DroppedMessages("team", ORDERS, [(0, 1)], "broken", 1)]
    assert team.settle("reject", batch, (1, 2)).dropped == 1
    assert team.coordinator.settlement.counts.drops == 2
    assert team.crash().cursor().floor == 2
    assert team.running.names() == {"orders"}


def test_messages_of_a_vanished_member_are_dropped() -> None:
    team, one, told = dropping("a")
    team.take(one, visibility=600.0)
    team.due(31.0)
    team.due(GATHERED)
    assert [dropped.error for dropped in told] == ["its consumer is gone"]
    assert (team.cursor().floor, team.cursor().run_count) == (1, 0)


def test_message_of_an_aborted_transaction_is_dropped() -> None:
    team, one, told = dropping("a", "b")
    team.ack_in_transaction(team.take(one))
    team.end_transaction(is_commit=False)
    assert [dropped.ranges for dropped in told] == [[(0, 2)]]
    assert team.crash().cursor().floor == 2


def test_drop_that_the_disk_refuses_is_not_reported() -> None:
    team, one, told = dropping("a")
    batch = team.take(one)
    team.running.refuse_writes()
    asked = team.ask_to_settle(one, team.command("nack", batch))
    team.running.flush()
    assert isinstance(asked.all[0], GoQueueError)
    assert (told, team.coordinator.settlement.counts.drops, team.cursor().leased) == ([], 0, 1)


# --- kept ---


@pytest.mark.parametrize("keep", KEEPS)
def test_answered_settings_survive_a_crash(keep: Any) -> None:
    team, _ = team_with(delivery={"retry_delay": 2.0})
    team.alter(max_retries="unlimited", dead_letter_topic="none")
    settings = team.group.delivery
    assert team.crash(keep).group.delivery == settings
    assert settings == DeliverySettings(retry_delay=2.0, max_retries="unlimited", dead_letter_topic="none")


def test_settings_survive_rewriting_and_a_restart() -> None:
    team, one = team_with("a", delivery={"max_retries": 8})
    group_log = team.coordinator.store.group_log
    group_log._bytes_max, group_log.log.settings = 100, LogSettings(100)
    team.ack(team.take(one))
    team.do(team.running.broker.groups.rewrite_logs())
    assert group_log.log.first_offset > 0
    assert team.restart().group.delivery == DeliverySettings(max_retries=8)


def test_group_that_lost_records_keeps_its_settings() -> None:
    group = Group(group="team", delivery=DeliverySettings(max_retries=8))
    assert group.without_members(3, 1).delivery == DeliverySettings(max_retries=8)


def test_record_of_a_group_without_settings_is_as_before() -> None:
    old = b'{"record":"group_stands","group":"team","generation":3}'
    record = decode_group_record(frame.decode(frame.encode(old, b"team")))
    assert isinstance(record, Group)
    assert record.delivery is NOTHING_SET
    assert frame.decode(encode_group_record(record)).value == old
    assert frame.decode(encode_group_record(replace(record, generation=3))).value == old


def test_settings_that_are_taken_back_leave_the_record_as_before() -> None:
    team, _ = team_with(delivery={"max_retries": 8})
    team.alter(max_retries=None)
    assert b"delivery" not in frame.decode(encode_group_record(team.group)).value
