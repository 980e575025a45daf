"""What reaches a terminal: data on stdout, everything said to a person on stderr.

No character that a terminal would obey passes through here, whoever it came from.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, TextIO

from goqueue.console import table
from goqueue.console.table import Cell, Line

Colour = Literal["auto", "always", "never"]

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
_colour: Colour = "auto"


def choose_colour(wish: Colour) -> None:
    """Whether there are colours: by default where a terminal wants them."""
    global _colour  # noqa: PLW0603 - the streams are the process's own as well
    _colour = wish


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """`text`, which was made visible, in the colours of a style where that stream has any."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text and _coloured(stream) else text


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
        write_bytes(text.encode(sys.stdout.encoding or "utf-8", sys.stdout.errors or "strict"))


def write_bytes(content: bytes) -> None:
    """The same for bytes as they are. Where Python does not buffer, a single write may take a part and say so."""
    if sys.stdout is None:
        return
    sys.stdout.flush()  # what others have put there
    left = memoryview(content)
    while left:
        left = left[_taken(left) :]
    while not _flushed():
        _await_room()


def _taken(content: memoryview) -> int:
    """How much stdout has taken. One that must not be waited for, which some shells hand down, may take nothing."""
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
    import select  # noqa: PLC0415 - hardly ever

    select.select([], [sys.stdout], [])


def is_terminal() -> bool:
    """Whether a person reads stdout as it comes."""
    return sys.stdout is not None and sys.stdout.isatty()


def may_ask() -> bool:
    """Whether there is a person who could answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and is_terminal()


def ask(question: str) -> bool:
    """A question whose answer is no, unless it is y or yes."""
    return ask_text(f"{question} [y/N] ").lower() in {"y", "yes"}


def ask_text(question: str) -> str:
    """What somebody types behind the question."""
    try:
        _put(visible(question))
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        _put("\n")  # what is said of it begins on a line of its own
        raise


def write_lines(lines: Iterable[str]) -> None:
    write("".join(f"{visible(line)}\n" for line in lines))


def write_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of texts under their titles."""
    titles = [Cell(title, "title") for title in headers]
    lines = [[Cell(cell) for cell in row] for row in rows]
    write("".join(f"{line}\n" for line in table_lines([titles, *lines], [False] * len(titles))))


def table_lines(lines: Sequence[Line], right: Sequence[bool], columns: Sequence[int] | None = None) -> list[str]:
    """As they stand on stdout: aligned, coloured, and on a terminal no wider than it is."""
    seen, room = _seen(lines), width()
    chosen = columns or table.widths(seen, right, room)
    return [
        "".join(styled(piece.text, piece.style, sys.stdout) for piece in table.drawn(line, chosen, right, room))
        for line in seen
    ]


def one_line(pieces: Line, room: int | None) -> str:
    """Pieces beside each other, for stdout."""
    (line,) = _seen([pieces])
    widths = [table.cells(piece.text) for piece in line]
    drawn = table.drawn(line, widths, [False] * len(line), room)
    return "".join(styled(piece.text, piece.style, sys.stdout) for piece in drawn)


def table_widths(lines: Sequence[Line], right: Sequence[bool]) -> list[int]:
    """The cells of each column, for more lines that come later."""
    return table.widths(_seen(lines), right, width())


def _seen(lines: Sequence[Line]) -> list[list[Cell]]:
    return [[Cell(visible(cell.text), cell.style) for cell in line] for line in lines]


def width() -> int | None:
    """The cells of a line on stdout, where that is a terminal that says so."""
    return size()[0]


def size() -> tuple[int | None, int | None]:
    """Columns and lines of the terminal on stdout; None is as many as one likes."""
    if not is_terminal():
        return None, None
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return None, None
    return found.columns or None, found.lines or None


def draws() -> bool:
    """Whether stdout is a terminal whose cursor can be moved."""
    return is_terminal() and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Tell the person; when nobody listens any more, that is no reason to stop."""
    _narrate(*map(visible, lines))


def say_error(sentence: str, *, cause: str | None = None, details: Iterable[str] = (), hint: str | None = None) -> None:
    """The shape of every refusal: what is wrong, where it comes from, what to do next."""
    lines = [f"{_label('error:', 'bad')} {visible(sentence)}", *(f"  {visible(detail)}" for detail in details)]
    if cause:
        lines.append(f"{_label('cause:', 'label')} {visible(cause)}")
    if hint:
        lines.append(f"{_label('hint:', 'label')} {visible(hint)}")
    _narrate(*lines)


def show_status(text: str) -> None:
    """A line on stderr that the next one replaces, for a person who watches; nothing for anybody else."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    try:
        room = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        room = 0
    _put(f"\r{table.cut(visible(text), room - 1) if room else visible(text)}\x1b[K")


def _narrate(*lines: str) -> None:
    _put("".join(f"{line}\n" for line in lines))


def _put(text: str) -> None:
    if sys.stderr is not None:  # `2>&-` closes it
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _label(word: str, style: str) -> str:
    return styled(word, style, sys.stderr)


def _coloured(stream: TextIO | None) -> bool:
    if _colour != "auto":
        return _colour == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()
