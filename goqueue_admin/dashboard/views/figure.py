"""A number with its noun, as a line of them shows it."""

from typing import NamedTuple


class Figure(NamedTuple):
    text: str
    noun: str
    tone: str = ""
