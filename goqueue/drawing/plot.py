"""Bar and line plots as pictures of boxes, lines and text, written as SVG or PNG without an imaging library."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from goqueue.drawing.chart import axis_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

CHARACTER_WIDTH = 7.2  # of the text in a picture; the font size below makes SVG agree
_FONT_SIZE = 12
_SCALE = 2  # PNG pixels per unit of a picture, so that it is sharp on a high-resolution screen
_BACKGROUND = "#ffffff"


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    color: str


@dataclass(frozen=True, slots=True)
class Polyline:
    points: Sequence[Point]
    color: str


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; `y` is its vertical middle."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    color: str = "#333333"


@dataclass(slots=True)
class Picture:
    width: int
    height: int
    shapes: list[Box | Polyline | Label] = field(default_factory=list)

    def add(self, *shapes: Box | Polyline | Label) -> None:
        self.shapes += shapes


# --- plots ---

_WIDTH, _HEIGHT = 960, 420
_MARGIN, _TITLE_HEIGHT = 20, 46
_ROW_HEIGHT = 22
_LABEL_CHARACTERS_MAX = 32
_TICKS = 5
_TICK_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15)
_COLORS = ("#2f6fb5", "#d9822b", "#3a9d5d", "#b5413f", "#7a5aa6", "#5b6770", "#c2a11c", "#2b9aa8")
_SERIES_MAX = len(_COLORS)
_GRID, _FAINT = "#e3e6ea", "#777777"


def bar_plot(title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> Picture:
    """Draw a horizontal bar for each label."""
    names = [_shortened(label, _LABEL_CHARACTERS_MAX) for label in labels]
    left = _MARGIN + CHARACTER_WIDTH * max(map(len, names), default=0) + 8
    most = max(values, default=0) or 1
    number_characters = max((len(_number(value)) + 1 for value in values), default=1)
    room = _WIDTH - left - _MARGIN - CHARACTER_WIDTH * number_characters
    picture = Picture(_WIDTH, round(_TITLE_HEIGHT + _ROW_HEIGHT * max(1, len(values)) + _MARGIN))
    _add_title(picture, title, unit)
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        middle = _TITLE_HEIGHT + _ROW_HEIGHT * (index + 0.5)
        length = value / most * room
        picture.add(Label(left - 8, middle, name, "end"))
        if value > 0:
            picture.add(Box(left, middle - _ROW_HEIGHT * 0.36, max(1.0, length), _ROW_HEIGHT * 0.72, _COLORS[0]))
        picture.add(Label(left + length + 6, middle, _number(value), color=_FAINT))
    if not values:
        _add_empty_note(picture)
    return picture


def line_plot(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> Picture:
    """Draw a line for each series over the same labels; a single series is drawn as bars."""
    picture = Picture(_WIDTH, _HEIGHT)
    _add_title(picture, title, unit)
    shown = sorted(series, key=lambda name: -sum(series[name]))[:_SERIES_MAX]
    if not labels or not shown:
        _add_empty_note(picture)
        return picture
    end = axis_end(max(max(series[name]) for name in shown), steps=_TICK_STEPS)
    ticks = [end * number / _TICKS for number in range(_TICKS + 1)]
    left = _MARGIN + CHARACTER_WIDTH * max(len(_number(tick)) for tick in ticks) + 8
    top, bottom = _TITLE_HEIGHT + (_ROW_HEIGHT if len(shown) > 1 else 0), _HEIGHT - 44.0
    right = float(_WIDTH - _MARGIN)
    for tick in ticks:
        y = bottom - tick / end * (bottom - top)
        picture.add(Box(left, y, right - left, 0.5, _GRID), Label(left - 8, y, _number(tick), "end", _FAINT))
    step = (right - left) / len(labels)
    for name, color in zip(shown, _COLORS, strict=False):
        heights = [bottom - value / end * (bottom - top) for value in series[name]]
        if len(shown) > 1:
            picture.add(Polyline([(left + (index + 0.5) * step, y) for index, y in enumerate(heights)], color))
            continue
        for index, y in enumerate(heights):
            if y < bottom:
                picture.add(Box(left + index * step, y, max(0.5, step * 0.86), bottom - y, color))
    picture.add(Box(left, bottom, right - left, 1, _FAINT))
    _add_time_labels(picture, labels, left, right, bottom + 18)
    if len(shown) > 1:
        _add_legend(picture, shown, len(series) - len(shown))
    return picture


def _add_time_labels(picture: Picture, labels: Sequence[str], left: float, right: float, y: float) -> None:
    """Add as many labels as fit, always the first and the last."""
    step = (right - left) / len(labels)
    longest = max(map(len, labels)) * CHARACTER_WIDTH + 24
    count = max(2, min(len(labels), int((right - left) // longest)))
    for index in sorted({round(position * (len(labels) - 1) / (count - 1)) for position in range(count)}):
        half = len(labels[index]) * CHARACTER_WIDTH / 2
        middle = min(max(left + (index + 0.5) * step, left + half), right - half)
        picture.add(Label(middle, y, labels[index], "middle", _FAINT))


def _add_legend(picture: Picture, names: Sequence[str], left_out: int) -> None:
    x, y = float(_MARGIN), _TITLE_HEIGHT + 4.0
    for name, color in zip(names, _COLORS, strict=False):
        text = _shortened(name, _LABEL_CHARACTERS_MAX // 2)
        picture.add(Box(x, y - 5, 10, 10, color), Label(x + 15, y, text))
        x += 15 + CHARACTER_WIDTH * (len(text) + 2)
    if left_out:
        picture.add(Label(x, y, f"and {left_out} more", color=_FAINT))


def _add_title(picture: Picture, title: str, unit: str) -> None:
    picture.add(Label(_MARGIN, 22, title), Label(_WIDTH - _MARGIN, 22, unit, "end", _FAINT))


def _add_empty_note(picture: Picture) -> None:
    picture.add(Label(picture.width / 2, picture.height / 2, "nothing to show", "middle", _FAINT))


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


# --- SVG ---


def as_svg(picture: Picture) -> bytes:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{picture.height}" '
        f'viewBox="0 0 {picture.width} {picture.height}" font-family="monospace" font-size="{_FONT_SIZE}">',
        f'<rect width="100%" height="100%" fill="{_BACKGROUND}"/>',
        *map(_svg_element, picture.shapes),
        "</svg>",
    ]
    return "\n".join([*lines, ""]).encode()


def _svg_element(shape: Box | Polyline | Label) -> str:
    match shape:
        case Box(x, y, width, height, color):
            return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'
        case Polyline(points, color):
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            return f'<polyline points="{corners}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        case Label(x, y, text, anchor, color):
            printable = "".join(
                character if character.isprintable() else "?" for character in text
            )  # XML has no others
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}" fill="{color}">'
                f"{escape(printable)}</text>"
            )


# --- PNG ---


def as_png(picture: Picture) -> bytes:
    import numpy as np  # noqa: PLC0415 - only when a PNG is asked for

    image = np.empty((picture.height * _SCALE, picture.width * _SCALE, 3), np.uint8)
    image[:] = _rgb(_BACKGROUND)
    for shape in picture.shapes:
        match shape:
            case Box(x, y, width, height, color):
                _fill_box(image, x, y, x + width, y + height, color)
            case Polyline(points, color):
                _draw_polyline(image, points, color)
            case Label():
                _draw_label(image, shape)
    rows = np.concatenate([np.zeros((len(image), 1), np.uint8), image.reshape(len(image), -1)], axis=1)
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, content) for name, content in chunks)


def _png_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _fill_box(image: "NDArray[Any]", left: float, top: float, right: float, bottom: float, color: str) -> None:
    x, y = max(0, round(left * _SCALE)), max(0, round(top * _SCALE))
    image[y : max(y + 1, round(bottom * _SCALE)), x : max(x + 1, round(right * _SCALE))] = _rgb(color)


def _draw_polyline(image: "NDArray[Any]", points: Sequence[Point], color: str) -> None:
    """Connect the points, as thick as in the SVG."""
    import numpy as np  # noqa: PLC0415

    for (x, y), (next_x, next_y) in pairwise(points):
        steps = int(max(abs(next_x - x), abs(next_y - y)) * _SCALE) + 1
        across = np.rint(np.linspace(x, next_x, steps + 1) * _SCALE).astype(int)
        down = np.rint(np.linspace(y, next_y, steps + 1) * _SCALE).astype(int)
        for shift_x, shift_y in ((0, 0), (0, 1), (1, 0), (1, 1), (0, -1), (-1, 0)):
            rows = np.clip(down + shift_y, 0, image.shape[0] - 1)
            image[rows, np.clip(across + shift_x, 0, image.shape[1] - 1)] = _rgb(color)


def _draw_label(image: "NDArray[Any]", label: Label) -> None:
    cells = len(label.text) * GLYPH_WIDTH * _SCALE
    left = round(label.x * _SCALE) - {"start": 0, "middle": cells // 2, "end": cells}[label.anchor]
    top = round(label.y * _SCALE) - GLYPH_HEIGHT * _SCALE // 2
    for column, row in glyph_dots(label.text):
        x, y = left + column * _SCALE, top + row * _SCALE
        if x >= 0 and y >= 0:
            image[y : y + _SCALE, x : x + _SCALE] = _rgb(label.color)


# --- the bitmap font of PNGs: printable ASCII, five columns per character, bit 0 of a column at the top ---

_GLYPH_COLUMNS = (
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649552250 0005030000 "  # space to '
    "001c224100 0041221c00 14083e0814 08083e0808 0050300000 0808080808 0060600000 2010080402 "  # ( to /
    "3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 3c4a494930 0171090503 "  # 0 to 7
    "3649494936 064949291e 0036360000 0056360000 0814224100 1414141414 0041221408 0201510906 "  # 8 to ?
    "324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a "  # @ to G
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e "  # H to O
    "7f09090906 3e4151215e 7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f "  # P to W
    "6314081463 0708700807 6151494543 007f414100 0204081020 0041417f00 0402010204 4040404040 "  # X to _
    "0001020400 2054545478 7f48444438 3844444420 384444487f 3854545418 087e090102 18a4a4a47c "  # ` to g
    "7f08040478 00447d4000 4080847d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438 "  # h to o
    "fc24242418 18242418fc 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c "  # p to w
    "4428102844 1ca0a0a07c 4464544c44 0008364100 00007f0000 0041360800 1008081008"  # x to ~
)
GLYPH_WIDTH, GLYPH_HEIGHT = 6, 8  # dots, including the space to the next character

_GLYPHS = tuple(bytes.fromhex(columns) for columns in _GLYPH_COLUMNS.split())
_UNKNOWN = _GLYPHS[ord("?") - ord(" ")]

assert len(_GLYPHS) == ord("~") - ord(" ") + 1


def glyph_dots(text: str) -> list[tuple[int, int]]:
    """Return column and row of each dot of a line of text. A character outside ASCII becomes a question mark."""
    found = []
    for number, character in enumerate(text):
        index = ord(character) - ord(" ")
        glyph = _GLYPHS[index] if 0 <= index < len(_GLYPHS) else _UNKNOWN
        for column, bits in enumerate(glyph):
            found += [(number * GLYPH_WIDTH + column, row) for row in range(GLYPH_HEIGHT) if bits >> row & 1]
    return found
