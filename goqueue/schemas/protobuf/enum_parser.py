"""Enums of `.proto` texts, and reserved names and numbers of enums and messages."""

from typing import Any

from google.protobuf.descriptor_pb2 import EnumDescriptorProto

from goqueue.schemas.protobuf.option_parser import read_inline_options, read_option_statement
from goqueue.schemas.protobuf.tokens import TokenReader

FIELD_MAX = 2**29 - 1
ENUM_MIN, ENUM_MAX = -(2**31), 2**31 - 1


def read_enum(tokens: TokenReader, enum: EnumDescriptorProto) -> None:
    enum.name = tokens.name()
    tokens.scope.append(enum.name)
    tokens.expect("{")
    while not tokens.accept("}"):
        if tokens.accept(";"):
            continue
        if tokens.is_at("option") and tokens.peek(1).text != "=":
            tokens.next()
            read_option_statement(tokens, enum.options)
        elif tokens.is_at("reserved") and tokens.peek(1).text != "=":
            tokens.next()
            read_reserved(tokens, enum, ENUM_MAX, is_end_included=True)
        else:
            value = enum.value.add(name=tokens.name())
            tokens.expect("=")
            token = tokens.peek()
            number = tokens.integer()
            if not ENUM_MIN <= number <= ENUM_MAX:
                tokens.fail(f"{number} is not a number of an enum", token)
            value.number = number
            read_inline_options(tokens, value.options)
            tokens.expect(";")
    tokens.scope.pop()


def read_reserved(tokens: TokenReader, owner: Any, largest: int, *, is_end_included: bool) -> None:
    """Read reserved numbers or names. Ranges of enums include their ends, those of messages do not."""
    while True:
        if tokens.peek().kind == "string":
            owner.reserved_name.append(tokens.text())
        else:
            start, end = number_range(tokens, largest)
            owner.reserved_range.add(start=start, end=end + (0 if is_end_included else 1))
        if not tokens.accept(","):
            break
    tokens.expect(";")


def number_range(tokens: TokenReader, largest: int) -> tuple[int, int]:
    token = tokens.peek()
    start = end = tokens.integer()
    if tokens.accept("to"):
        end = largest if tokens.accept("max") else tokens.integer()
    smallest = 1 if largest == FIELD_MAX else ENUM_MIN
    if not smallest <= start <= end <= largest:
        tokens.fail(f"{start} to {end} is not a range", token)
    return start, end
