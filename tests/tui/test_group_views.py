"""Groups as values: what is shown of members, lag and rebalances, without a terminal."""

from math import inf
from typing import Any

from goqueue_admin.dashboard.broker.service import GROUPS, CallResults, broker_call, group_calls
from goqueue_admin.dashboard.screens import rebalances
from goqueue_admin.dashboard.views import groups
from goqueue_admin.dashboard.widgets.plots import SampledTrend
from tests.tui import group_fakes
from tests.tui.fakes import NOW_NS

_SECOND_NS = 1_000_000_000


def billing() -> Any:
    return group_fakes.group("billing")


def test_a_group_without_an_answer_shows_nothing() -> None:
    assert groups.partition_rows({}) is None
    assert groups.member_rows({}, {}, NOW_NS) is None
    assert groups.group_numbers({}) == groups.lag_numbers({}) == []


def test_a_topic_of_several_has_a_line_with_its_sums() -> None:
    lines = groups.partition_rows(billing())
    assert lines is not None
    assert [str(line.name) for line in lines] == [
        "invoices/0", "payments", "payments/0", "payments/1", "payments/2", "payments/3",
    ]  # fmt: skip
    total = lines[1]
    assert [total.lag.get(field) for field in ("messages", "seconds", "waiting", "lost", "committed")] == [
        3_412, 83.2, 12, 311, None,
    ]  # fmt: skip


def test_a_group_of_one_topic_needs_no_sums() -> None:
    group = billing()
    del group["lag"]["invoices"]
    assert [str(line.name) for line in groups.partition_rows(group) or ()] == [
        f"payments/{number}" for number in range(4)
    ]


def test_lines_are_sorted_by_the_number_of_their_partition() -> None:
    names = [groups.PartitionName("a", 10), groups.PartitionName("a", 9), groups.PartitionName("a", -1)]
    assert [str(name) for name in sorted(names)] == ["a", "a/9", "a/10"]


def test_what_does_not_get_less_has_no_end_and_what_is_done_has_none() -> None:
    assert groups.drain_value(5, None) == inf
    assert groups.format_drain(inf) == "∞"
    assert groups.drain_value(0, None) is None
    assert groups.format_drain(groups.drain_value(5, 61.0) or 0) == "1m1s"


def test_being_late_is_told_by_colours() -> None:
    assert groups.lag_tone(0, 0.0, None) == ""
    assert groups.lag_tone(1_000_000, 59.0, None) == ""
    assert groups.lag_tone(10, 61.0, 30.0) == "warn"
    assert groups.lag_tone(10, 61.0, None) == "bad"
    assert groups.lag_tone(10, 601.0, 30.0) == "bad"


def test_a_member_shows_how_long_it_was_not_heard() -> None:
    first, second = groups.member_rows(billing(), {}, NOW_NS) or []
    assert first.has == "invoices/0 payments/0-2"
    assert (first.heartbeat_seconds, second.heartbeat_seconds) == (2.0, 25.0)
    assert second.silence > 0.8


def test_a_member_that_was_heard_in_the_future_was_heard_now() -> None:
    first, _ = groups.member_rows(billing(), {}, NOW_NS - 3600 * _SECOND_NS) or []
    assert first.heartbeat_seconds == 0.0


def test_what_is_given_up_is_a_column_only_while_something_is() -> None:
    titles = [column.title for column in groups.member_columns(is_rebalancing=False)]
    assert "GIVES UP" not in titles
    assert "GIVES UP" in [column.title for column in groups.member_columns(is_rebalancing=True)]


def test_a_rebalance_tells_who_must_give_up_what() -> None:
    moving = {"partitions_to_revoke": {"till-1": [{"topic": "orders", "partition": number} for number in (0, 1)]}}
    group = {**billing(), "rebalance_state": "pending_revoke"}
    assert groups.rebalance_lines(group, moving) == ["rebalancing: till-1 must give up orders/0-1"]
    eager = {**group, "protocol": "eager"}
    assert groups.rebalance_lines(eager, moving) == ["rebalancing: till-1 must join again, and had orders/0-1"]
    assert groups.rebalance_lines({**group, "rebalance_state": "complete"}, moving) == []


def test_a_rebalance_of_many_is_told_in_few_lines() -> None:
    moving = {f"till-{number}": [{"topic": "orders", "partition": number}] for number in range(9)}
    group = {**billing(), "rebalance_state": "pending_revoke"}
    lines = groups.rebalance_lines(group, {"partitions_to_revoke": moving})
    assert len(lines) == 5
    assert lines[-1] == "and 5 more members"


def test_complete_assignment_that_members_have_not_received_is_shown() -> None:
    group = {**billing(), "rebalance_state": "pending_assign"}
    assert "a member has not received it" in groups.rebalance_lines(group, {})[0]


def test_a_trend_has_a_point_for_each_second() -> None:
    trend = SampledTrend(seconds=6)
    trend.add(5, 10 * _SECOND_NS)
    trend.add(7, 13 * _SECOND_NS)
    assert trend.points == [5, 5, 5, 7]
    trend.add(8, 13 * _SECOND_NS + 5)
    assert trend.points == [5, 5, 5, 8]


def test_a_trend_begins_with_what_the_broker_knows() -> None:
    trend = SampledTrend(seconds=6)
    trend.begin([None, 4], 2, 10 * _SECOND_NS)
    trend.begin([9], 2, 10 * _SECOND_NS)
    trend.add(5, 11 * _SECOND_NS)
    assert trend.points == [None, None, 4, 4, 5]


def test_a_trend_forgets_what_is_old_and_does_not_fill_a_night() -> None:
    trend = SampledTrend(seconds=3)
    trend.add(1, 0)
    trend.add(2, 3600 * 24 * _SECOND_NS)
    assert trend.points == [1, 1, 2]


def test_a_clock_that_goes_back_makes_no_points() -> None:
    trend = SampledTrend(seconds=3)
    trend.add(1, 10 * _SECOND_NS)
    trend.add(2, 5 * _SECOND_NS)
    assert trend.points == [2]


def test_rebalances_of_a_group_that_was_not_asked_for_yet_are_empty() -> None:
    lines = rebalances.rebalance_rows(group_fakes.GROUPS, {"billing": group_fakes.rebalances(14)}, NOW_NS)
    assert lines is not None
    cells = [[column.cell(line, None).text for column in rebalances.rebalance_columns()] for line in lines]
    assert cells[0][:4] == ["archive", "○ empty", "complete", "3"]
    assert set(cells[0][4:]) == {"-"}
    assert cells[1] == [
        "billing", "● stable", "complete", "12", "18m53s", "35.4ms", "44.2ms", "1.2s", "14", "1",
        "join 14 session expired 4",
    ]  # fmt: skip


def test_a_long_list_of_groups_is_asked_for_page_by_page() -> None:
    known = CallResults()
    assert group_calls(known) == [GROUPS]
    known.take(GROUPS, group_fakes.GROUPS * 200, NOW_NS)
    assert group_calls(known) == [GROUPS, broker_call("group_details", 1000, "statistics")]
