"""`--plot FILE`: the result of a command as a chart, in an SVG or a PNG."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from goqueue.commands.inspect.canvas import LETTER, Box, Line, Picture, Text, as_png, as_svg
from goqueue.console.groups import UsageInvalid
from goqueue.console.table import cut
from goqueue.quantities import quoted

PlotFlag = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw it as well, into FILE.svg or FILE.png.")
]

_WIDTH, _HEIGHT = 960, 420
_MARGIN, _TITLE = 20, 46
_ROW = 22
_LABEL_LETTERS = 32
_TICKS = 5
_COLOURS = ("#2f6fb5", "#d9822b", "#3a9d5d", "#b5413f", "#7a5aa6", "#5b6770", "#c2a11c", "#2b9aa8")
_SERIES_MAX = len(_COLOURS)  # more lines than colours tell nobody anything
_GRID, _FAINT = "#e3e6ea", "#777777"


def check_plot(path: str | None) -> None:
    """Refuse what could not be written, before anything takes time."""
    if path is None:
        return
    if not path.lower().endswith((".svg", ".png")):
        raise UsageInvalid(f"--plot: {quoted(path)} is neither .svg nor .png", hint="write it as in --plot chart.svg")
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise UsageInvalid(f"--plot: there is no directory {quoted(directory)}", hint="make it first")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise UsageInvalid(f"--plot: {quoted(path)} cannot be written", hint="name another file")


def plot_bars(path: str, title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> None:
    """A bar for each label, one below the other."""
    _store(path, bars(title, labels, values, unit))


def plot_lines(path: str, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> None:
    """A line for each of the series, over the same labels from left to right."""
    _store(path, lines(title, labels, series, unit))


def bars(title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> Picture:
    names = [cut(label, _LABEL_LETTERS) for label in labels]
    left = _MARGIN + LETTER * max(map(len, names), default=0) + 8
    most = max(values, default=0) or 1
    room = _WIDTH - left - _MARGIN - LETTER * max((len(_number(value)) + 1 for value in values), default=1)
    picture = Picture(_WIDTH, round(_TITLE + _ROW * max(1, len(values)) + _MARGIN))
    _head(picture, title, unit)
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        middle = _TITLE + _ROW * (number + 0.5)
        length = value / most * room
        picture.add(Text(left - 8, middle, name, "end"))
        if value > 0:
            picture.add(Box(left, middle - _ROW * 0.36, max(1.0, length), _ROW * 0.72, _COLOURS[0]))
        picture.add(Text(left + length + 6, middle, _number(value), colour=_FAINT))
    if not values:
        _say_nothing(picture)
    return picture


def lines(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> Picture:
    picture = Picture(_WIDTH, _HEIGHT)
    _head(picture, title, unit)
    shown = sorted(series, key=lambda name: -sum(series[name]))[:_SERIES_MAX]
    if not labels or not shown:
        _say_nothing(picture)
        return picture
    top_value = _ceiling(max(max(series[name]) for name in shown))
    ticks = [top_value * number / _TICKS for number in range(_TICKS + 1)]
    left = _MARGIN + LETTER * max(len(_number(tick)) for tick in ticks) + 8
    top, bottom, right = _TITLE + (_ROW if len(shown) > 1 else 0), _HEIGHT - 44.0, _WIDTH - _MARGIN * 1.0
    for tick in ticks:
        y = bottom - tick / top_value * (bottom - top)
        picture.add(Box(left, y, right - left, 0.5, _GRID), Text(left - 8, y, _number(tick), "end", _FAINT))
    step = (right - left) / len(labels)
    for name, colour in zip(shown, _COLOURS, strict=False):
        heights = [bottom - value / top_value * (bottom - top) for value in series[name]]
        if len(shown) == 1:
            for number, height in enumerate(heights):
                if height < bottom:
                    place = left + number * step
                    picture.add(Box(place, height, max(0.5, step * 0.86), bottom - height, colour))
        else:
            picture.add(Line([(left + (number + 0.5) * step, y) for number, y in enumerate(heights)], colour))
    picture.add(Box(left, bottom, right - left, 1, _FAINT))
    _label_times(picture, labels, left, right, bottom + 18)
    if len(shown) > 1:
        _legend(picture, shown, len(series) - len(shown))
    return picture


def _label_times(picture: Picture, labels: Sequence[str], left: float, right: float, y: float) -> None:
    """As many labels as there is room for; the first and the last are always among them."""
    step = (right - left) / len(labels)
    longest = max(map(len, labels)) * LETTER + 24
    count = max(2, min(len(labels), int((right - left) // longest)))
    for number in sorted({round(place * (len(labels) - 1) / (count - 1)) for place in range(count)}):
        half = len(labels[number]) * LETTER / 2
        middle = min(max(left + (number + 0.5) * step, left + half), right - half)
        picture.add(Text(middle, y, labels[number], "middle", _FAINT))


def _legend(picture: Picture, names: Sequence[str], left_out: int) -> None:
    x, y = float(_MARGIN), _TITLE + 4.0
    for name, colour in zip(names, _COLOURS, strict=False):
        text = cut(name, _LABEL_LETTERS // 2)
        picture.add(Box(x, y - 5, 10, 10, colour), Text(x + 15, y, text))
        x += 15 + LETTER * (len(text) + 2)
    if left_out:
        picture.add(Text(x, y, f"and {left_out} more", colour=_FAINT))


def _head(picture: Picture, title: str, unit: str) -> None:
    picture.add(Text(_MARGIN, 22, title), Text(_WIDTH - _MARGIN, 22, unit, "end", _FAINT))


def _say_nothing(picture: Picture) -> None:
    picture.add(Text(picture.width / 2, picture.height / 2, "nothing to show", "middle", _FAINT))


def _ceiling(value: float) -> float:
    """The next round number, so that ticks are round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15) if step * power >= value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


def _store(path: str, picture: Picture) -> None:
    content = as_png(picture) if path.lower().endswith(".png") else as_svg(picture)
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageInvalid(f"--plot: {quoted(path)} cannot be written: {error.strerror}") from None
