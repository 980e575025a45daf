"""The order that `--sort-by` asks for."""

import pytest

from goqueue.console.failure import UsageInvalid
from goqueue.console.rows import Column, parse_sort, sort_rows

COLUMNS = (Column("NAME", "name"), Column("SIZE", "total_size_bytes"))
ROWS = [
    {"name": "b", "total_size_bytes": 30, "state": None},
    {"name": "C", "total_size_bytes": 4, "state": "stable"},
    {"name": "a", "total_size_bytes": 200, "state": "empty"},
]


def names(by: str) -> str:
    return "".join(row["name"] for row in sort_rows(ROWS, COLUMNS, by))


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("name", "abC"),
        ("name:desc", "Cba"),
        ("SIZE", "Cba"),
        ("size:desc", "abC"),
        ("total_size_bytes:asc", "Cba"),
        ("state", "aCb"),
        ("state:desc", "Cab"),
    ],
)
def test_rows_are_sorted_by_a_field_or_a_title_with_nothing_last(by: str, order: str) -> None:
    assert names(by) == order


def test_a_mistyped_field_is_told_with_the_nearest_and_a_strange_one_with_all() -> None:
    with pytest.raises(UsageInvalid) as near:
        names("nmae")
    assert near.value.hint == "did you mean name?"
    with pytest.raises(UsageInvalid) as far:
        names("wombat")
    assert far.value.hint == "there are name, total_size_bytes, state"


@pytest.mark.parametrize("text", ["", ":desc", "name:down"])
def test_what_is_no_order_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(UsageInvalid):
        parse_sort(text)
