"""Lists as a table shows them."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.views.table import (
    RowFilter,
    SortOrder,
    TableCell,
    TableColumn,
    arrange,
    column_widths,
    fit,
    fitting_columns,
)


class One(NamedTuple):
    name: str
    size: int | None = 0


COLUMNS: tuple[TableColumn[One], ...] = (
    TableColumn("NAME", lambda one: one.name, width=6, grows=True),
    TableColumn("COUNT", lambda one: one.size, "{:,}".format, 8, right=True, moves=True, rank=1),
    TableColumn("LESS", lambda one: one.size, width=10, rank=3),
    TableColumn("MORE", lambda one: one.size, width=10, rank=2),
)


def names(records: list[One], filter_text: str = "", sorting: SortOrder = SortOrder()) -> list[str]:  # noqa: B008
    return [one.name for one in arrange(records, COLUMNS, lambda one: one.name, RowFilter(filter_text), sorting)]


def test_a_filter_looks_for_a_part_of_the_name_in_any_case() -> None:
    records = [One("Orders"), One("payments"), One("reorder")]
    assert names(records, "ORDER") == ["Orders", "reorder"]
    assert names(records, "!order") == ["payments"]
    assert names(records, "!") == names(records) == ["Orders", "payments", "reorder"]


def test_what_has_no_value_comes_last_whichever_way_it_is_sorted() -> None:
    records = [One("a", None), One("b", 2), One("c", 1)]
    assert names(records, sorting=SortOrder("COUNT")) == ["c", "b", "a"]
    assert names(records, sorting=SortOrder("COUNT", falling=True)) == ["b", "c", "a"]
    assert names(records, sorting=SortOrder("GONE")) == ["a", "b", "c"]


def test_a_number_that_changed_has_an_arrow() -> None:
    column = COLUMNS[1]
    assert column.cell(One("a", 1500), One("a", 1000)) == TableCell("1,500", "", "↑")
    assert column.cell(One("a", 1000), One("a", 1500)).arrow == "↓"
    assert column.cell(One("a", 1000), One("a", 1000)).arrow == " "
    assert column.cell(One("a", 1000), None).arrow == " "
    assert column.cell(One("a", None), One("a", 1)) == TableCell("-", "muted", " ")


@pytest.mark.parametrize(
    ("width", "titles"),
    [(80, "NAME COUNT LESS MORE"), (40, "NAME COUNT MORE"), (20, "NAME COUNT"), (10, "NAME"), (1, "NAME")],
)
def test_columns_go_by_their_rank_where_space_is_short(width: int, titles: str) -> None:
    assert " ".join(column.title for column in fitting_columns(COLUMNS, width)) == titles


def test_what_grows_takes_what_it_needs_and_no_more_than_there_is() -> None:
    short, long = [One("orders")], [One("a-name-that-is-rather-long")]
    assert column_widths(COLUMNS[:2], short, 60)[0] == 6
    assert column_widths(COLUMNS[:2], long, 60)[0] == 26
    assert column_widths(COLUMNS[:2], long, 30)[0] == 30 - 2 - 10


@given(st.text(max_size=30), st.integers(1, 40), st.booleans())
def test_a_fitted_text_is_exactly_as_wide_as_asked(text: str, width: int, right: bool) -> None:
    assert cell_len(fit(escape_unprintable(text), width, right=right)) == width


def test_nothing_in_a_name_is_obeyed_by_the_terminal() -> None:
    hostile: Any = One("a\x1b[31mb\n")
    assert COLUMNS[0].cell(hostile, None).text == "a\\x1b[31mb\\n"
