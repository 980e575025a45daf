"""The condition of a group, from its progress."""

from dataclasses import replace

import pytest

from goqueue.observe.facts import GroupPartitionFacts
from goqueue.observe.group_condition import group_condition

GROWING = GroupPartitionFacts(
    topic="orders", partition=0, messages=400, ready=400, seconds=9.0, rate=25.0, incoming=33.0, idle_seconds=0.1,
    in_flight=50, member="one",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "lagging"),
        ({"incoming": 27.0}, "keeping_up"),  # within the measurement error
        ({"ready": 99}, "keeping_up"),
        ({"seconds": 31.0}, "falling_behind"),
        ({"seconds": 31.0, "incoming": 20.0}, "behind"),
    ],
)
def test_group_whose_lag_grows_is_not_keeping_up(changes: dict[str, float], expected: str) -> None:
    assert group_condition([replace(GROWING, **changes)], None) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, "lagging"), (29.0, "lagging"), (30.0, "unattended")])
def test_group_without_members_is_not_keeping_up_while_messages_wait(seconds: float, expected: str) -> None:
    assert group_condition([replace(GROWING, member=None)], seconds) == expected


def test_group_without_members_and_messages_is_keeping_up() -> None:
    assert group_condition([], 3600.0) == "keeping_up"
