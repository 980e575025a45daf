"""Delayed messages and priorities as values: what is shown, and what is read of what was typed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.clock import NANOSECONDS
from goqueue.console.due_changes import DueChange
from goqueue.drawing.bars import ColumnBar
from goqueue.quantities import parse_time
from goqueue_admin.dashboard.screens import routes
from goqueue_admin.dashboard.screens.delayed_actions import DelayedMatch, parse_due_time, parse_match
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import delayed, formats, message
from goqueue_admin.dashboard.views.delayed import DelayedPage
from goqueue_admin.dashboard.widgets import priorities
from tests.tui import delayed_fakes as fakes
from tests.tui.fakes import NOW_NS

NOW_TEXT = "2026-01-01T00:00:00.000000000Z"


# --- the timeline ---


def test_bars_are_named_by_how_far_ahead_they_end_and_what_is_overdue_comes_first() -> None:
    found = delayed.timeline_bars(fakes.timeline("reminders"))
    assert [bar.label for bar in found] == [
        "overdue", "<10s", "<1m", "<10m", "<1h", "<6h", "<1d", "<7d", "<30d", "<366d",
    ]  # fmt: skip
    assert found[0] == ColumnBar(2, "2", "overdue", "bad", "bad")
    assert delayed.timeline_bars({}) == []


def test_timelines_of_several_topics_are_one() -> None:
    whole = delayed.joined_timeline([fakes.timeline("orders"), {}, fakes.timeline("reminders")])
    assert (whole["pending"], whole["overdue"], whole["next_due"]) == (264, 2, fakes.at(-3.5))
    assert [bar.value for bar in delayed.timeline_bars(whole)] == [2, 3, 14, 40, 79, 26, 87, 12, 0, 1]
    assert delayed.joined_timeline([{}]) == {}


def test_the_clock_of_the_broker_decides_what_is_due() -> None:
    told = fakes.timeline("orders")
    later = NOW_NS + 900 * NANOSECONDS  # as ours has it
    assert delayed.broker_now(told, later, later + 5 * NANOSECONDS) == NOW_NS + 5 * NANOSECONDS
    assert delayed.broker_now({}, 0, later) == later


# --- topics ---


def test_a_topic_has_what_is_due_within_a_minute_an_hour_and_a_day() -> None:
    lines = delayed.topic_rows(fakes.STATS, fakes.timeline, lambda _: NOW_NS) or []
    first = next(line for line in lines if line.name == "reminders")
    assert (first.pending, first.overdue, first.within) == (242, 2, (17, 101, 109, 13))
    assert first.seconds == -3.5


def test_a_topic_without_a_timeline_yet_is_there_all_the_same() -> None:
    lines = delayed.topic_rows(fakes.STATS, lambda _: {}, lambda _: NOW_NS) or []
    assert [(line.name, line.pending, line.seconds) for line in lines] == [
        ("reminders", 242, None),
        ("orders", 22, None),
    ]
    assert delayed.topic_rows(None, lambda _: {}, lambda _: NOW_NS) is None


def test_those_with_most_are_asked_first_and_those_with_very_many_not_each_time() -> None:
    assert delayed.asked_topics(fakes.STATS) == ["reminders", "orders"]
    many = {"topics": {f"t{number}": number for number in range(80)}}
    assert delayed.asked_topics(many)[0] == "t79"
    assert len(delayed.asked_topics(many)) == delayed.TIMELINES_MAX
    assert delayed.is_due(1_000, NOW_NS, NOW_NS)
    assert not delayed.is_due(1_000_000, NOW_NS, NOW_NS + 9 * NANOSECONDS)
    assert delayed.is_due(1_000_000, NOW_NS, NOW_NS + 10 * NANOSECONDS)


def test_figures_tell_what_is_overdue_and_how_late_others_were() -> None:
    assert [*delayed.topic_numbers(fakes.timeline("reminders"), NOW_NS), *delayed.lateness(fakes.STATS)] == [
        ("242", "pending", ""),
        ("0s", "until the next", ""),
        ("2", "overdue", "bad"),
        ("4.2ms / 13.8ms", "late (p50 / p99)", ""),
    ]
    assert (
        delayed.topic_numbers({}, NOW_NS) == delayed.all_topics_numbers({}, NOW_NS) == delayed.wheel_numbers({}) == []
    )


def test_where_nothing_was_ever_delayed_nothing_is_said_of_it() -> None:
    nothing = {**fakes.STATS, "pending_count": 0, "next_due": None, "expired_count": 0, "late_p50": None, "parked": 0}
    nothing |= {"avg_delay": None, "wheel": [{"entries": 0, "tick_ms": 10.0}]}
    assert [figure.noun for figure in delayed.all_topics_numbers(nothing, NOW_NS)] == [
        "pending", "delivered", "cancelled", "expired", "rescheduled",
    ]  # fmt: skip
    assert delayed.wheel_numbers(nothing) == []


# --- messages ---


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [(0.3, "now", "now"), (4.4, "4s", "in 4s"), (-75, "-1m15s", "1m15s ago"), (93_784, "1d2h", "in 1d2h")],
)
def test_how_far_ahead_something_is(seconds: float, short: str, words: str) -> None:
    assert (delayed.format_ahead(seconds), delayed.time_until(seconds)) == (short, words)


def test_a_line_says_when_it_is_due_in_two_ways() -> None:
    (line,) = delayed.delayed_rows([fakes.delayed(4)], NOW_NS)
    shown = {column.title: column.cell(line, None) for column in delayed.delayed_columns()}
    assert [shown[title].text for title in ("PLACE", "DUE IN", "DUE", "PRIORITY", "KEY", "SIZE", "STATE")] == [
        "1@44", "47s", "2026-01-01 00:00:47", "background", "order-000004", "207B", "pending",
    ]  # fmt: skip
    assert shown["DUE IN"].tone == "accent"
    assert delayed.place_of(delayed.delayed_key(line)) == (1, 44)


def test_what_is_overdue_is_told_by_a_colour_as_long_as_it_is_pending() -> None:
    tones = [
        delayed.delayed_columns()[1].cell(delayed.delayed_rows([fakes.delayed(number, state)], NOW_NS)[0], None).tone
        for number, state in ((0, "pending"), (0, "delivered"), (9, "pending"))
    ]
    assert tones == ["warn", "muted", ""]


@given(dues=st.lists(st.integers(0, 5), max_size=40), size=st.integers(1, 7))
def test_pages_have_every_message_once(dues: list[int], size: int) -> None:
    messages: list[dict[str, Any]] = [
        {"deliver_at": fakes.at(due), "number": number} for number, due in enumerate(sorted(dues))
    ]

    def answer(cut: DelayedPage) -> list[dict[str, Any]]:
        later = [one for one in messages if cut.due_from is None or one["deliver_at"] >= cut.due_from]
        return later[cut.skip : cut.skip + size]

    seen, cut = list[dict[str, Any]](), DelayedPage()
    while page := answer(cut):
        seen += page
        cut = delayed.next_page(cut, page)
    assert seen == messages


def test_one_message_is_told_with_its_headers() -> None:
    told = {**fakes.delayed(2), "value": "{}", "headers": {"a": ["1", {"value": "/w==", "encoding": "base64"}]}}
    facts = [(name, text) for name, text, _ in delayed.facts(told, NOW_NS)]
    assert ("due", "in 4s, at 2026-01-01T00:00:04.000000000Z") in facts
    assert ("priority", "normal") in facts
    assert facts[-2:] == [("header a", "1"), ("header a", "\\xff")]


def test_one_whose_bytes_are_gone_says_so() -> None:
    told = {**fakes.delayed(2), "scheduled_at": None, "value": None, "headers": {}}
    assert ("damaged", "its bytes cannot be read", "bad") in list(delayed.facts(told, NOW_NS))
    assert message.render_value(message.value_bytes(told)).kind == "tombstone"


# --- what people type ---


@pytest.mark.parametrize(
    ("text", "when", "words"),
    [
        ("5m", DueChange(delay=300.0), ("--delay", "5m")),
        ("+1h30m", DueChange(delay=5_400.0), ("--delay", "1h30m")),
        ("14:05", DueChange(time_ns=NOW_NS + 50_700 * NANOSECONDS), ("--at", "2026-01-01T14:05:00.000000000Z")),
        (
            "2026-03-01",
            DueChange(time_ns=parse_time("2026-03-01T00:00:00Z")),
            ("--at", "2026-03-01T00:00:00.000000000Z"),
        ),
        ("now", DueChange(time_ns=NOW_NS), ("--at", NOW_TEXT)),
        ("shift -10m", DueChange(shift=-600.0), ("--shift", "-10m")),
        ("shift 1h", DueChange(shift=3_600.0), ("--shift", "+1h")),
    ],
)
def test_when_is_a_delay_a_time_or_a_shift(text: str, when: DueChange, words: tuple[str, ...]) -> None:
    assert parse_due_time(text, NOW_NS) == when
    assert when.words == words


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "say when"),
        ("-10m", "has passed"),
        ("300", "has no unit"),
        ("400d", "too far ahead"),
        ("2029-01-01", "too far ahead"),
        ("shift 5x", "unit"),
        ("tomorrow", "is not a time"),
    ],
)
def test_what_says_no_moment_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_due_time(text, NOW_NS)


def test_a_single_message_is_not_shifted_but_moved_to_where_it_would_be() -> None:
    shift, due_ns = DueChange(shift=-600.0), NOW_NS + 900 * NANOSECONDS
    assert shift.of_one(due_ns) == {"deliver_at": fakes.at(300)}
    assert shift.of_many() == {"shift": -600.0}
    assert shift.due_ns(0, NOW_NS) == 0
    assert DueChange(delay=5.0).of_one(due_ns) == {"delay": 5.0}
    assert DueChange(delay=5.0).due_ns(due_ns, NOW_NS) == NOW_NS + 5 * NANOSECONDS
    assert DueChange(time_ns=NOW_NS).of_one(due_ns) == {"deliver_at": NOW_TEXT}


@pytest.mark.parametrize(
    ("text", "ahead"),
    [("now", 0), ("+10m", 600), ("-10m", -600), ("23:59", 86_340), ("00:00", 0), ("2026-01-02", 86_400)],
)
def test_a_moment_that_is_to_come_is_typed_in_several_ways(text: str, ahead: int) -> None:
    assert formats.parse_due_moment(text, NOW_NS) == NOW_NS + ahead * NANOSECONDS


def test_a_choice_is_a_request_and_a_command() -> None:
    values = {"filter": "json.total>40 key=a", "partition": "2", "from": "", "to": "+1h", "limit": "1,000"}
    assert parse_match(values, NOW_NS) == DelayedMatch(
        ("json.total>40", "key=a"),
        (("partition", 2), ("due_to", fakes.at(3_600))),
        1_000,
        ("--where", "json.total>40", "--where", "key=a", "--partition", "2", "--to", "+1h", "--limit", "1000"),
    )
    assert parse_match({"limit": "5"}, NOW_NS).words == ("--all", "--limit", "5")
    assert parse_match({"from": "2026-01-02"}, NOW_NS).words == ("--from", fakes.at(86_400))


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [("partition", "all", "write a number"), ("to", "later", "is not a time"), ("limit", "0", "the limit is")],
)
def test_a_choice_that_cannot_be_meant_is_refused(field: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_match({field: text}, NOW_NS)


def test_delayed_messages_of_a_topic_are_typed_as_those_of_all() -> None:
    assert routes.parse_location("delayed") == Location("delayed")
    place = routes.parse_location("delayed orders")
    assert place == routes.parse_location("schedule orders") == Location("schedule", ("orders",))
    assert [routes.location_title(one) for one in routes.trail(place)] == ["overview", "delayed", "orders"]
    assert routes.parse_location("delayed orders 2") is None
    assert routes.location_usage("delayed orders 2") == "write it as :delayed TOPIC"


# --- priorities ---


def test_priorities_are_added_up_over_partitions() -> None:
    first, _, last = priorities.priority_rows([fakes.lanes("orders")], NOW_NS)
    assert (first.priority, [*first.counts.values()]) == ("critical", [0, 0, 0, 2_408, 2_408])
    assert (last.priority, [*last.counts.values()]) == ("background", [1_742, 80, 0, 180_824, 179_082])
    assert last.served_seconds == pytest.approx(14.8)
    assert last.wait_seconds == pytest.approx(25.16)


def test_a_partition_that_gave_out_more_counts_for_more_in_the_wait() -> None:
    told = fakes.lanes("orders")
    lane = told["topics"]["orders"]["0"]["normal"]
    told["topics"]["orders"]["1"] = {
        **told["topics"]["orders"]["1"], "normal": {**lane, "dequeued": 0, "avg_wait_time": 900.0, "last_served": None},
    }  # fmt: skip
    normal = priorities.priority_rows([told], NOW_NS)[1]
    assert normal.wait_seconds == pytest.approx(lane["avg_wait_time"])


def test_one_priority_alone_needs_no_table() -> None:
    assert priorities.priority_rows([fakes.lanes("payments")], NOW_NS) == []
    assert priorities.priority_rows([{}], NOW_NS) == []
    rows = priorities.priority_rows([fakes.lanes("payments"), fakes.lanes("orders")], NOW_NS)
    assert [row.priority for row in rows] == ["critical", "normal", "background"]
