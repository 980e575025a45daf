"""Tokens of `.proto` texts."""

import re
from typing import NamedTuple, NoReturn

from goqueue.schemas import limits
from goqueue.schemas.schema_format import ROOT, schema_error

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*[\s\S]*?\*/)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}()\[\]<>;,=.+\-:/])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))")
_SIMPLE_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class Token(NamedTuple):
    """A word of a text, with its position."""

    kind: str
    text: str
    position: int


class TokenReader:
    """The tokens of a text one after the other, and errors that say where they are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self.scope: list[str] = []
        """The names of the messages and enums that are being read."""

    def _split(self) -> list[Token]:
        found: list[Token] = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                self._fail_at(position, f"unexpected character {self._text[position]!r}")
            if match.lastgroup != "space":
                found.append(Token(str(match.lastgroup), match.group(), position))
                if len(found) > 4 * limits.SCHEMA_NODES_MAX:
                    self._fail_at(position, f"more than {4 * limits.SCHEMA_NODES_MAX:,} words")
            position = match.end()
        return [*found, Token("end", "the end of the text", len(self._text))]

    def _fail_at(self, position: int, reason: str) -> NoReturn:
        line = self._text.count("\n", 0, position) + 1
        column = position - self._text.rfind("\n", 0, position)
        path = "/".join((ROOT, *getattr(self, "scope", ())))
        raise schema_error(path, f"{reason} (line {line}, column {column})")

    def fail(self, reason: str, token: Token | None = None) -> NoReturn:
        self._fail_at((token or self.peek()).position, reason)

    def peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        token = self.peek()
        self._next += 1
        return token

    def is_at(self, *texts: str) -> bool:
        token = self.peek()
        return token.text in texts and token.kind in {"name", "symbol"}

    def accept(self, text: str) -> bool:
        """Skip a word if it is the next."""
        if not self.is_at(text):
            return False
        self._next += 1
        return True

    def expect(self, text: str) -> Token:
        if not self.is_at(text):
            self.fail(f"expected {text!r}, found {self.peek().text!r}")
        return self.next()

    def name(self) -> str:
        token = self.next()
        if token.kind != "name":
            self.fail(f"expected a name, found {token.text!r}", token)
        return token.text

    def full_name(self, *, may_be_absolute: bool = True) -> str:
        """Read `a.b.C` or `.a.b.C`."""
        found = "." if may_be_absolute and self.accept(".") else ""
        found += self.name()
        while self.accept("."):
            found += "." + self.name()
        return found

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.next()
        value = whole_number(token) if token.kind == "number" else None
        if value is None:
            self.fail(f"expected a whole number, found {token.text!r}", token)
        return -value if negative else value

    def string(self) -> bytes:
        """Read a text, of which adjacent parts are one."""
        if self.peek().kind != "string":
            self.fail(f"expected a text in quotes, found {self.peek().text!r}")
        found = b""
        while self.peek().kind == "string":
            token = self.next()
            try:
                found += _ESCAPE.sub(_unescaped, token.text[1:-1].encode())
            except (ValueError, OverflowError):
                self.fail("an escape is not a character", token)
        return found

    def text(self) -> str:
        token = self.peek()
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            self.fail("the text is not UTF-8", token)


def whole_number(token: Token) -> int | None:
    text = token.text
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", text):
        return int(text, 16)
    if re.fullmatch(r"0[0-7]*", text):
        return int(text, 8)
    return int(text) if text.isdecimal() and len(text) <= 20 else None


def _unescaped(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, simple = match.groups()
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if short is not None or long is not None:
        return chr(int(short or long, 16)).encode()
    return _SIMPLE_ESCAPES.get(simple, simple)
