"""Transactions as values: what is told of them, and in which colours."""

import pytest

from goqueue_admin.dashboard.screens import routes, topics
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import transactions
from tests.tui import transaction_fakes as fakes
from tests.tui.fakes import NOW_NS
from tests.tui.fakes import partitions as partition_answers

BEHIND = [fakes.place("orders", 1, 2, 40)]
OWN = [fakes.place("orders", 1, 2, 2)]


@pytest.mark.parametrize(
    ("told", "tone", "mark"),
    [
        ({"age": 29.9, "partitions": BEHIND}, "", "●"),
        ({"age": 30.0, "partitions": BEHIND}, "bad", "◆"),
        ({"age": 30.0, "partitions": OWN}, "warn", "▲"),
        ({"age": 30.0, "partitions": []}, "", "●"),
        ({"expires_in_seconds": 15.0}, "warn", "▲"),
        ({"expires_in_seconds": 15.1}, "", "●"),
        ({"state": "prepare_commit", "age": 90.0, "partitions": BEHIND}, "", "◐"),
        ({"state": "prepare_abort", "obstacle": "the disk is full"}, "bad", "◆"),
        ({"state": "complete_commit"}, "", "○"),
    ],
)
def test_what_hangs_and_keeps_others_back_is_told_by_a_colour_and_a_shape(
    told: dict[str, object], tone: str, mark: str
) -> None:
    one = fakes.transaction("till-1", 7, **told)  # type: ignore[arg-type]
    assert (transactions.attention_tone(one), transactions.state_mark(one)) == (tone, mark)


def test_a_line_says_how_long_and_what_waits() -> None:
    first, *_ = transactions.transaction_rows(fakes.OPEN) or []
    shown = {column.title: column.cell(first, None) for column in transactions.transaction_columns()}
    assert [cell.text for cell in shown.values()] == [
        "checkout-eu-7", "◆ ongoing", "1m36s", "48s", "12s", "1,434", "orders/0-1 reminders/2 (delayed)", "billing",
        "15", "7-3",
    ]  # fmt: skip
    assert [shown[title].tone for title in ("AGE", "LEFT", "HELD BACK")] == ["bad", "warn", "bad"]


def test_what_is_not_open_has_no_age() -> None:
    line, _ = transactions.transaction_rows(fakes.CLOSED) or []
    shown = {column.title: column.cell(line, None).text for column in transactions.transaction_columns()}
    assert (shown["STATE"], shown["AGE"], shown["LEFT"], shown["HELD BACK"]) == ("○ aborted", "-", "-", "-")


def test_of_very_many_partitions_the_first_are_named() -> None:
    many = [fakes.place("orders", number, 1, 1) for number in range(1_000)]
    (line,) = transactions.transaction_rows([fakes.transaction("till-1", 7, partitions=many)]) or []
    assert line.touched == "orders/0-19 and 980 more"


def test_figures_tell_what_is_open_and_what_became_of_others() -> None:
    assert transactions.open_numbers(fakes.STATS, one_is_bad=True) == [
        ("5", "open", ""), ("1m36s", "the oldest", "bad"), ("1,442", "messages held back", "bad"),
        ("2", "being ended", ""),
    ]  # fmt: skip
    assert transactions.ended_numbers(fakes.STATS) == [
        ("18,204", "committed", ""), ("31", "aborted", ""), ("9", "by timeout", ""), ("2", "by fenced", ""),
        ("214ms", "on average", ""), ("7", "transactional ids", ""),
    ]  # fmt: skip
    nothing = fakes.STATS | {"active_transactions": 0, "prepared": 0}
    assert transactions.open_numbers(nothing, one_is_bad=False) == [("0", "open", "")]
    assert transactions.open_numbers({}, one_is_bad=False) == transactions.ended_numbers({}) == []


def test_one_is_told_with_what_it_touches_and_how_the_one_before_ended() -> None:
    one = fakes.OPEN[0]
    assert [(line.name, line.kind, line.own, line.held_back) for line in transactions.target_rows(one) or []] == [
        ("orders/1", "partition", 12, 1_431),
        ("orders/0", "partition", 2, 2),
        ("reminders/2", "delayed", 1, 1),
        ("billing", "group", 14, None),
    ]
    told = {name: text for name, text, _ in transactions.transaction_facts(one, "is aborted in 12s", NOW_NS)}
    assert told["last"] == "7-2 was aborted 1m23s ago, after 12.5s: till 4 hangs"
    assert told["next"] == "is aborted in 12s"
    spark = {name: text for name, text, _ in transactions.transaction_facts(fakes.OPEN[1], "", NOW_NS)}
    assert spark["members"] == "2 producers beside it: 12, 13"


def test_a_partition_says_what_is_held_back_in_it() -> None:
    well, held, bad = partition_answers()
    held["last_stable"] = held["high_watermark"] - 1_204
    state = topics.partition_columns()[-1]
    assert [state.cell(one, None)[:2] for one in (well, held)] == [("● ok", "good"), ("◐ 1,204 held back", "accent")]
    assert state.cell({**bad, "last_stable": 0}, None).tone == "bad"


def test_a_transaction_is_typed_by_its_id() -> None:
    assert routes.parse_location("transactions") == Location("transactions")
    place = routes.parse_location("transaction till-1")
    assert place == routes.parse_location("transactions till-1") == Location("transaction", ("till-1",))
    assert [routes.location_title(one) for one in routes.trail(place)] == ["overview", "transactions", "till-1"]
