"""Options of `.proto` texts. All are kept as they are written; the linker understands the known ones."""

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor_pb2 import UninterpretedOption

from goqueue.schemas import limits
from goqueue.schemas.protobuf.tokens import TokenReader, whole_number

Take = Callable[[UninterpretedOption], bool]


def read_option_statement(tokens: TokenReader, options: Any) -> None:
    """Read `option name = value;` after its first word."""
    options.uninterpreted_option.append(_option(tokens))
    tokens.expect(";")


def read_inline_options(tokens: TokenReader, options: Any, take: Take = lambda _: False) -> None:
    """Read `[name = value, ...]` if it is there. `take` gets each option first and says whether it used it."""
    if not tokens.accept("["):
        return
    while True:
        option = _option(tokens)
        if not take(option):
            options.uninterpreted_option.append(option)
        if not tokens.accept(","):
            break
    tokens.expect("]")


def _option(tokens: TokenReader) -> UninterpretedOption:
    option = UninterpretedOption()
    while True:
        if tokens.accept("("):
            option.name.add(name_part=tokens.full_name(), is_extension=True)
            tokens.expect(")")
        else:
            option.name.add(name_part=tokens.name(), is_extension=False)
        if not tokens.accept("."):
            break
    tokens.expect("=")
    _read_value(tokens, option)
    return option


def _read_value(tokens: TokenReader, option: UninterpretedOption) -> None:
    if tokens.is_at("{"):
        option.aggregate_value = _aggregate(tokens)
        return
    sign = -1 if tokens.accept("-") else 1
    token = tokens.peek()
    if token.kind == "string" and sign == 1:
        option.string_value = tokens.string()
    elif token.kind == "number":
        tokens.next()
        value = whole_number(token)
        if value is None or value >= 2**64:
            option.double_value = sign * float(token.text.rstrip("fF"))
        elif sign == 1:
            option.positive_int_value = value
        elif value <= 2**63:
            option.negative_int_value = -value
        else:
            tokens.fail(f"-{value} is too small", token)
    elif sign == -1 and token.text in {"inf", "nan"}:
        option.double_value = -float(tokens.next().text)
    else:
        if sign == -1:
            tokens.fail(f"expected a number, found {token.text!r}", token)
        option.identifier_value = tokens.name()


def _aggregate(tokens: TokenReader) -> str:
    """Read a value in braces, and return its words with single spaces."""
    opened = tokens.expect("{")
    words: list[str] = []
    depth = 1
    while True:
        token = tokens.next()
        if token.kind == "end":
            tokens.fail("the brace is never closed", opened)
        depth += (token.text == "{") - (token.text == "}") if token.kind == "symbol" else 0
        if depth > limits.SCHEMA_DEPTH_MAX:
            tokens.fail(f"more than {limits.SCHEMA_DEPTH_MAX} levels deep", token)
        if depth == 0:
            return " ".join(words)
        words.append(token.text)
