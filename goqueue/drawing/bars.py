"""Horizontal and vertical bars and sparklines, drawn with block characters."""

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

_RIGHTWARD = " ▏▎▍▌▋▊▉█"
_UPWARD = " ▁▂▃▄▅▆▇█"
_GAP = 1  # cells between two columns


class TonedText(NamedTuple):
    """Neighboring characters with one tone, the name of a color."""

    text: str
    tone: str


class ColumnBar(NamedTuple):
    """One bar of `column_bars`: the text above it, the text below it and their tones."""

    value: float
    number: str
    label: str
    tone: str
    label_tone: str = "muted"


def bar(value: float, most: float, width: int, *, blocks: bool = True) -> str:
    """Draw a bar that fills `width` cells at `most`. A value above 0 is always visible."""
    if most <= 0 or value <= 0:
        return ""
    share = min(value / most, 1.0)
    if not blocks:
        return "#" * max(1, round(share * width))
    full, rest = divmod(max(1, round(share * width * 8)), 8)
    return _RIGHTWARD[8] * full + _RIGHTWARD[rest].strip()


def sampled(points: Sequence[float | None], columns: int, span: int) -> list[float | None]:
    """Reduce points to one per column; the newest is at the right, `span` points fill the width.

    Several points in a column become their largest, so that a peak stays visible in a narrow terminal. None is a gap.
    """
    missing = span - len(points)
    found: list[float | None] = []
    for column in range(columns):
        begin = column * span / columns - missing
        end = (column + 1) * span / columns - missing
        first, last = floor(begin), max(ceil(end), floor(begin) + 1)
        known = [one for one in points[max(first, 0) : max(last, 0)] if one is not None]
        found.append(max(known) if known else None)
    return found


def sparkline(points: Sequence[float], width: int, span: int = 60) -> str:
    """Draw the newest seconds as one line of bars; the highest one is full."""
    newest = points[-max(span, width) :]
    shown = [one for one in sampled(newest, width, max(span, width)) if one is not None]
    most = max(shown, default=0.0) or 1.0
    return "".join(_UPWARD[max(1, round(point / most * 8))] for point in shown).rjust(width)


def column_bars(bars: Sequence[ColumnBar], width: int, height: int) -> list[list[TonedText]]:
    """Draw vertical bars side by side, each with its number above and its label below."""
    if not bars or height < 2:
        return []
    least, rest = divmod(max(width, len(bars)), len(bars))
    cells = [least + (index < rest) for index in range(len(bars))]
    rows = height - 2  # one row for the numbers on top of the bars, one for the labels
    most = max(one.value for one in bars) or 1
    eighths = [max(1, round(one.value / most * rows * 8)) if one.value else 0 for one in bars]
    lines = [
        [_column_cell(one, wide, tall, row) for one, wide, tall in zip(bars, cells, eighths, strict=True)]
        for row in range(rows, -1, -1)
    ]
    lines.append([_centered(one.label, wide, one.label_tone) for one, wide in zip(bars, cells, strict=True)])
    return lines


def _column_cell(one: ColumnBar, cells: int, eighths: int, row: int) -> TonedText:
    """Draw one bar's part of a row; rows count from the lowest."""
    full, part = divmod(eighths, 8)
    if row < full or (row == full and part):
        return _centered(_UPWARD[8 if row < full else part] * (cells - _GAP), cells, one.tone)
    if one.value and row == full + bool(part):
        return _centered(one.number, cells, "title")
    return TonedText(" " * cells, "")


def _centered(text: str, cells: int, tone: str) -> TonedText:
    room = max(0, cells - _GAP)
    return TonedText(text[:room].center(room) + " " * (cells - room), tone)
