"""Dead letters: which messages become one, what they say of themselves, and that none is lost or doubled."""

import errno
from collections.abc import Iterator

import pytest

from goqueue.broker.delivery import deadletter
from goqueue.broker.delivery.changes import Departed, Move, Rewound, Settled
from goqueue.broker.delivery.transfer import TOLD_PREFIX, origins_in
from goqueue.broker.groups.state import decode_record
from goqueue.errors import DeadLetterFinal, GoQueueError
from goqueue.limits import DEAD_LETTERS_AT_ONCE, HEADERS_BYTES_MAX, REASON_CHARACTERS_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, Told, frames_of
from tests.broker.groupwork import Team, values_of

KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


def team_with(*values: str, partitions: int = 1) -> tuple[Team, str]:
    team = Team(partitions=partitions)
    if values:
        team.publish(*values)
    return team, team.join()


def told_by(message: frame.Message) -> dict[str, str]:
    return {
        name.removeprefix(TOLD_PREFIX): text.decode() for name, text in message.headers if name.startswith(TOLD_PREFIX)
    }


def dead_letters(team: Team) -> list[str]:
    return [message.value.decode() for message in team.messages()]


# --- which messages ---


def test_after_three_retries_a_message_is_a_dead_letter() -> None:
    team, one = team_with("a")
    for _ in range(3):
        assert team.nack(team.take(one), delay=0.0).requeued
    outcome = team.nack(team.take(one))
    assert (outcome.requeued, outcome.dead_letter_topic) == (False, "orders.dlq")
    team.carry()
    assert dead_letters(team) == ["a"]
    assert (team.cursor().floor, team.cursor().run_count) == (1, 0)


def test_expiries_count_as_well_as_what_consumers_say() -> None:
    team, one = team_with("a")
    for _ in range(4):
        team.take(one, visibility=1.0)
        team.due(1.0)
    assert team.poll(one) == []
    team.carry()
    assert told_by(team.messages()[0])["error"] == "the visibility timeout has passed"


def test_giving_back_does_not_count() -> None:
    team, one = team_with("a")
    for _ in range(9):
        team.say("release", team.take(one))
    assert team.take(one).grant.failures == 0


def test_what_is_rejected_is_one_at_once() -> None:
    team, one = team_with("a", "b", "c")
    outcome = team.say("reject", team.take(one), (1, 2), reason="no such customer")
    team.carry()
    assert outcome.moved == [("team", ("orders", 0), 1)]
    assert (dead_letters(team), told_by(team.messages()[0])["error"]) == (["b"], "no such customer")
    assert team.cursor().leased == 2


def test_dead_letters_have_no_dead_letters() -> None:
    running = Running()
    running.create("orders.dlq")
    running.publish(frames_of([b"a"]), "orders.dlq")
    team = Team(running)
    one = team.join(topics=["orders.dlq"])
    portion = team.take(one)
    with pytest.raises(DeadLetterFinal):
        team.say("reject", portion)
    for _ in range(5):
        team.nack(portion, delay=0.0)
        portion = team.take(one)
    assert running.names() == {"orders.dlq"}


# --- what they say ---


def test_a_dead_letter_says_where_it_came_from_and_why_and_is_the_same_otherwise() -> None:
    running = Running()
    running.create()
    headers = frame.encode_headers([("trace", b"1"), ("dlq.topic", b"a lie")])
    running.publish(frame.encode(b"value", b"key", headers, priority=1))
    team = Team(running)
    one = team.join()
    first_ns = team.coordinator.clock.now_ns()
    team.nack(team.take(one), delay=5.0)
    team.due(5.0)
    team.say("reject", team.take(one), reason="broken")
    team.carry()
    (message,) = team.messages()
    assert (message.value, message.key, message.priority) == (b"value", b"key", 1)
    assert told_by(message) == {
        "topic": "orders",
        "partition": "0",
        "offset": "0",
        "group": "team",
        "error": "broken",
        "attempts": "2",
        "first-time": format_time(first_ns),
        "last-time": format_time(first_ns + 5 * 10**9),
    }
    assert [name for name, _ in message.headers].count("trace") == 1
    assert [value for name, value in message.headers if name == "__moved"] == [b"team/orders/0/0"]


def test_a_reason_may_be_long() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one), reason="ü" * 10_000)
    team.carry()
    assert len(told_by(team.messages()[0])["error"]) == REASON_CHARACTERS_MAX


def test_where_headers_leave_no_room_the_largest_go_and_that_is_said() -> None:
    running = Running()
    running.create(max_message_bytes=1 << 20)
    own = [("large", bytes(HEADERS_BYTES_MAX - 100)), ("small", b"1")]
    running.publish(frame.encode(b"value", None, frame.encode_headers(own)))
    team = Team(running)
    team.say("reject", team.take(team.join()))
    team.carry()
    (message,) = team.messages()
    names = [name for name, _ in message.headers]
    assert ("small" in names, "large" in names, told_by(message)["omitted"]) == (True, False, "1")


# --- where they go ---


def test_the_topic_of_dead_letters_has_as_many_partitions_as_its_origin() -> None:
    team, one = team_with(partitions=3)
    team.publish("a", place=("orders", 2))
    team.say("reject", team.take(one))
    team.carry()
    assert [len(team.messages("orders.dlq", number)) for number in range(3)] == [0, 0, 1]


def test_one_that_has_fewer_partitions_takes_them_all_the_same() -> None:
    team, one = team_with(partitions=3)
    team.running.create("orders.dlq")
    team.publish("a", place=("orders", 2))
    team.say("reject", team.take(one))
    team.carry()
    assert dead_letters(team) == ["a"]


def test_while_somebody_else_makes_that_topic_they_wait() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    told = team.running.ask_to_create("orders.dlq")
    team.carry()
    team.running.flush()
    assert told.result.name == "orders.dlq"
    team.due(1.0)
    team.carry()
    assert dead_letters(team) == ["a"]


def test_more_than_are_carried_at_once_arrive_in_their_order() -> None:
    count = DEAD_LETTERS_AT_ONCE * 2 + 1
    team, one = team_with(*map(str, range(count)))
    while portions := team.poll(one, 1000):
        for portion in portions:
            team.say("reject", portion)
    team.carry()
    assert dead_letters(team) == [str(number) for number in range(count)]
    assert team.cursor().floor == count


def test_what_retention_has_taken_meanwhile_is_done_with() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    team.expire()
    team.carry()
    assert (team.cursor().floor, team.cursor().moving.count) == (1, 0)


def test_when_the_topic_is_deleted_meanwhile_nothing_is_carried() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    team.running.delete()
    team.carry()
    team.due(0.03)
    assert team.coordinator.undertaker.is_idle


def test_a_group_that_was_set_back_reads_what_was_carried_once_more() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    team.reset("earliest")
    assert values_of(team.poll(one)) == ["a"]
    team.carry()
    assert team.cursor().leased == 1


# --- when they have arrived ---


def test_who_waits_for_one_hears_when_it_is_there_and_at_once_when_it_was() -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    heard: list[str] = []
    undertaker = team.coordinator.undertaker
    undertaker.when_arrived("team", ("orders", 0), 0, lambda: heard.append("later"))
    undertaker.when_arrived("team", ("orders", 7), 0, lambda: heard.append("unknown"))
    assert heard == ["unknown"]
    team.carry()
    undertaker.when_arrived("team", ("orders", 0), 0, lambda: heard.append("at once"))
    assert heard == ["unknown", "later", "at once"]


def waiting_for_one() -> tuple[Team, str, list[str]]:
    """Somebody who waits until a message is among the dead letters."""
    team, one = team_with("a")
    team.say("reject", team.take(one))
    heard: list[str] = []
    team.coordinator.undertaker.when_arrived("team", ("orders", 0), 0, lambda: heard.append("told"))
    return team, one, heard


def forgets_all(team: Team) -> bool:
    undertaker = team.coordinator.undertaker
    return undertaker._waiting == undertaker._unsure == undertaker._searches == {}


def test_who_waits_is_told_when_the_group_was_set_back() -> None:
    team, _, heard = waiting_for_one()
    team.reset("latest")
    team.carry()
    assert heard == ["told"]
    assert forgets_all(team)


def test_nobody_is_told_before_it_is_durable_that_the_group_was_set_back() -> None:
    team, _, heard = waiting_for_one()
    team.coordinator.ledger.record("team", [Rewound("team", "orders", 0, floor=0)])
    team.running.disk.fail("write", errno.ENOSPC, path="*/__consumer_offsets/*")
    team.carry()
    assert (heard, team.cursor().moving.count) == ([], 1)
    team.due(1.0)
    team.carry()
    assert (heard, dead_letters(team)) == (["told"], ["a"])
    assert forgets_all(team)


def test_who_waits_is_told_when_the_group_is_gone() -> None:
    team, one, heard = waiting_for_one()
    team.leave(one)
    told: Told[GoQueueError | None] = Told()
    team.coordinator.membership.delete("team", told)
    team.running.flush()
    assert heard == ["told"]
    assert forgets_all(team)


def test_who_waits_is_told_when_another_topic_has_that_name() -> None:
    team, _, heard = waiting_for_one()
    team.running.delete()
    team.running.create("orders", 1)
    team.carry()
    team.due(1.0)
    team.carry()
    assert heard == ["told"]
    assert forgets_all(team)


def test_neighbours_are_settled_as_one_range() -> None:
    team, one = team_with(*"abcde")
    team.say("reject", team.take(one), (0, 3), (4, 5))
    team.carry()
    log = team.coordinator.ledger.shelf("team").log
    buffers = log.read(0, 1 << 20).buffers
    records = [decode_record(frame.decode(one, position)) for one in buffers for position in frame.walk(one)]
    assert [record.ranges for record in records if isinstance(record, Settled)] == [[(0, 3), (4, 5)]]


# --- which of them have arrived already ---


def test_after_a_crash_the_target_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counting(buffer: memoryview, origin: bytes) -> Iterator[tuple[int, int]]:
        searched.append(len(buffer))
        return origins_in(buffer, origin)

    count = DEAD_LETTERS_AT_ONCE * 5
    team, one = team_with(*map(str, range(count)))
    for portion in team.poll(one, count):
        team.say("reject", portion)
    team = team.crash()
    assert team.cursor().moving.count == count
    monkeypatch.setattr(deadletter, "origins_in", counting)
    team.carry()
    assert dead_letters(team) == [str(number) for number in range(count)]
    assert 0 < sum(searched) <= team.running.partition("orders.dlq").log.size
    assert forgets_all(team)


def test_the_copy_of_an_earlier_failure_is_not_taken_for_that_of_a_later_one() -> None:
    team, one = team_with("a", "b")
    team.say("reject", team.take(one, 1))
    team.carry()
    assert dead_letters(team) == ["a"]
    team.reset("earliest")
    early, late = (Move("orders.dlq", 0, since, "again", 1, 1, 1) for since in (0, 1))
    departed = Departed("team", "orders", 0, moves=[(0, 1, late), (1, 2, early)])
    team.coordinator.ledger.record("team", [departed])
    team.running.flush()
    team = team.crash()
    team.carry()
    assert dead_letters(team) == ["a", "a", "b"]


@pytest.mark.parametrize("path", ["*/orders.dlq/*", "*/__consumer_offsets/*", "*/__metadata/*"])
def test_what_the_disk_refuses_is_carried_a_moment_later_and_once(path: str) -> None:
    team, one = team_with("a")
    team.say("reject", team.take(one))
    team.running.disk.fail("write", errno.ENOSPC, path=path)
    team.carry()
    assert team.cursor().moving
    for _ in range(3):
        team.due(1.0)
        team.carry()
    assert dead_letters(team) == ["a"]
    assert team.crash().cursor().floor == 1


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_at_any_operation_of_the_move_neither_loses_nor_doubles_one(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        team, one = team_with("a", "b", "c")
        operation += 1
        portion = team.take(one)
        team.running.disk.crash_at(team.running.disk.operations + operation)
        told = team.ask_to_settle(one, team.statement("reject", portion, [(0, 2)]))
        try:
            team.running.flush()
            team.carry()
            is_over = True
        except Crashed:
            pass
        after = team.crash(keep)
        after.carry()
        cursor = after.cursor()
        assert not cursor.moving
        if told.all:
            assert dead_letters(after) == ["a", "b"]
        elif cursor.leased == 3:
            assert "orders.dlq" not in after.running.names()
        if cursor.leased == 1:
            assert dead_letters(after) == ["a", "b"]
            assert cursor.floor == 2
