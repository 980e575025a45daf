"""Requests of groups that a full disk refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.groups.poll import LeasedBatch
from goqueue.errors import DiskFull
from tests.broker.brokers import Told
from tests.broker.groupwork import GATHERED, Team, team_with

Ask = Callable[[Team, LeasedBatch], Told[Any]]
REQUESTS: dict[str, Ask] = {
    "join": lambda team, _: team.ask_to_join("two"),
    "leave": lambda team, batch: team.ask_to_leave(batch.grant.member),
    "commit": lambda team, batch: team.ask_to_commit(batch.grant.member, 1),
    "ack": lambda team, batch: team.ask_to_settle(batch.grant.member, team.command("ack", batch)),
    "transactional_ack": lambda team, batch: team.ask_to_ack_in_transaction(
        batch.grant.member, team.command("ack", batch)
    ),
}


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
def test_refused_request_changes_nothing_and_can_be_repeated(ask: Ask) -> None:
    team, one = team_with("a")
    batch = team.take(one)
    state = team.coordinator.store.group_log.state
    before = list(state.records())
    for is_refused in (True, False):
        told = ask(team, batch)
        if is_refused:
            team.running.refuse_writes()
        team.due(GATHERED)
        assert isinstance(told.all[0], DiskFull) is is_refused
        assert (list(state.records()) == before) is is_refused


def test_transaction_end_after_refused_ack_changes_nothing() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    team.ask_to_ack_in_transaction(one, team.command("ack", batch))
    team.running.refuse_writes()
    team.running.flush()
    team.end_transaction(is_commit=True)
    team.ack(batch)
    assert team.cursor().floor == 1
