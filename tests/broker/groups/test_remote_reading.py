"""Groups that read at another node get what groups get that read here."""

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest

from goqueue.broker.groups.offsets import ResetOptions
from goqueue.storage.frame import NORMAL
from tests.broker.groupwork import Team, offsets_of, values_of
from tests.broker.remote_topics import read_elsewhere

CRITICAL = 0
MESSAGES = 12


def urgent_messages(team: Team) -> Any:
    team.publish(*map(str, range(MESSAGES)), lanes=islice(cycle([NORMAL, NORMAL, CRITICAL]), MESSAGES))
    member = team.join()
    found = [values_of(team.poll(member, 5)) for _ in range(3)]
    return found, team.cursor().position, team.cursor().heads


def retries_in_key_order(team: Team) -> Any:
    for key in ("a", "b", "a", "b", "c"):
        team.publish(f"{key}1", key=key)
    member = team.join(order="key")
    first = team.take(member, 1)
    team.settle("nack", first, delay=5.0)
    found = values_of(team.poll(member))
    team.due(6.0)
    return found, values_of(team.poll(member))


def removed_messages(team: Team) -> Any:
    team.publish("a", "b")
    member = team.join()
    team.expire()
    team.publish("c")
    return [offsets_of(batch) for batch in team.poll(member)], team.cursor().lost


def lag_and_reset(team: Team) -> Any:
    team.publish(*"abcdef", lanes=cycle([NORMAL, CRITICAL]))
    member = team.join()
    team.settle("ack", team.take(member, 2))
    lags = team.do(team.coordinator.lags.of_group(team.name))
    moved = team.do(team.coordinator.offsets.reset(team.name, ResetOptions("orders", "shift", -1)))
    return [(lag.messages, lag.seconds, lag.end, lag.incoming) for lag in lags], moved


@pytest.mark.parametrize("scenario", [urgent_messages, retries_in_key_order, removed_messages, lag_and_reset])
def test_groups_that_read_at_another_node_get_the_same(
    scenario: Callable[[Team], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = scenario(Team())
    read_elsewhere(monkeypatch)
    assert repr(scenario(Team())) == repr(here)


def test_dead_letters_of_messages_at_another_node_are_moved_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read_elsewhere(monkeypatch)
    team = Team()
    team.publish("a")
    member = team.join()
    team.settle("reject", team.take(member), reason="no such customer")
    team.do(team.coordinator.dead_letter_mover.move_all())
    assert [one.value for one in team.messages()] == [b"a"]
