"""Log lines about groups."""

import logging

import pytest

from goqueue.runtime.event_logs import log_group_events
from tests.broker.groupwork import Team


def test_assignments_dead_letters_and_timeouts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    team = Team()
    log_group_events(team.coordinator)
    team.publish("a")
    with caplog.at_level(logging.INFO, "goqueue.groups"):
        one = team.join(session=5.0)
        team.settle("reject", team.take(one), reason="no such customer")
        team.move_dead_letters()
        team.due(6.0)
        team.due(1.0)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("INFO", "a group has a new assignment: 1 member, 1 partition"),
        ("WARNING", "1 message given up: no such customer"),
        ("WARNING", "a member was removed: its session timed out"),
        ("INFO", "a group has a new assignment: 0 members, 0 partitions"),
    ]
