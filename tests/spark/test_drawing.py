"""Bars in a table, and charts in files; what cannot be drawn is refused before Spark starts."""

import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from goqueue.commands.inspect.bars import bar
from goqueue.commands.inspect.canvas import Box, Line, Picture, Text, as_png, as_svg
from goqueue.commands.inspect.glyphs import dots
from goqueue.commands.inspect.plot import bars, lines, plot_bars, plot_lines
from tests.spark.stock import made

ROOT = Path(__file__).resolve().parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"


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


# --- bars ---


@given(st.floats(0, 1000), st.floats(1, 1000), st.integers(1, 60))
def test_a_bar_is_as_long_as_its_share(value: float, most: float, width: int) -> None:
    drawn = bar(min(value, most), most, width)
    assert len(drawn) <= width
    assert bool(drawn) == (value > 0)
    assert abs(len(drawn) - min(value, most) / most * width) <= 1


def test_a_bar_grows_by_eighths() -> None:
    assert [bar(number, 16, 2) for number in (1, 4, 8, 9, 16)] == ["▏", "▌", "█", "█▏", "██"]
    assert bar(1, 1, 4, blocks=False) == "####"


# --- pictures ---


def test_what_is_drawn_is_where_it_should_be() -> None:
    picture = Picture(40, 20)
    picture.add(Box(10, 5, 20, 10, "#ff0000"), Line([(0, 0), (39, 0)], "#00ff00"), Text(1, 17, "|", colour="#0000ff"))
    image = pixels(as_png(picture))
    assert image.shape == (40, 80, 3)
    assert image[20, 40].tolist() == [255, 0, 0]
    assert image[38, 78].tolist() == [255, 255, 255]
    assert image[0, 40].tolist() == [0, 255, 0]
    assert (image[26:, :12] == (0, 0, 255)).all(axis=2).any()


def test_letters_are_dots_and_what_is_unknown_is_a_question_mark() -> None:
    assert dots("I") != dots("l")
    assert not dots(" ")
    assert dots("é") == dots("?")
    assert max(row for _, row in dots("gjpqy")) == 7, "they hang below the line"


def test_an_svg_is_xml_whatever_its_labels_say() -> None:
    root = ET.fromstring(as_svg(bars("<a> & b", ["<k&>", "\x1b[31m", "é"], [1, 0, 2.5], "messages")))  # noqa: S314 - our own
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"<a> & b", "<k&>", "?[31m", "é", "messages", "2.5"} <= set(texts)


def test_bars_are_as_long_as_their_values() -> None:
    root = ET.fromstring(as_svg(bars("t", ["a", "b", "none"], [10, 5, 0], "u")))  # noqa: S314 - our own
    found = [element.attrib["width"] for element in root.iter(f"{SVG}rect")]
    widths = [float(width) for width in found if "%" not in width]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


def test_more_lines_than_there_are_colours_are_named_as_left_out() -> None:
    series = {f"orders/{number}": [number, number + 1] for number in range(11)}
    content = as_svg(lines("t", ["12:00", "12:01"], series, "messages/s")).decode()
    assert content.count("<polyline") == 8
    assert "and 3 more" in content
    assert "orders/10" in content
    assert "orders/0<" not in content


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_nothing_is_drawn_as_nothing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"chart.{ending}"
    plot_lines(str(path), "t", [], {}, "messages")
    assert path.stat().st_size
    plot_bars(str(path), "t", [], [], "messages")
    assert path.stat().st_size
    plot_lines(str(path), "t", ["12:00"], {"all": [0]}, "messages")
    assert path.stat().st_size


# --- the commands ---


def inspect(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "goqueue", "spark-inspect", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keys", ".", "--plot", "chart.pdf"), "neither .svg nor .png"),
        (("sizes", ".", "--plot", "/nowhere/at/all/chart.svg"), "there is no directory"),
        (("sizes", ".", "--histogram", "value", "--biggest", "3"), "two different tables"),
        (("timeline", ".", "--bucket", "1us"), "too short"),
        (("timeline", ".", "--bucket", "soon"), "--bucket"),
        (("skew",), "nothing to read was named"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(words: tuple[str, ...], said: str) -> None:
    done = inspect(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_timeline_is_printed_with_bars_and_drawn(tmp_path: Path) -> None:
    path = made(tmp_path / "data").path
    chart = tmp_path / "chart.png"
    done = inspect("timeline", str(path), "--bucket", "10s", "--plot", str(chart), "--master", "local[1]")
    assert done.returncode == 0, done.stderr
    assert "█" in done.stdout
    assert "busiest: 7/s" in done.stderr
    assert pixels(chart.read_bytes()).shape == (840, 1920, 3)
