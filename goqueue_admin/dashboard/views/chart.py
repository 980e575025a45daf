"""Lines over time, drawn with the dots of braille: two across and four down in every cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log, log10
from typing import NamedTuple

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BARS = " ▁▂▃▄▅▆▇█"
_STEPS = (1, 2, 2.5, 5, 10)
_LEAST = 1e-9
"""What is less than this is nothing."""
_MIDDLE_ROWS = 7
"""From so many rows on, half of the axis has its number."""


@dataclass(frozen=True)
class Series:
    """Numbers, one a second, oldest first."""

    label: str
    points: Sequence[float]
    tone: str

    @property
    def last(self) -> float:
        return self.points[-1] if self.points else 0.0


class Piece(NamedTuple):
    """Neighbouring characters of one tone."""

    text: str
    tone: str


def ceiling(most: float, base: int = 1000) -> float:
    """The end of an axis: the next number above that is easy to read. Sizes have units of 1,024."""
    if most < _LEAST:
        return 1.0
    unit = float(base) ** max(0, floor(log(most, base))) if base != 1000 else 1.0
    power = unit * 10.0 ** floor(log10(most / unit))
    return next((step * power for step in _STEPS if step * power >= most * (1 - 1e-9)), 10 * power)


def sampled(points: Sequence[float], columns: int, span: int) -> list[float | None]:
    """One number for each column of dots, so that the newest is at the right and `span` seconds fill the width.

    Several points in a column give the largest: a peak must not vanish because a terminal is narrow.
    """
    missing = span - len(points)
    found: list[float | None] = []
    for column in range(columns):
        begin = column * span / columns - missing
        end = (column + 1) * span / columns - missing
        first, last = floor(begin), max(ceil(end), floor(begin) + 1)
        known = points[max(first, 0) : max(last, 0)]
        found.append(max(known) if known else None)
    return found


def spark(points: Sequence[float], width: int, span: int = 60) -> str:
    """The points of the newest seconds as bars of one line, the highest of them full."""
    newest = points[-max(span, width) :]
    shown = [one for one in sampled(newest, width, max(span, width)) if one is not None]
    most = max(shown, default=0.0) or 1.0
    return "".join(_BARS[max(1, round(point / most * 8))] for point in shown).rjust(width)


def bar(part: float, width: int) -> str:
    """A share as a bar, to an eighth of a cell."""
    eighths = round(min(max(part, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def chart(
    series: Sequence[Series], width: int, height: int, show: Callable[[float], str], base: int = 1000, span: int = 300
) -> list[list[Piece]]:
    """Lines of pieces: the plot with its axes. Where it is low, the time is left out; where narrow, the numbers."""
    top = ceiling(max((max(one.points, default=0.0) for one in series), default=0.0), base)
    has_time = height >= 5
    rows = height - 1 if has_time else height
    spare = int(rows >= _MIDDLE_ROWS and rows % 2 == 0)  # so that there is a row in the middle
    rows -= spare
    labels = _labels(top, rows, show)
    margin = max(len(label) for label in labels)
    if margin > width // 3:
        labels, margin = [""] * rows, 0
    columns = max(1, width - margin - 1)
    grid = _drawn(series, columns, rows, top, span)
    lines = [
        [Piece(f"{label:>{margin}}", "muted"), Piece("┤" if label else "│", "line"), *cells]
        for label, cells in zip(labels, grid, strict=True)
    ]
    if has_time:
        lines.append([Piece(" " * margin, ""), Piece("╰", "line"), *_time_axis(columns, span)])
    lines += [[Piece(" " * (margin + 1 + columns), "")]] * spare
    return lines


def _labels(top: float, rows: int, show: Callable[[float], str]) -> list[str]:
    found = [""] * rows
    found[0] = show(top)
    found[-1] = show(0)
    if rows >= _MIDDLE_ROWS:
        found[rows // 2] = show(top / 2)
    return found


def _drawn(series: Sequence[Series], columns: int, rows: int, top: float, span: int) -> list[list[Piece]]:
    """The first series is drawn last: where two share a cell, it is seen."""
    dots = [[0] * columns for _ in range(rows)]
    tones = [[""] * columns for _ in range(rows)]
    for one in reversed(series):
        heights = [
            None if value is None else round(min(value, top) / top * (rows * 4 - 1))
            for value in sampled(one.points, columns * 2, span)
        ]
        for x, (before, now) in enumerate(pairwise([None, *heights])):
            if now is None:
                continue
            for y in _climb(before, now):
                row, column = rows - 1 - y // 4, x // 2
                dots[row][column] |= _DOTS[x % 2][3 - y % 4]
                tones[row][column] = one.tone
    return [_joined(line, tone) for line, tone in zip(dots, tones, strict=True)]


def _climb(before: int | None, now: int) -> range:
    """The dots of a column: from where the column before ended to where this one does."""
    if before is None or before == now:
        return range(now, now + 1)
    return range(before + 1, now + 1) if now > before else range(now, before)


def _joined(dots: list[int], tones: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for dot, tone in zip(dots, tones, strict=True):
        character = chr(_BLANK + dot) if dot else " "
        if pieces and pieces[-1].tone == tone:
            pieces[-1] = Piece(pieces[-1].text + character, tone)
        else:
            pieces.append(Piece(character, tone))
    return pieces


def _time_axis(columns: int, span: int) -> list[Piece]:
    """Where a minute ends, as far as there is space to say so."""
    if columns < 16:
        return [Piece("─" * columns, "line")]
    left, right = _ago(span), "now"
    middle = _ago(span // 2) if columns >= 30 else ""
    line = f"{left}{middle:─^{columns - len(left) - len(right)}}{right}"
    return [Piece(text, "muted" if text.strip("─") else "line") for text in _split(line)]


def _ago(span: int) -> str:
    minutes, rest = divmod(span, 60)
    return f"-{minutes}m{f'{rest}s' if rest else ''}" if minutes else f"-{rest}s"


def _split(line: str) -> list[str]:
    found: list[str] = []
    for character in line:
        if found and (found[-1][0] == "─") == (character == "─"):
            found[-1] += character
        else:
            found.append(character)
    return found
