"""Tables as lines: what is wide, what gives way, and what never does."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.console.table import Cell, column_widths, layout_line, text_width, truncate

WORDS = st.text(st.sampled_from("ab 漢é\u0301x…"), max_size=12)
TABLES = st.integers(1, 4).flatmap(
    lambda count: st.tuples(
        st.lists(st.lists(WORDS, min_size=count, max_size=count), min_size=1, max_size=5),
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.none() | st.integers(1, 40),
    )
)


def lines(rows: list[list[str]], right: list[bool], room: int | None) -> list[str]:
    table = [[Cell(text) for text in row] for row in rows]
    columns = column_widths(table, right, room)
    return ["".join(piece.text for piece in layout_line(row, columns, right, room)) for row in table]


@pytest.mark.parametrize(
    ("text", "count"), [("abc", 3), ("", 0), ("漢字", 4), ("e\u0301", 1), ("ｱ", 1), ("é", 1), ("\u0e19\u0e31", 1)]
)
def test_text_is_as_wide_as_a_terminal_shows_it(text: str, count: int) -> None:
    assert text_width(text) == count


@given(WORDS, st.integers(0, 12))
def test_what_is_cut_fits_and_says_so(text: str, room: int) -> None:
    shown = truncate(text, room)
    assert text_width(shown) <= room
    assert shown == text or room == 0 or shown.endswith("…")


@given(TABLES)
def test_no_line_is_wider_than_its_room_nor_ends_with_blanks(table: tuple[list[list[str]], list[bool], int]) -> None:
    rows, right, room = table
    for line in lines(rows, right, room):
        if room is not None:
            assert text_width(line) <= room
        assert line == line.rstrip(" ")


@given(TABLES)
def test_without_a_limit_nothing_is_cut(table: tuple[list[list[str]], list[bool], int]) -> None:
    rows, right, _ = table
    for row, line in zip(rows, lines(rows, right, None), strict=True):
        assert all(text.strip(" ") in line for text in row)


def test_columns_are_aligned_whatever_the_characters() -> None:
    rows = [["NAME", "LAG"], ["漢字", "5"], ["e\u0301t", "12,345"], ["plain", "-"]]
    shown = lines(rows, [False, True], None)
    assert shown == ["NAME      LAG", "漢字        5", "e\u0301t     12,345", "plain       -"]
    assert {text_width(line) for line in shown} == {13}


def test_the_widest_text_gives_way_and_numbers_stay_whole() -> None:
    rows = [["orders", "1,234,567", "cleanup=delete retention_hours=168"]]
    assert lines(rows, [False, True, False], 40) == ["orders  1,234,567  cleanup=delete reten…"]
    assert lines(rows, [False, True, False], 25) == ["orders  1,234,567  clean…"]
    assert lines(rows, [False, True, False], 12) == ["orders  1,2…"], "where nothing helps, the line ends"


def test_texts_of_one_width_give_way_together() -> None:
    assert lines([["a" * 20, "b" * 20]], [False, False], 22) == ["aaaaaaaaa…  bbbbbbbbb…"]


def test_an_accent_is_never_torn_from_its_letter() -> None:
    for room in range(1, 6):
        assert unicodedata.combining(truncate("e\u0301" * 5, room)[0]) == 0
