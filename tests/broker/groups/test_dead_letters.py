"""Dead letters: which messages become one, what they say of themselves, and that none is lost or doubled."""

from collections.abc import Callable, Iterator

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups import dead_letters
from goqueue.broker.groups.dead_letter_message import DEAD_LETTER_HEADER_PREFIX, find_origins
from goqueue.broker.groups.records import CursorReset, MessageMove, MessagesSettled, MoveStarted, decode_group_record
from goqueue.errors import DeadLetterFinal
from goqueue.limits import DEAD_LETTERS_AT_ONCE, HEADERS_BYTES_MAX, REASON_CHARACTERS_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame
from tests.broker.brokers import KEEPS, Running, frames_of, values
from tests.broker.crashes import crash_points
from tests.broker.groupwork import Team, team_with, values_of


def told_by(message: frame.StoredMessage) -> dict[str, str]:
    return {
        name.removeprefix(DEAD_LETTER_HEADER_PREFIX): text.decode()
        for name, text in message.headers
        if name.startswith(DEAD_LETTER_HEADER_PREFIX)
    }


def dead_letter_values(team: Team) -> list[str]:
    return [message.value.decode() for message in team.messages()]


# --- which messages ---


def test_message_moves_to_dlq_after_three_retries() -> None:
    team, one = team_with("a")
    for _ in range(3):
        assert team.nack(team.take(one), delay=0.0).requeued
    outcome = team.nack(team.take(one))
    assert (outcome.requeued, outcome.dead_letter_topic) == (False, "orders.dlq")
    team.move_dead_letters()
    assert dead_letter_values(team) == ["a"]
    assert (team.cursor().floor, team.cursor().run_count) == (1, 0)


def test_expired_leases_count_as_failures() -> None:
    team, one = team_with("a")
    for _ in range(4):
        team.take(one, visibility=1.0)
        team.due(1.0)
    assert team.poll(one) == []
    team.move_dead_letters()
    assert told_by(team.messages()[0])["error"] == "the visibility timeout has passed"


def test_rejected_message_moves_to_dlq_at_once() -> None:
    team, one = team_with("a", "b", "c")
    outcome = team.settle("reject", team.take(one), (1, 2), reason="no such customer")
    team.move_dead_letters()
    assert outcome.moved == [("team", PartitionRef("orders", 0), 1)]
    assert (dead_letter_values(team), told_by(team.messages()[0])["error"]) == (["b"], "no such customer")
    assert team.cursor().leased == 2


def test_dlq_topic_has_no_dlq() -> None:
    running = Running()
    running.create("orders.dlq")
    running.publish(frames_of([b"a"]), "orders.dlq")
    team = Team(running)
    one = team.join(topics=["orders.dlq"])
    batch = team.take(one)
    with pytest.raises(DeadLetterFinal):
        team.settle("reject", batch)
    for _ in range(5):
        team.nack(batch, delay=0.0)
        batch = team.take(one)
    assert running.names() == {"orders.dlq"}


# --- what they say ---


def test_dead_letter_headers_describe_origin_and_error(running: Running) -> None:
    headers = frame.encode_headers([("trace", b"1"), ("dlq.topic", b"a lie")])
    running.publish(frame.encode(b"value", b"key", headers, priority=1))
    team = Team(running)
    one = team.join()
    first_ns = team.coordinator.clock.now_ns()
    team.nack(team.take(one), delay=5.0)
    team.due(5.0)
    team.settle("reject", team.take(one), reason="broken")
    team.move_dead_letters()
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


def test_long_reason_is_truncated() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one), reason="ü" * 10_000)
    team.move_dead_letters()
    assert len(told_by(team.messages()[0])["error"]) == REASON_CHARACTERS_MAX


def test_largest_headers_are_omitted_when_headers_are_full() -> None:
    running = Running()
    running.create(max_message_bytes=1 << 20)
    own = [("large", bytes(HEADERS_BYTES_MAX - 100)), ("small", b"1")]
    running.publish(frame.encode(b"value", None, frame.encode_headers(own)))
    team = Team(running)
    team.settle("reject", team.take(team.join()))
    team.move_dead_letters()
    (message,) = team.messages()
    names = [name for name, _ in message.headers]
    assert ("small" in names, "large" in names, told_by(message)["omitted"]) == (True, False, "1")


# --- where they go ---


@pytest.mark.parametrize(("existing", "expected"), [(0, [0, 0, 1]), (1, [1])])
def test_dlq_topic_has_partitions_of_its_source_unless_it_exists(existing: int, expected: list[int]) -> None:
    team, one = team_with(partitions=3)
    if existing:
        team.running.create("orders.dlq", existing)
    team.publish("a", ref=PartitionRef("orders", 2))
    team.settle("reject", team.take(one))
    team.move_dead_letters()
    assert [len(values(partition)) for partition in team.running.broker.topics["orders.dlq"].partitions] == expected


def test_move_waits_while_dlq_topic_is_being_created() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    told = team.running.ask_to_create("orders.dlq")
    team.move_dead_letters()
    team.running.flush()
    assert told.result.name == "orders.dlq"
    team.due(1.0)
    team.move_dead_letters()
    assert dead_letter_values(team) == ["a"]


def test_many_dead_letters_arrive_in_order() -> None:
    count = DEAD_LETTERS_AT_ONCE * 2 + 1
    team, one = team_with(*map(str, range(count)))
    while batches := team.poll(one, 1000):
        for batch in batches:
            team.settle("reject", batch)
    team.move_dead_letters()
    assert dead_letter_values(team) == [str(number) for number in range(count)]
    assert team.cursor().floor == count


def test_moving_message_removed_by_retention_is_settled() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    team.expire()
    team.move_dead_letters()
    assert (team.cursor().floor, team.cursor().moving.count) == (1, 0)


def test_deleted_source_topic_moves_nothing() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    team.running.delete()
    team.move_dead_letters()
    team.due(0.03)
    assert team.coordinator.dead_letter_mover.is_idle


def test_reset_group_reads_moved_messages_again() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    team.reset("earliest")
    assert values_of(team.poll(one)) == ["a"]
    team.move_dead_letters()
    assert team.cursor().leased == 1


# --- when they have arrived ---


def test_callback_runs_when_dead_letter_arrives() -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    heard: list[str] = []
    dead_letter_mover = team.coordinator.dead_letter_mover
    dead_letter_mover.call_when_moved("team", PartitionRef("orders", 0), 0, lambda: heard.append("later"))
    dead_letter_mover.call_when_moved("team", PartitionRef("orders", 7), 0, lambda: heard.append("unknown"))
    assert heard == ["unknown"]
    team.move_dead_letters()
    dead_letter_mover.call_when_moved("team", PartitionRef("orders", 0), 0, lambda: heard.append("at once"))
    assert heard == ["unknown", "later", "at once"]


def waiting_for_one() -> tuple[Team, str, list[str]]:
    """Register a callback for the arrival of a dead letter."""
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    heard: list[str] = []
    team.coordinator.dead_letter_mover.call_when_moved(
        "team", PartitionRef("orders", 0), 0, lambda: heard.append("told")
    )
    return team, one, heard


def forgets_all(team: Team) -> bool:
    dead_letter_mover = team.coordinator.dead_letter_mover
    return dead_letter_mover._move_callbacks == dead_letter_mover._unsure == dead_letter_mover._searches == {}


def delete_group(team: Team) -> None:
    team.leave(next(iter(team.group.members)))
    team.delete()


def recreate_topic(team: Team) -> None:
    team.running.delete()
    team.running.create("orders", 1)
    team.move_dead_letters()
    team.due(1.0)


@pytest.mark.parametrize("happens", [lambda team: team.reset("latest"), delete_group, recreate_topic])
def test_callback_runs_when_moved_messages_are_gone(happens: Callable[[Team], object]) -> None:
    team, _, heard = waiting_for_one()
    happens(team)
    team.move_dead_letters()
    assert heard == ["told"]
    assert forgets_all(team)


def test_callback_waits_until_reset_is_durable() -> None:
    team, _, heard = waiting_for_one()
    team.coordinator.store.record("team", [CursorReset("team", "orders", 0, floor=0)])
    team.running.refuse_writes("*/__consumer_offsets/*")
    team.move_dead_letters()
    assert (heard, team.cursor().moving.count) == ([], 1)
    team.due(1.0)
    team.move_dead_letters()
    assert (heard, dead_letter_values(team)) == (["told"], ["a"])
    assert forgets_all(team)


def test_adjacent_dead_letters_are_settled_as_one_range() -> None:
    team, one = team_with(*"abcde")
    team.settle("reject", team.take(one), (0, 3), (4, 5))
    team.move_dead_letters()
    log = team.coordinator.store.group_log.log
    buffers = log.read(0, 1 << 20).buffers
    records = [decode_group_record(frame.decode(one, position)) for one in buffers for position in frame.walk(one)]
    assert [record.ranges for record in records if isinstance(record, MessagesSettled)] == [[(0, 3), (4, 5)]]


# --- which of them have arrived already ---


def test_dlq_is_searched_once_after_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counting(buffer: memoryview, origin: bytes) -> Iterator[tuple[int, int]]:
        searched.append(len(buffer))
        return find_origins(buffer, origin)

    count = DEAD_LETTERS_AT_ONCE * 5
    team, one = team_with(*map(str, range(count)))
    for batch in team.poll(one, count):
        team.settle("reject", batch)
    team = team.crash()
    assert team.cursor().moving.count == count
    monkeypatch.setattr(dead_letters, "find_origins", counting)
    team.move_dead_letters()
    assert dead_letter_values(team) == [str(number) for number in range(count)]
    assert 0 < sum(searched) <= team.running.partition("orders.dlq").log.size
    assert forgets_all(team)


def test_copy_of_earlier_failure_is_not_mistaken_for_later_one() -> None:
    team, one = team_with("a", "b")
    team.settle("reject", team.take(one, 1))
    team.move_dead_letters()
    assert dead_letter_values(team) == ["a"]
    team.reset("earliest")
    early, late = (MessageMove("orders.dlq", 0, since, "again", 1, 1, 1) for since in (0, 1))
    departed = MoveStarted("team", "orders", 0, moves=[(0, 1, late), (1, 2, early)])
    team.coordinator.store.record("team", [departed])
    team.running.flush()
    team = team.crash()
    team.move_dead_letters()
    assert dead_letter_values(team) == ["a", "a", "b"]


@pytest.mark.parametrize("path", ["*/orders.dlq/*", "*/__consumer_offsets/*", "*/__metadata/*"])
def test_move_refused_by_disk_is_repeated_once(path: str) -> None:
    team, one = team_with("a")
    team.settle("reject", team.take(one))
    team.running.refuse_writes(path)
    team.move_dead_letters()
    assert team.cursor().moving
    for _ in range(3):
        team.due(1.0)
        team.move_dead_letters()
    assert dead_letter_values(team) == ["a"]
    assert team.crash().cursor().floor == 1


def test_crash_during_move_neither_loses_nor_duplicates() -> None:
    for point in crash_points():
        team, one = team_with("a", "b", "c")
        batch = team.take(one)
        told = team.ask_to_settle(one, team.command("reject", batch, [(0, 2)]))
        with point.during(team.running.disk):
            team.running.flush()
            team.move_dead_letters()
        for keep in KEEPS:
            after = team.after_crash(keep)
            after.move_dead_letters()
            cursor = after.cursor()
            assert not cursor.moving
            if told.all or cursor.leased == 1:
                assert dead_letter_values(after) == ["a", "b"]
                assert cursor.floor == 2
            else:
                assert "orders.dlq" not in after.running.names()
