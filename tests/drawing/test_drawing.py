"""Charts and bars as text, SVG and PNG."""

import struct
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from goqueue.drawing.bars import ColumnBar, bar, column_bars, sampled, sparkline
from goqueue.drawing.chart import Series, axis_end, line_chart
from goqueue.drawing.plot import Box, Label, Picture, Polyline, as_png, as_svg, bar_plot, glyph_dots, line_plot

SVG = "{http://www.w3.org/2000/svg}"


# --- bars ---


@given(st.floats(0, 1000), st.floats(1, 1000), st.integers(1, 60))
def test_bar_length_is_proportional(value: float, most: float, width: int) -> None:
    drawn = bar(min(value, most), most, width)
    assert len(drawn) <= width
    assert bool(drawn) == (value > 0)
    assert abs(len(drawn) - min(value, most) / most * width) <= 1


def test_bar_grows_by_eighths_up_to_its_width() -> None:
    assert [bar(number, 16, 2) for number in (1, 4, 8, 9, 16)] == ["▏", "▌", "█", "█▏", "██"]
    assert bar(1, 1, 4, blocks=False) == "####"
    assert bar(2, 1, 4) == "████"
    assert bar(-1, 1, 4) == ""


def test_column_bars_have_their_number_above_and_their_label_below() -> None:
    values = {"now": 8, "soon": 16, "late": 0, "one": 1}
    lines = column_bars([ColumnBar(value, str(value), label, "first") for label, value in values.items()], 24, 4)
    assert ["".join(piece.text for piece in line) for line in lines] == [
        "        16              ",
        "  8   █████         1   ",
        "█████ █████       ▁▁▁▁▁ ",
        " now   soon  late  one  ",
    ]


@given(
    counts=st.lists(st.integers(0, 10**9), max_size=12),
    width=st.integers(0, 200),
    height=st.integers(0, 20),
)
def test_column_bars_fill_the_requested_size(counts: list[int], width: int, height: int) -> None:
    bars = [ColumnBar(count, str(count), f"<{number}s", "first") for number, count in enumerate(counts)]
    lines = column_bars(bars, width, height)
    assert len(lines) == (height if bars and height >= 2 else 0)
    assert {sum(len(piece.text) for piece in line) for line in lines} <= {max(width, len(bars))}


# --- line charts ---


def drawn(*points: float, width: int = 12, height: int = 4, span: int = 10) -> list[str]:
    lines = line_chart([Series("a", points, "first")], width, height, "{:g}".format, span=span)
    return ["".join(piece.text for piece in line) for line in lines]


def test_line_chart_of_rising_numbers() -> None:
    assert drawn(*range(10), width=14) == [
        "10┤        ⢀⡰⠒",
        "  │     ⢀⡠⠔⠊  ",
        "  │   ⣀⠖⠊     ",
        " 0┤⣀⠖⠉        ",
    ]


def test_line_chart_with_time_axis() -> None:
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
def test_axis_ends_at_a_round_number(most: float, end: float) -> None:
    assert axis_end(most) == pytest.approx(end)


def test_axis_of_sizes_uses_units_of_1024() -> None:
    assert axis_end(61 * 2**30, 1024) == 100 * 2**30
    assert axis_end(3_600_000, 1024) == 5 * 2**20
    assert axis_end(700, 1024) == 1000


def test_a_gap_stays_empty_and_long_times_are_told_in_hours() -> None:
    points = [5.0, None, None, 5.0]
    lines = line_chart([Series("a", points, "first")], 40, 6, "{:g}".format, span=4, step=21_600)
    text = ["".join(piece.text for piece in line) for line in lines]
    assert text[0][2:].strip("\u2800 ").count(" ") > 10
    assert text[-1].lstrip(" ╰").startswith("-24h")
    assert "-12h" in text[-1]
    assert Series("a", [*points, None], "first").last == 5.0


def test_missing_seconds_are_empty_at_the_left() -> None:
    assert sampled([1.0, 2.0], 4, 4) == [None, None, 1.0, 2.0]


def test_peak_stays_visible_when_points_share_a_column() -> None:
    points = [0.0] * 300
    points[150] = 9.0
    assert max(value or 0 for value in sampled(points, 20, 300)) == 9.0


@given(
    st.lists(st.floats(0, 1e15), max_size=400),
    st.integers(1, 200),
    st.integers(1, 60),
    st.integers(1, 400),
)
def test_line_chart_has_the_requested_size(points: list[float], width: int, height: int, span: int) -> None:
    lines = line_chart(
        [Series("a", points, "first"), Series("b", points[::-1], "second")], width, height, "{:.3g}".format, span=span
    )
    assert len(lines) == height
    assert {sum(len(piece.text) for piece in line) for line in lines} <= {max(width, 2)}


def test_sparkline_shows_the_newest_at_the_right() -> None:
    assert sparkline([0, 1, 2, 4, 8], 5, 5) == "▁▁▂▄█"
    assert sparkline([8, 8], 4, 4) == "  ██"
    assert sparkline([], 3) == "   "
    assert sparkline([0, 0, 0], 3, 3) == "▁▁▁"


# --- pictures ---


def pixels(content: bytes) -> NDArray[np.uint8]:
    """A PNG, decoded as far as ours go."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    position, found = 8, {}
    while position < len(content):
        (length,) = struct.unpack_from(">I", content, position)
        name, body = content[position + 4 : position + 8], content[position + 8 : position + 8 + length]
        assert zlib.crc32(name + body) == struct.unpack_from(">I", content, position + 8 + length)[0]
        found[name] = body
        position += 12 + length
    width, height, depth, colours = struct.unpack_from(">IIBB", found[b"IHDR"])
    assert (depth, colours) == (8, 2)
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_png_has_each_shape_at_its_position() -> None:
    picture = Picture(40, 20)
    picture.add(
        Box(10, 5, 20, 10, "#ff0000"), Polyline([(0, 0), (39, 0)], "#00ff00"), Label(1, 17, "|", color="#0000ff")
    )
    image = pixels(as_png(picture))
    assert image.shape == (40, 80, 3)
    assert image[20, 40].tolist() == [255, 0, 0]
    assert image[38, 78].tolist() == [255, 255, 255]
    assert image[0, 40].tolist() == [0, 255, 0]
    assert (image[26:, :12] == (0, 0, 255)).all(axis=2).any()


def test_png_font_has_ascii_and_a_question_mark_for_the_rest() -> None:
    assert glyph_dots("I") != glyph_dots("l")
    assert not glyph_dots(" ")
    assert glyph_dots("é") == glyph_dots("?")
    assert max(row for _, row in glyph_dots("gjpqy")) == 7, "they hang below the line"


def test_svg_escapes_labels() -> None:
    root = ET.fromstring(as_svg(bar_plot("<a> & b", ["<k&>", "\x1b[31m", "é"], [1, 0, 2.5], "messages")))  # noqa: S314 - our own
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"<a> & b", "<k&>", "?[31m", "é", "messages", "2.5"} <= set(texts)


def test_bar_plot_lengths_are_proportional() -> None:
    root = ET.fromstring(as_svg(bar_plot("t", ["a", "b", "none"], [10, 5, 0], "u")))  # noqa: S314 - our own
    found = [element.attrib["width"] for element in root.iter(f"{SVG}rect")]
    widths = [float(width) for width in found if "%" not in width]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


def test_line_plot_counts_series_beyond_its_colors() -> None:
    series = {f"orders/{number}": [number, number + 1] for number in range(11)}
    content = as_svg(line_plot("t", ["12:00", "12:01"], series, "messages/s")).decode()
    assert content.count("<polyline") == 8
    assert "and 3 more" in content
    assert "orders/10" in content
    assert "orders/0<" not in content
