"""Large bodies of publish requests, decoded a piece at a time on a thread.

A decoder holds the GIL until it is done, so each call gets a bounded part: some messages, or one message without its
value and then pieces of the value. What must stay true: the outcome is that of decoding the body as a whole, but for
texts that are kept as UTF-8, which takes a quarter of the memory where one character needs four bytes.
"""

import base64
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar, cast

import msgspec

from goqueue.api.json_scan import Structure
from goqueue.api.outgoing_message import OutgoingMessage, PublishRequest
from goqueue.api.problems import ROOT, FieldPath, ProblemReport, TooManyProblems
from goqueue.api.transactions import TransactionPublishRequest
from goqueue.api.validation import NeedsInspection, decode_body, decode_fast, inspect_entry, scan_body
from goqueue.errors import RequestInvalid
from goqueue.limits import DECODED_AT_ONCE_BYTES, KIB, PUBLISH_MESSAGES_MAX, PUBLISH_VALUES_MAX

_PIECE_BYTES = 256 * KIB
_ESCAPE_BYTES = 6  # of \u0041; two of them may be one character
_SECOND_HALVES = (b"c", b"d", b"e", b"f")  # of a pair for one character: \udc00 to \udfff


def decode_text(body: bytes | bytearray, start: int, end: int) -> bytes:
    """Return the UTF-8 bytes of the string between two quotes. Raises msgspec.DecodeError."""
    parts = []
    while start < end:
        cut = end if end - start <= _PIECE_BYTES else _cut(body, start + _PIECE_BYTES)
        parts.append(msgspec.json.decode(b'"' + body[start:cut] + b'"', type=str).encode())
        start = cut
    return b"".join(parts)


def _cut(body: bytes | bytearray, stop: int) -> int:
    """Return where a piece that would end at `stop` must end so that it cuts no character and no escape."""
    last = body.rfind(b"\\", stop - 2 * _ESCAPE_BYTES, stop)
    if last < 0:
        inside = next((back for back in range(4) if body[stop - back] & 0xC0 != 0x80), 0)  # bytes of a character
        return stop - inside
    before = bytes(body[stop - _PIECE_BYTES : last + 1])
    if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:  # each two are one character
        return last + 1
    is_second_half = body[last : last + 3].lower() == b"\\ud" and body[last + 3 : last + 4].lower() in _SECOND_HALVES
    return last - _ESCAPE_BYTES if is_second_half else last


def decode_base64(text: bytes) -> bytes:
    """Decode base64 in pieces. Raises ValueError."""
    parts = []
    for start in range(0, len(text), _PIECE_BYTES):
        piece = text[start : start + _PIECE_BYTES]
        if piece.endswith(b"=") and start + _PIECE_BYTES < len(text):
            raise ValueError("Excess data after padding")
        parts.append(base64.b64decode(piece, validate=True))
    return b"".join(parts)


M = TypeVar("M", bound=OutgoingMessage)
Span = tuple[int, int]
"""The first byte, and the one after the last."""

_BESIDE_VALUE_BYTES = 1024 * KIB  # of one message: key and headers of the greatest length, all of it escaped
_KEPT_AS_TEXT = 1 * KIB  # characters
_STAND_IN = b'"%b"' % uuid.uuid4().hex.encode()
"""Decoded in place of a long value. No client can know it."""


def decode_publish(_: type, body: bytearray) -> PublishRequest:
    """Decode a large body. Raises RequestInvalid with all problems."""
    structure, report = scan_body(body, PUBLISH_VALUES_MAX), ProblemReport("the body")
    spans = _spans(body, structure)
    messages: list[OutgoingMessage] = []
    with suppress(TooManyProblems):
        for number, part in _runs(spans):
            if part[-1][1] - part[0][0] <= DECODED_AT_ONCE_BYTES:
                messages += _decode_run(body, number, part, report)
            else:
                place = FieldPath(number, FieldPath("messages", ROOT))
                message = _decode_large(OutgoingMessage, body, part[0], structure, place, report)
                messages += [message] if message else []
    if report.problems:
        raise report.refusal()
    return PublishRequest(messages)


def decode_publish_in(_: type, body: bytearray) -> TransactionPublishRequest:
    """Decode a large body that is one message. Raises RequestInvalid with all problems."""
    structure, report, message = scan_body(body, PUBLISH_VALUES_MAX), ProblemReport("the body"), None
    with suppress(TooManyProblems):
        message = _decode_large(TransactionPublishRequest, body, (0, len(body)), structure, ROOT, report)
    if message is None or report.problems:
        raise report.refusal()
    return message


def _spans(body: bytes | bytearray, structure: Structure) -> list[Span]:
    """Check what surrounds the messages, and return their positions."""
    edges = structure.first_list()
    if edges is None:
        raise _unlike_messages()
    start, end = int(edges[0]) + 1, int(edges[-1])
    if len(body) - (end - start) > DECODED_AT_ONCE_BYTES:
        raise _unlike_messages()
    is_empty = len(edges) == 2 and not body[start:end].strip()
    frame = bytes(body[:start]) + (b"" if is_empty else b'{"value":""}') + bytes(body[end:])
    try:
        decode_fast(PublishRequest, frame)
    except NeedsInspection as doubt:
        if doubt.problem.startswith(("JSON is malformed", "Input data was truncated")):  # whose place would be wrong
            raise _unlike_messages() from None
        decode_body(PublishRequest, frame)
    if len(edges) - 1 > PUBLISH_MESSAGES_MAX:
        report = ProblemReport("the body")
        problem = f"has {len(edges) - 1:,} items, at most {PUBLISH_MESSAGES_MAX:,} are allowed"
        report.add("messages", problem, "send several requests")
        raise report.refusal()
    return [(one + 1, other) for one, other in pairwise(edges.tolist())]


def _unlike_messages() -> RequestInvalid:
    report = ProblemReport("the body")
    report.add(ROOT, 'is not one JSON object with a list of messages: {"messages": [...]}')
    return report.refusal()


def _runs(spans: list[Span]) -> Iterator[tuple[int, list[Span]]]:
    """Yield runs of messages that are decoded together, with the index of the first."""
    first, run = 0, list[Span]()
    for number, span in enumerate(spans):
        if run and span[1] - run[0][0] > DECODED_AT_ONCE_BYTES:
            yield first, run
            first, run = number, []
        run.append(span)
    yield first, run


def _decode_run(body: bytes | bytearray, number: int, part: list[Span], report: ProblemReport) -> list[OutgoingMessage]:
    content = b'{"messages":[' + body[part[0][0] : part[-1][1]] + b"]}"
    try:
        messages = decode_fast(PublishRequest, content).messages
    except NeedsInspection:
        for index, (start, end) in enumerate(part, number):
            place = FieldPath(index, FieldPath("messages", ROOT))
            inspect_entry(OutgoingMessage, bytes(body[start:end]), place, report, start)
        return []
    for message in messages:
        if message.value is not None and len(message.value) > _KEPT_AS_TEXT and message.encoding != "base64":
            message.value = cast("str", message.value.encode())
    return messages


def _decode_large(
    kind: type[M], body: bytes | bytearray, span: Span, structure: Structure, place: FieldPath, report: ProblemReport
) -> M | None:
    """Decode a message whose value is most of its bytes."""
    start, end = span
    longest = max(
        (one for one in structure.long_strings if start < one[0] and one[1] <= end), key=_length, default=None
    )
    if end - start - (_length(longest) if longest else 0) > _BESIDE_VALUE_BYTES:
        report.add(place, f"has more than {_BESIDE_VALUE_BYTES:,} bytes beside its value", "send less in headers")
        return None
    if longest is None:
        return _decode_entry(kind, bytes(body[start:end]), place, report, start)
    first, last = longest
    rest = bytes(body[start : first - 1]) + _STAND_IN + bytes(body[last + 1 : end])
    message = _decode_entry(kind, rest, place, report, start)
    if message is None:
        return None
    if message.value != _STAND_IN[1:-1].decode():
        report.add(place, f"has a text of {last - first:,} bytes that is not its value", "send it as the value")
        return None
    try:
        value = decode_text(body, first, last)
        if message.encoding == "base64":
            value, message.encoding = decode_base64(value), None
    except UnicodeDecodeError:
        report.add(FieldPath("value", place), "is not UTF-8", "encode the body as UTF-8")
        return None
    except msgspec.DecodeError as error:
        report.add(FieldPath("value", place), f"is not text: {error}")
        return None
    except ValueError as error:
        report.add(FieldPath("value", place), f"is not base64: {error}")
        return None
    message.value = cast("str", value)
    return message


def _length(span: Span) -> int:
    return span[1] - span[0]


def _decode_entry(kind: type[M], part: bytes, place: FieldPath, report: ProblemReport, start: int) -> M | None:
    known = len(report.problems)
    inspect_entry(kind, part, place, report, start)
    return decode_fast(kind, part) if len(report.problems) == known else None
