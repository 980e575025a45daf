"""What the broker's log says of groups."""

import logging

import pytest

from goqueue.runtime.group_journal import listen
from tests.broker.groupwork import Team


def test_who_came_and_vanished_and_what_was_given_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    team = Team()
    listen(team.coordinator)
    team.publish("a")
    with caplog.at_level(logging.INFO, "goqueue.groups"):
        one = team.join(session=5.0)
        team.say("reject", team.take(one), reason="no such customer")
        team.carry()
        team.due(6.0)
        team.due(1.0)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("INFO", "a group is shared out: 1 member, 1 partition"),
        ("WARNING", "1 message given up: no such customer"),
        ("WARNING", "a member gave no sign of life and is out"),
        ("INFO", "a group is shared out: 0 members, 0 partitions"),
    ]
