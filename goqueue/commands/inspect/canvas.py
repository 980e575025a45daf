"""Boxes, lines and text, as SVG or as the dots of a PNG: enough for a chart, and nothing to install."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from goqueue.commands.inspect.glyphs import HEIGHT, WIDTH, dots

if TYPE_CHECKING:
    from numpy.typing import NDArray

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

LETTER = 7.2
"""How wide a letter of the text in a picture is; SVG is told so, too."""
_FONT = 12
_DOTS = 2
"""Of a PNG for each unit of a picture, so that it is sharp on a good screen."""
_BACKGROUND = "#ffffff"


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    colour: str


@dataclass(frozen=True, slots=True)
class Line:
    points: Sequence[Point]
    colour: str


@dataclass(frozen=True, slots=True)
class Text:
    """`y` is where its letters stand in the middle of."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    colour: str = "#333333"


@dataclass(slots=True)
class Picture:
    width: int
    height: int
    shapes: list[Box | Line | Text] = field(default_factory=list)

    def add(self, *shapes: Box | Line | Text) -> None:
        self.shapes += shapes


def as_svg(picture: Picture) -> bytes:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{picture.height}" '
        f'viewBox="0 0 {picture.width} {picture.height}" font-family="monospace" font-size="{_FONT}">',
        f'<rect width="100%" height="100%" fill="{_BACKGROUND}"/>',
        *map(_element, picture.shapes),
        "</svg>",
    ]
    return "\n".join([*lines, ""]).encode()


def _element(shape: Box | Line | Text) -> str:
    match shape:
        case Box(x, y, width, height, colour):
            return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
        case Line(points, colour):
            places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        case Text(x, y, text, anchor, colour):
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}" fill="{colour}">'
                f"{escape(_drawable(text))}</text>"
            )


def _drawable(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)


def as_png(picture: Picture) -> bytes:
    import numpy as np  # noqa: PLC0415 - only for who wants a picture

    image = np.empty((picture.height * _DOTS, picture.width * _DOTS, 3), np.uint8)
    image[:] = _rgb(_BACKGROUND)
    for shape in picture.shapes:
        match shape:
            case Box(x, y, width, height, colour):
                _fill(image, x, y, x + width, y + height, colour)
            case Line(points, colour):
                _trace(image, points, colour)
            case Text():
                _write(image, shape)
    rows = np.concatenate([np.zeros((len(image), 1), np.uint8), image.reshape(len(image), -1)], axis=1)
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _fill(image: "NDArray[Any]", left: float, top: float, right: float, bottom: float, colour: str) -> None:
    x, y = max(0, round(left * _DOTS)), max(0, round(top * _DOTS))
    image[y : max(y + 1, round(bottom * _DOTS)), x : max(x + 1, round(right * _DOTS))] = _rgb(colour)


def _trace(image: "NDArray[Any]", points: Sequence[Point], colour: str) -> None:
    """Lines from point to point, as thick as in the SVG."""
    import numpy as np  # noqa: PLC0415

    for (x, y), (next_x, next_y) in pairwise(points):
        steps = int(max(abs(next_x - x), abs(next_y - y)) * _DOTS) + 1
        across = np.rint(np.linspace(x, next_x, steps + 1) * _DOTS).astype(int)
        down = np.rint(np.linspace(y, next_y, steps + 1) * _DOTS).astype(int)
        for shift_x, shift_y in ((0, 0), (0, 1), (1, 0), (1, 1), (0, -1), (-1, 0)):
            rows = np.clip(down + shift_y, 0, image.shape[0] - 1)
            image[rows, np.clip(across + shift_x, 0, image.shape[1] - 1)] = _rgb(colour)


def _write(image: "NDArray[Any]", shape: Text) -> None:
    """Each dot of a letter is two of the picture."""
    cells = len(shape.text) * WIDTH * _DOTS
    left = round(shape.x * _DOTS) - {"start": 0, "middle": cells // 2, "end": cells}[shape.anchor]
    top = round(shape.y * _DOTS) - HEIGHT * _DOTS // 2
    for column, row in dots(shape.text):
        x, y = left + column * _DOTS, top + row * _DOTS
        if x >= 0 and y >= 0:
            image[y : y + _DOTS, x : x + _DOTS] = _rgb(shape.colour)
