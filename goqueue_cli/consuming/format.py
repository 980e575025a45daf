"""Format strings: compiled once, filled with lists of messages.

A renderer takes a list of messages of one partition and gives a piece of output for each. For a pipe the bytes
are as they were published. For a terminal nothing in them can tell it what to do.

What must stay true: nothing here is done once a message that could be done once a list.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from goqueue.client import Message
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.quantities import format_time, quoted

if TYPE_CHECKING:
    from goqueue.client import Delivered

Messages = Sequence[Message]
Renderer = Callable[[Messages], Iterable[bytes]]
_Column = Callable[[Messages], list[Any]]

FIELDS = "%t topic, %p partition, %o offset, %k key, %v value, %h{name} header, %T time, %P priority, %a attempt"

_TOKEN = re.compile(r"%h\{([^}]*)\}|%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_COLUMNS: dict[str, _Column] = {
    "t": lambda messages: [message.topic.encode() for message in messages],
    "p": lambda messages: [message.partition for message in messages],
    "o": lambda messages: [message.offset for message in messages],
    "k": lambda messages: [message.key or b"" for message in messages],
    "v": lambda messages: [message.value or b"" for message in messages],
    "T": lambda messages: [format_time(message.timestamp_ns).encode() for message in messages],
    "P": lambda messages: [message.priority for message in messages],
    "a": lambda messages: [cast("Delivered", message).attempt for message in messages],
}
_NUMBERS = {"p", "o", "P", "a"}
_LEASED = {"a"}  # of members of a group alone
_FOREIGN = {"k", "v"}  # somebody else's bytes


def by_format(text: str, *, harmless: bool, leased: bool = False) -> Renderer:
    """Compile a format string into a template of bytes and the columns that fill it."""
    template, columns = b"", []
    for token in _TOKEN.finditer(text):
        header, field, escape, plain = token.groups()
        if plain is not None:
            template += plain.encode(errors="surrogateescape")
        elif escape is not None:
            template += _escaped(escape)
        elif field == "%":
            template += b"%%"
        elif header is not None:
            columns.append(_made_harmless(_header_column(header)) if harmless else _header_column(header))
            template += b"%b"
        elif field in _COLUMNS and (leased or field not in _LEASED):
            column = _COLUMNS[field]
            columns.append(_made_harmless(column) if harmless and field in _FOREIGN else column)
            template += b"%d" if field in _NUMBERS else b"%b"
        else:
            raise _unknown(field, text[token.start() :])
    return _filled(template, columns)


def _filled(template: bytes, columns: list[_Column]) -> Renderer:
    if not columns:
        whole = template % ()
        return lambda messages: [whole] * len(messages)
    fill = template.__mod__
    return lambda messages: map(fill, zip(*(column(messages) for column in columns), strict=True))


def _unknown(field: str, rest: str) -> UsageInvalid:
    if rest.startswith("%h{"):
        return UsageInvalid(f"--format: {quoted(rest)} is not closed", hint="write it as in %h{source}")
    if field == "h":
        return UsageInvalid("--format: %h names no header", hint="write it as in %h{source}")
    if not field:
        return UsageInvalid("--format: nothing stands behind the last %", hint="%% prints one")
    if field in _LEASED:
        return UsageInvalid(f"--format: %{field} is known to groups alone", hint="name one with --group")
    return UsageInvalid(f"--format: %{field} stands for nothing", hint=f"there are {FIELDS}, and %%")


def _escaped(letter: str) -> bytes:
    if letter not in _ESCAPES:
        known = ", ".join(f"\\{known}" for known in _ESCAPES)
        what = f"\\{letter} stands for nothing" if letter else "nothing stands behind the last \\"
        raise UsageInvalid(f"--format: {what}", hint=f"there are {known}")
    return _ESCAPES[letter]


def _header_column(name: str) -> _Column:
    """The first header of that name, or nothing."""
    return lambda messages: [
        next((value for found, value in message.headers if found == name), b"") for message in messages
    ]


def _made_harmless(column: _Column) -> _Column:
    return lambda messages: [harmless_bytes(value) for value in column(messages)]


def harmless_bytes(value: bytes) -> bytes:
    return terminal.visible(readable(value)).encode()


def readable(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
