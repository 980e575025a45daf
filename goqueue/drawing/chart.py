"""Line charts in a terminal, drawn with braille dots: two across and four down in every cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import floor, log, log10

from goqueue.drawing.bars import TonedText, sampled

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_STEPS = (1, 2, 2.5, 5, 10)
_ZERO = 1e-9  # smaller values count as 0
_MIDDLE_ROWS = 7  # from this height on, the axis has a number in the middle


@dataclass(frozen=True)
class Series:
    """One line of a chart: numbers at equal intervals, oldest first. None is a gap."""

    label: str
    points: Sequence[float | None]
    tone: str

    @property
    def known(self) -> list[float]:
        return [one for one in self.points if one is not None]

    @property
    def last(self) -> float:
        """The newest known number."""
        return next((one for one in reversed(self.points) if one is not None), 0.0)


def axis_end(most: float, base: int = 1000, steps: Sequence[float] = _STEPS) -> float:
    """Return the next round number from `most` on. Sizes use base 1024."""
    if most < _ZERO:
        return 1.0
    unit = float(base) ** max(0, floor(log(most, base))) if base != 1000 else 1.0
    power = unit * 10.0 ** floor(log10(most / unit))
    return next((step * power for step in steps if step * power >= most * (1 - 1e-9)), 10 * power)


def line_chart(
    series: Sequence[Series],
    width: int,
    height: int,
    show: Callable[[float], str],
    base: int = 1000,
    span: int = 300,
    step: int = 1,
) -> list[list[TonedText]]:
    """Draw a chart of `span` points with its axes; a point stands for `step` seconds.

    A low one has no time axis, a narrow one no numbers.
    """
    top = axis_end(max((max(one.known, default=0.0) for one in series), default=0.0), base)
    has_time = height >= 5
    rows = height - 1 if has_time else height
    spare = int(rows >= _MIDDLE_ROWS and rows % 2 == 0)  # an odd number of rows has a middle one
    rows -= spare
    labels = _axis_labels(top, rows, show)
    margin = max(len(label) for label in labels)
    if margin > width // 3:
        labels, margin = [""] * rows, 0
    columns = max(1, width - margin - 1)
    lines = [
        [TonedText(f"{label:>{margin}}", "muted"), TonedText("┤" if label else "│", "line"), *cells]
        for label, cells in zip(labels, _plot_area(series, columns, rows, top, span), strict=True)
    ]
    if has_time:
        lines.append([TonedText(" " * margin, ""), TonedText("╰", "line"), *_time_axis(columns, span * step)])
    lines += [[TonedText(" " * (margin + 1 + columns), "")]] * spare
    return lines


def _axis_labels(top: float, rows: int, show: Callable[[float], str]) -> list[str]:
    labels = [""] * rows
    labels[0] = show(top)
    labels[-1] = show(0)
    if rows >= _MIDDLE_ROWS:
        labels[rows // 2] = show(top / 2)
    return labels


def _plot_area(series: Sequence[Series], columns: int, rows: int, top: float, span: int) -> list[list[TonedText]]:
    """Draw all lines. The first series is drawn last, so it wins where two share a cell."""
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
            for y in _vertical_dots(before, now):
                row, column = rows - 1 - y // 4, x // 2
                dots[row][column] |= _DOTS[x % 2][3 - y % 4]
                tones[row][column] = one.tone
    return [_toned_line(line, tone) for line, tone in zip(dots, tones, strict=True)]


def _vertical_dots(before: int | None, now: int) -> range:
    """Return the dots of one column: from the end of the previous column to this one's value."""
    if before is None or before == now:
        return range(now, now + 1)
    return range(before + 1, now + 1) if now > before else range(now, before)


def _toned_line(dots: list[int], tones: list[str]) -> list[TonedText]:
    cells = zip(tones, dots, strict=True)
    return [
        TonedText("".join(chr(_BLANK + dot) if dot else " " for _, dot in group), tone)
        for tone, group in groupby(cells, key=lambda cell: cell[0])
    ]


def _time_axis(columns: int, span: int) -> list[TonedText]:
    if columns < 16:
        return [TonedText("─" * columns, "line")]
    left, right = _ago(span), "now"
    middle = _ago(span // 2) if columns >= 30 else ""
    line = f"{left}{middle:─^{columns - len(left) - len(right)}}{right}"
    groups = groupby(line, key=lambda character: character == "─")
    return [TonedText("".join(group), "line" if is_line else "muted") for is_line, group in groups]


def _ago(span: int) -> str:
    minutes, rest = divmod(span, 60)
    if minutes >= 60 and not rest:
        hours, minutes = divmod(minutes, 60)
        return f"-{hours}h{f'{minutes}m' if minutes else ''}"
    return f"-{minutes}m{f'{rest}s' if rest else ''}" if minutes else f"-{rest}s"
