"""What reaches a terminal: data on stdout, everything said to a person on stderr.

No character that a terminal would obey passes through here, whoever it came from.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TextIO

_RED, _CYAN, _PLAIN = "\x1b[1;31m", "\x1b[36m", "\x1b[0m"


def visible(text: str) -> str:
    """`text` on one line, with everything unprintable shown as its escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def write(text: str) -> None:
    """Put data on stdout: text that was made visible, or that a program will read."""
    if sys.stdout is not None:  # `>&-` closes it
        sys.stdout.write(text)
        sys.stdout.flush()


def write_bytes(content: bytes) -> None:
    """The same for bytes as they are."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def is_terminal() -> bool:
    """Whether a person reads stdout as it comes."""
    return sys.stdout is not None and sys.stdout.isatty()


def may_ask() -> bool:
    """Whether there is a person who could answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and is_terminal()


def ask(question: str) -> bool:
    """A question whose answer is no, unless it is y or yes."""
    if sys.stderr is not None:
        sys.stderr.write(f"{visible(question)} [y/N] ")
        sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def write_lines(lines: Iterable[str]) -> None:
    write("".join(f"{visible(line)}\n" for line in lines))


def write_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = [[visible(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    write_lines("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)


def say(*lines: str) -> None:
    """Tell the person; when nobody listens any more, that is no reason to stop."""
    _narrate(*map(visible, lines))


def say_error(sentence: str, *, cause: str | None = None, details: Iterable[str] = (), hint: str | None = None) -> None:
    """The shape of every refusal: what is wrong, where it comes from, what to do next."""
    lines = [f"{_label('error:', _RED)} {visible(sentence)}", *(f"  {visible(detail)}" for detail in details)]
    if cause:
        lines.append(f"{_label('cause:', _CYAN)} {visible(cause)}")
    if hint:
        lines.append(f"{_label('hint:', _CYAN)} {visible(hint)}")
    _narrate(*lines)


def show_status(text: str) -> None:
    """A line on stderr that the next one replaces, for a person who watches; nothing for anybody else."""
    if sys.stderr is not None and sys.stderr.isatty():
        _put(f"\r{visible(text)}\x1b[K")


def _narrate(*lines: str) -> None:
    _put("".join(f"{line}\n" for line in lines))


def _put(text: str) -> None:
    if sys.stderr is not None:  # `2>&-` closes it
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _label(word: str, colour: str) -> str:
    return f"{colour}{word}{_PLAIN}" if _coloured(sys.stderr) else word


def _coloured(stream: TextIO | None) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()
