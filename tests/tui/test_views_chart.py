"""Lines over time, as characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue_admin.dashboard.views.chart import Series, bar, ceiling, chart, sampled, spark


def drawn(*points: float, width: int = 12, height: int = 4, span: int = 10) -> list[str]:
    lines = chart([Series("a", points, "first")], width, height, "{:g}".format, span=span)
    return ["".join(piece.text for piece in line) for line in lines]


def test_a_line_that_rises() -> None:
    assert drawn(*range(10), width=14) == [
        "10┤        ⢀⡰⠒",
        "  │     ⢀⡠⠔⠊  ",
        "  │   ⣀⠖⠊     ",
        " 0┤⣀⠖⠉        ",
    ]


def test_a_peak_with_the_time_below_it() -> None:
    assert drawn(0, 0, 9, 0, 0, width=14, height=6) == [
        "10┤       ⢠⠤⡀ ",
        "  │       ⢸ ⡇ ",
        "  │       ⢸ ⡇ ",
        "  │       ⢸ ⡇ ",
        " 0┤     ⢀⣀⡸ ⣇⣀",
        "  ╰───────────",
    ]


@pytest.mark.parametrize(
    ("most", "end"),
    [(0, 1), (1, 1), (7, 10), (12, 20), (21, 25), (26, 50), (99.9, 100), (12_345, 20_000), (0.03, 0.05)],
)
def test_an_axis_ends_at_a_number_that_is_easy_to_read(most: float, end: float) -> None:
    assert ceiling(most) == pytest.approx(end)


def test_an_axis_of_sizes_counts_in_units_of_1024() -> None:
    assert ceiling(61 * 2**30, 1024) == 100 * 2**30
    assert ceiling(3_600_000, 1024) == 5 * 2**20
    assert ceiling(700, 1024) == 1000


def test_what_is_not_known_yet_is_left_empty_at_the_left() -> None:
    assert sampled([1.0, 2.0], 4, 4) == [None, None, 1.0, 2.0]


def test_a_peak_does_not_vanish_where_many_points_share_a_column() -> None:
    points = [0.0] * 300
    points[150] = 9.0
    assert max(value or 0 for value in sampled(points, 20, 300)) == 9.0


@given(
    st.lists(st.floats(0, 1e15), max_size=400),
    st.integers(1, 200),
    st.integers(1, 60),
    st.integers(1, 400),
)
def test_a_chart_is_exactly_as_large_as_asked(points: list[float], width: int, height: int, span: int) -> None:
    lines = chart(
        [Series("a", points, "first"), Series("b", points[::-1], "second")], width, height, "{:.3g}".format, span=span
    )
    assert len(lines) == height
    assert {sum(len(piece.text) for piece in line) for line in lines} <= {max(width, 2)}


def test_a_spark_shows_the_newest_at_the_right() -> None:
    assert spark([0, 1, 2, 4, 8], 5, 5) == "▁▁▂▄█"
    assert spark([8, 8], 4, 4) == "  ██"
    assert spark([], 3) == "   "
    assert spark([0, 0, 0], 3, 3) == "▁▁▁"


def test_a_bar_is_drawn_to_an_eighth() -> None:
    assert bar(0.5, 4) == "██  "
    assert bar(0.03125, 4) == "▏   "
    assert bar(2.0, 4) == "████"
    assert bar(-1.0, 4) == "    "
