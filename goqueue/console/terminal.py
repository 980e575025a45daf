"""Output to a terminal: data on stdout, messages for people on stderr.

Control characters are escaped, so that a terminal obeys nothing in names and values.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TextIO

from goqueue.console import table
from goqueue.console.table import Cell, CellLine

ColorMode = Literal["auto", "always", "never"]

_STYLES = {
    "title": "1",
    "good": "32",
    "moving": "33",
    "bad": "1;31",
    "label": "36",
    "faint": "2",
    "changed": "1;33",
    "protected": "1;35",
}
_color_mode: ColorMode = "auto"


def set_color_mode(mode: ColorMode) -> None:
    """Choose whether output has colors; by default a terminal does."""
    global _color_mode  # noqa: PLW0603 - the streams belong to the process as well
    _color_mode = mode


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """Add the color of a style, if the stream has colors; `text` must be escaped."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text and _has_colors(stream) else text


def escape_unprintable(text: str) -> str:
    """Return `text` on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def write(text: str) -> None:
    """Write data to stdout: escaped text, or a format for programs."""
    if sys.stdout is not None:  # `>&-` closes it
        write_bytes(text.encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict"))


def write_bytes(content: bytes) -> None:
    """Write bytes to stdout; an unbuffered stream may take only a part at a time."""
    if sys.stdout is None:
        return
    sys.stdout.flush()  # earlier text comes first
    left = memoryview(content)
    while left:
        left = left[_taken(left) :]
    while not _flushed():
        _await_room()


def _taken(content: memoryview) -> int:
    """Return how many bytes stdout took; a non-blocking one, which some shells pass on, may take none."""
    try:
        taken = sys.stdout.buffer.write(content)
    except BlockingIOError as error:
        taken = error.characters_written
    if not taken:
        _await_room()
    return taken or 0


def _flushed() -> bool:
    try:
        sys.stdout.buffer.flush()
    except BlockingIOError:
        return False
    return True


def _await_room() -> None:
    import select  # noqa: PLC0415 - rarely needed

    select.select([], [sys.stdout], [])


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def can_prompt() -> bool:
    """Return True if stdin and stdout are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and is_terminal()


def ask_yes_no(question: str) -> bool:
    """Ask a question; any answer but y or yes means no."""
    return ask_text(f"{question} [y/N] ").lower() in {"y", "yes"}


def ask_text(question: str) -> str:
    """Ask for a line of text."""
    try:
        _put(escape_unprintable(question))
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        _put("\n")  # the next message starts on a new line
        raise


def write_lines(lines: Iterable[str]) -> None:
    write("".join(f"{escape_unprintable(line)}\n" for line in lines))


def write_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    titles = [Cell(title, "title") for title in headers]
    lines = [[Cell(cell) for cell in row] for row in rows]
    write("".join(f"{line}\n" for line in table_lines([titles, *lines], [False] * len(titles))))


def table_lines(lines: Sequence[CellLine], right: Sequence[bool], columns: Sequence[int] | None = None) -> list[str]:
    """Align and color lines for stdout, within the width of the terminal."""
    seen, room = _escaped(lines), width()
    chosen = columns or table.column_widths(seen, right, room)
    return [
        "".join(styled(piece.text, piece.style, sys.stdout) for piece in table.layout_line(line, chosen, right, room))
        for line in seen
    ]


def render_line(pieces: CellLine, room: int | None) -> str:
    """Format pieces as one line for stdout."""
    (line,) = _escaped([pieces])
    widths = [table.text_width(piece.text) for piece in line]
    drawn = table.layout_line(line, widths, [False] * len(line), room)
    return "".join(styled(piece.text, piece.style, sys.stdout) for piece in drawn)


def table_widths(lines: Sequence[CellLine], right: Sequence[bool]) -> list[int]:
    """Return the width of each column, for lines that follow."""
    return table.column_widths(_escaped(lines), right, width())


def _escaped(lines: Sequence[CellLine]) -> list[list[Cell]]:
    return [[Cell(escape_unprintable(cell.text), cell.style) for cell in line] for line in lines]


def width() -> int | None:
    """Return the width of the terminal on stdout, if it is known."""
    return size()[0]


def size() -> tuple[int | None, int | None]:
    """Return columns and lines of the terminal on stdout; None means no limit."""
    if not is_terminal():
        return None, None
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return None, None
    return found.columns or None, found.lines or None


def can_redraw() -> bool:
    """Return True if stdout is a terminal with a movable cursor."""
    return is_terminal() and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Write lines to stderr; a closed stderr is no failure."""
    _write_stderr_lines(*map(escape_unprintable, lines))


def say_error(sentence: str, *, cause: str | None = None, details: Iterable[str] = (), hint: str | None = None) -> None:
    """Write an error: what failed, why, and what to do next."""
    lines = [
        f"{_label('error:', 'bad')} {escape_unprintable(sentence)}",
        *(f"  {escape_unprintable(detail)}" for detail in details),
    ]
    if cause:
        lines.append(f"{_label('cause:', 'label')} {escape_unprintable(cause)}")
    if hint:
        lines.append(f"{_label('hint:', 'label')} {escape_unprintable(hint)}")
    _write_stderr_lines(*lines)


def show_status(text: str) -> None:
    """Show a line on stderr that the next one replaces, if stderr is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    try:
        room = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        room = 0
    _put(f"\r{table.truncate(escape_unprintable(text), room - 1) if room else escape_unprintable(text)}\x1b[K")


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show a line on stderr during the block, if stderr is a terminal."""
    show_status(text)
    try:
        yield
    finally:
        show_status("")


def _write_stderr_lines(*lines: str) -> None:
    _put("".join(f"{line}\n" for line in lines))


def _put(text: str) -> None:
    if sys.stderr is not None:  # `2>&-` closes it
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _label(word: str, style: str) -> str:
    return styled(word, style, sys.stderr)


def _has_colors(stream: TextIO | None) -> bool:
    if _color_mode != "auto":
        return _color_mode == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()
