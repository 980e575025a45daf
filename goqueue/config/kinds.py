"""How values of settings are written and read: the kinds of them, and what a setting says about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goqueue.quantities import format_duration, format_size, parse_duration, parse_size, quoted

Value = str | int | float  # a bool is an int
PATH_CHARACTERS_MAX = 4096  # the kernel's PATH_MAX
HOST_CHARACTERS_MAX = 253  # of a name in the domain name system
INTEGER_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of one type are read and written; `format` writes what `parse` reads back."""

    name: str
    metavar: str
    parse: Callable[[str], Value]
    format: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a field says about itself."""

    sentence: str
    kind: Kind
    least: Value | None = None
    most: Value | None = None
    flag: str | None = None
    """Where the usual one would be longer than people want to type."""


def _parse_host(text: str) -> str:
    if not text or len(text) > HOST_CHARACTERS_MAX or not all(c.isalnum() or c in ".:-_" for c in text):
        raise ValueError(f"{quoted(text)} is not a host: write an address such as 127.0.0.1, ::1 or a name")
    return text


def _parse_integer(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= INTEGER_DIGITS_MAX):
        raise ValueError(f"{quoted(text)} is not a whole number")
    return int(text)


def _parse_switch(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(f"{quoted(text)} is neither true nor false") from None


def _parse_path(text: str) -> str:
    if not text:
        raise ValueError("an empty path names no directory: write ./ for the current one")
    if len(text) > PATH_CHARACTERS_MAX:
        raise ValueError(f"{quoted(text)} is too long for a path: at most {PATH_CHARACTERS_MAX:,} characters")
    if text.startswith("~"):
        raise ValueError(f"{quoted(text)} begins with ~, which only a shell replaces: write the whole path")
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise ValueError(f"{quoted(text)} holds a control character")
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        raise ValueError(f"{quoted(text)} is not valid Unicode")
    return text


def choice(*names: str) -> Kind:
    def parse(text: str) -> str:
        if text in names:
            return text
        meant = next((f": write {name}" for name in names if name == text.strip().lower()), "")
        raise ValueError(f"{quoted(text)} is not one of {', '.join(names)}{meant}")

    return Kind(f"one of {', '.join(names)}", "|".join(names), parse, str)


PATH = Kind("path", "PATH", _parse_path, str)
SIZE = Kind("size", "SIZE", parse_size, lambda value: format_size(value, exact=True))
DURATION = Kind("duration", "DURATION", parse_duration, lambda value: format_duration(value, exact=True))
HOST = Kind("host", "HOST", _parse_host, str)
INTEGER = Kind("number", "NUMBER", _parse_integer, str)
SWITCH = Kind("true or false", "true|false", _parse_switch, lambda value: "true" if value else "false")
