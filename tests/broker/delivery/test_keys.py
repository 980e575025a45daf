"""Messages of one key in their order, while those of other keys go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery.keys import _Exceptions
from tests.broker.groupwork import Team, offsets_of, values_of


def ordered_team(*values: str) -> tuple[Team, str]:
    """Each value begins with its key; a dash is none."""
    team = Team()
    publish(team, *values)
    return team, team.join(order="key")


def publish(team: Team, *values: str) -> None:
    for value in values:
        team.publish(value, key=None if value[0] == "-" else value[0])


def test_a_later_message_waits_while_an_earlier_one_of_its_key_is_tried_again() -> None:
    team, one = ordered_team("a1", "b1", "a2", "b2")
    portion = team.take(one, 2)
    team.nack(portion, (0, 1))
    team.ack(portion, (1, 2))
    assert values_of(team.poll(one)) == ["b2"]
    team.due(1.0)
    retried = team.take(one)
    assert values_of([retried]) == ["a1"]
    assert team.poll(one) == [], "it is in hand now, and has failed before"
    team.ack(retried)
    assert values_of(team.poll(one)) == ["a2"]


def test_the_order_holds_after_a_crash() -> None:
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


def test_what_was_held_back_comes_in_order_once_the_first_is_done() -> None:
    team, one = ordered_team("a1", "a2", "a3")
    team.nack(team.take(one, 1))
    assert team.poll(one) == []
    assert team.cursor().waiting.count == 3
    team.due(1.0)
    team.ack(team.take(one))
    portions = team.poll(one)
    assert values_of(portions) == ["a2", "a3"]
    for portion in portions:
        assert (portion.grant.deliveries, portion.grant.failures) == (1, 0)


def test_behind_many_that_are_held_back_those_of_other_keys_are_found() -> None:
    team, one = ordered_team("a1", *(f"a{number}" for number in range(2, 20)), "b1")
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one, 1)) == ["b1"]


def test_messages_without_a_key_wait_for_nobody() -> None:
    team, one = ordered_team("-1", "-2", "-3")
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one)) == ["-2", "-3"]


def test_a_dead_letter_lets_the_next_of_its_key_go() -> None:
    team, one = ordered_team("a1", "a2")
    team.nack(team.take(one, 1))
    assert team.poll(one) == []
    team.due(1.0)
    team.say("reject", team.take(one))
    assert values_of(team.poll(one)) == ["a2"]


def test_without_that_order_nobody_waits() -> None:
    team = Team()
    publish(team, "a1", "a2")
    one = team.join()
    team.nack(team.take(one, 1))
    assert values_of(team.poll(one)) == ["a2"]


def test_the_last_chance_of_one_that_waits_for_its_key_stops_nobody_else() -> None:
    team, one = ordered_team("a1", "a2", "b1", "c1")
    portion = team.take(one, 2)
    team.nack(portion, (1, 2), delay=0.0)
    for _ in range(2):
        team.nack(team.take(one, 1), delay=0.0)
    team.nack(portion, (0, 1), delay=100.0)
    assert values_of(team.poll(one)) == ["b1", "c1"]


def test_what_is_due_behind_a_last_chance_is_handed_out_after_it() -> None:
    team, one = ordered_team("a1", "b1", "c1")
    portion = team.take(one, 2)
    team.nack(portion, (1, 2), delay=0.5)
    team.nack(portion, (0, 1), delay=0.0)
    team.nack(team.take(one, 1), delay=0.0)
    team.nack(team.take(one, 1), delay=0.9)
    team.due(1.0)
    found = []
    while portions := team.poll(one):
        found += values_of(portions)
        for one_of_them in portions:
            team.ack(one_of_them)
    assert sorted(found) == ["a1", "b1", "c1"]


def test_who_waits_for_whom_is_worked_out_once_for_all_that_a_poll_hands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    arranged: list[_Exceptions] = []
    arrange = _Exceptions.arrange

    def counting(found: _Exceptions) -> None:
        arranged.append(found)
        arrange(found)

    monkeypatch.setattr(_Exceptions, "arrange", counting)
    team, one = ordered_team(*(f"{key}{number}" for number in (1, 2) for key in "abcdefghijklmnopqrstuvwxyz"))
    for portion in team.poll(one):
        team.nack(portion, delay=0.0)
    arranged.clear()
    first = values_of(team.poll(one, 26))
    assert first == [f"{key}1" for key in "abcdefghijklmnopqrstuvwxyz"]
    assert len(arranged) <= 2


def test_messages_of_one_key_that_were_given_back_are_handed_out_together() -> None:
    team, one = ordered_team("a1", "b1", "a2", "a3", "-1")
    team.say("release", team.take(one))
    assert sorted(values_of(team.poll(one))) == ["-1", "a1", "a2", "a3", "b1"]


def test_keys_of_a_topic_that_was_deleted_say_nothing_of_the_next_one() -> None:
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
def test_what_is_done_of_a_key_is_done_in_its_order(keys: list[str], said: list[str], most: int) -> None:
    team, one = ordered_team(*(f"{key}{number:02}" for number, key in enumerate(keys)))
    said += ["ack"] * 60
    done: list[str] = []
    while len(done) < len(keys):
        team.due(1.0)
        team.heartbeat(one)
        has_stopped = False
        for portion in team.poll(one, most):
            offsets = offsets_of(portion)
            for offset, value in zip(offsets, values_of([portion]), strict=True):
                verb = "release" if has_stopped else said.pop(0)
                if verb == "nack" and portion.grant.failures == 3:
                    verb = "ack"
                has_stopped = verb != "ack"  # whoever wants order goes no further
                team.say(verb, portion, (offset, offset + 1), delay=0.0)  # type: ignore[arg-type]
                done += [value] if verb == "ack" else []
    assert sorted(done, key=lambda value: value[1:]) == [f"{key}{number:02}" for number, key in enumerate(keys)]
    for key in "ab":
        of_key = [value for value in done if value[0] == key]
        assert of_key == sorted(of_key)
