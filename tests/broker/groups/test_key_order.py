"""Messages of one key in their order, while those of other keys go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.groups.key_order import _BlockingMessages
from tests.broker.groupwork import Team, offsets_of, values_of


def ordered_team(*values: str) -> tuple[Team, str]:
    """Each value begins with its key; a dash is none."""
    team = Team()
    publish(team, *values)
    return team, team.join(order="key")


def publish(team: Team, *values: str) -> None:
    for value in values:
        team.publish(value, key=None if value[0] == "-" else value[0])


def test_later_message_waits_for_retry_of_same_key() -> None:
    team, one = ordered_team("a1", "b1", "a2", "b2")
    batch = team.take(one, 2)
    team.nack(batch, (0, 1))
    team.ack(batch, (1, 2))
    assert values_of(team.poll(one)) == ["b2"]
    team.due(1.0)
    retried = team.take(one)
    assert values_of([retried]) == ["a1"]
    assert team.poll(one) == [], "it is in hand now, and has failed before"
    team.ack(retried)
    assert values_of(team.poll(one)) == ["a2"]


def test_key_order_survives_crash() -> None:
    team, one = ordered_team("a1", "a2", "b1")
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one)) == ["b1"]
    team = team.crash()
    assert team.poll(one) == []
    publish(team, "a3", "c1")
    assert values_of(team.poll(one)) == ["c1"]
    team.due(1.0)
    retried = team.take(one)
    team = team.crash()
    assert team.poll(one) == []
    team.ack(retried)
    team = team.crash()
    assert values_of(team.poll(one)) == ["a2", "a3"]


def test_held_back_messages_follow_in_order() -> None:
    team, one = ordered_team("a1", "a2", "a3")
    team.nack(team.take(one, 1))
    assert team.poll(one) == []
    assert team.cursor().waiting.count == 3
    team.due(1.0)
    team.ack(team.take(one))
    batches = team.poll(one)
    assert values_of(batches) == ["a2", "a3"]
    for batch in batches:
        assert (batch.grant.deliveries, batch.grant.failures) == (1, 0)


def test_other_keys_are_delivered_past_held_back_messages() -> None:
    team, one = ordered_team("a1", *(f"a{number}" for number in range(2, 20)), "b1")
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one, 1)) == ["b1"]


def test_messages_without_key_are_not_held_back() -> None:
    team, one = ordered_team("-1", "-2", "-3")
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one)) == ["-2", "-3"]


def test_dead_letter_unblocks_its_key() -> None:
    team, one = ordered_team("a1", "a2")
    team.nack(team.take(one, 1))
    assert team.poll(one) == []
    team.due(1.0)
    team.settle("reject", team.take(one))
    assert values_of(team.poll(one)) == ["a2"]


def test_messages_are_not_held_back_without_key_order(team: Team) -> None:
    publish(team, "a1", "a2")
    one = team.join()
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one)) == ["a2"]


def test_blocked_last_attempt_does_not_block_other_keys() -> None:
    team, one = ordered_team("a1", "a2", "b1", "c1")
    batch = team.take(one, 2)
    team.nack(batch, (1, 2), delay=0.0)
    for _ in range(2):
        team.nack(team.take(one, 1), delay=0.0)
    team.nack(batch, (0, 1), delay=100.0)
    assert values_of(team.poll(one)) == ["b1", "c1"]


def test_retries_behind_last_attempt_follow_it() -> None:
    team, one = ordered_team("a1", "b1", "c1")
    batch = team.take(one, 2)
    team.nack(batch, (1, 2), delay=0.5)
    team.nack(batch, (0, 1), delay=0.0)
    team.nack(team.take(one, 1), delay=0.0)
    team.nack(team.take(one, 1), delay=0.9)
    team.due(1.0)
    found = []
    while batches := team.poll(one):
        found += values_of(batches)
        for one_of_them in batches:
            team.ack(one_of_them)
    assert sorted(found) == ["a1", "b1", "c1"]


def test_blocked_keys_are_computed_once_per_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    arranged: list[_BlockingMessages] = []
    arrange = _BlockingMessages.arrange

    def counting(found: _BlockingMessages) -> None:
        arranged.append(found)
        arrange(found)

    monkeypatch.setattr(_BlockingMessages, "arrange", counting)
    team, one = ordered_team(*(f"{key}{number}" for number in (1, 2) for key in "abcdefghijklmnopqrstuvwxyz"))
    for batch in team.poll(one):
        team.nack(batch, delay=0.0)
    arranged.clear()
    first = values_of(team.poll(one, 26))
    assert first == [f"{key}1" for key in "abcdefghijklmnopqrstuvwxyz"]
    assert len(arranged) <= 2


def test_released_messages_of_one_key_are_delivered_together() -> None:
    team, one = ordered_team("a1", "b1", "a2", "a3", "-1")
    team.settle("release", team.take(one))
    assert sorted(values_of(team.poll(one))) == ["-1", "a1", "a2", "a3", "b1"]


def test_recreated_topic_forgets_blocked_keys() -> None:
    team, one = ordered_team("a1", "a2", "a3")
    team.nack(team.take(one), delay=0.0)
    team.take(one)
    team.running.delete()
    team.due(1.0)
    team.running.create("orders", 1)
    team.due(1.0)
    publish(team, "a1", "b1", "c1")
    team.nack(team.take(one), delay=0.0)
    assert values_of(team.poll(one)) == ["a1", "b1", "c1"]


verbs = st.sampled_from(["ack", "ack", "nack", "release"])


@given(st.lists(st.sampled_from("ab-"), min_size=1, max_size=12), st.lists(verbs, max_size=40), st.integers(1, 4))
def test_messages_of_a_key_are_processed_in_order(keys: list[str], said: list[str], most: int) -> None:
    team, one = ordered_team(*(f"{key}{number:02}" for number, key in enumerate(keys)))
    said += ["ack"] * 60
    done: list[str] = []
    while len(done) < len(keys):
        team.due(1.0)
        team.heartbeat(one)
        has_stopped = False
        for batch in team.poll(one, most):
            offsets = offsets_of(batch)
            for offset, value in zip(offsets, values_of([batch]), strict=True):
                action = "release" if has_stopped else said.pop(0)
                if action == "nack" and batch.grant.failures == 3:
                    action = "ack"
                has_stopped = action != "ack"  # a consumer that keeps the order stops here
                team.settle(action, batch, (offset, offset + 1), delay=0.0)  # type: ignore[arg-type]
                done += [value] if action == "ack" else []
    assert sorted(done, key=lambda value: value[1:]) == [f"{key}{number:02}" for number, key in enumerate(keys)]
    for key in "ab":
        of_key = [value for value in done if value[0] == key]
        assert of_key == sorted(of_key)
