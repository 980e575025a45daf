"""The W3C Trace Context of messages: the headers `traceparent` and `tracestate`, and ids that follow from a position.

A message without a valid `traceparent` has a trace id derived from its topic, partition and offset. The second half of
the id is the offset, mixed by a function that can be inverted: a message is found by its id without an index.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import mmh3

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
SAMPLED = 0x01
RANDOM = 0x02
"""The last 7 bytes of the trace id are random."""

LINKS_MAX = 128
"""The number of messages to which the span of a batch has links: OpenTelemetry's own default."""

STATE_CHARACTERS_MAX = 512
STATE_MEMBERS_MAX = 32

_KNOWN_FLAGS = SAMPLED | RANDOM
_LONG_MEMBER = 128  # longer members are dropped first
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_NEWEST = "ff"
_BLANK = " \t"
_ZEROS = bytes(8)

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_GAMMA = 0x9E37_79B9_7F4A_7C15
_FIRST, _FIRST_INVERSE = 0xBF58_476D_1CE4_E5B9, 0x96DE_1B17_3F11_9089
_SECOND, _SECOND_INVERSE = 0x94D0_49BB_1331_11EB, 0x3196_42B2_D24D_8EC3

assert _FIRST * _FIRST_INVERSE & _WORD == _SECOND * _SECOND_INVERSE & _WORD == 1


class TraceContext(NamedTuple):
    """The position of a message in a trace: the span that sent it."""

    trace_id: bytes
    span_id: bytes
    flags: int = 0
    state: str = ""
    """A valid `tracestate`, possibly empty."""

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the context that a `traceparent` describes, or None if it is invalid.

    A version later than 00 is read as far as 00 goes, and may have more fields behind it.
    """
    found = _TRACEPARENT.fullmatch(text.strip(_BLANK))
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == _NEWEST or trace == _NO_TRACE or span == _NO_SPAN or (more is not None and version == "00"):
        return None
    return TraceContext(bytes.fromhex(trace), bytes.fromhex(span), int(flags, 16) & _KNOWN_FLAGS)


def format_traceparent(context: TraceContext) -> str:
    return f"00-{context.trace_id.hex()}-{context.span_id.hex()}-{context.flags & _KNOWN_FLAGS:02x}"


def parse_tracestate(values: Iterable[str]) -> str:
    """Join `tracestate` headers into one value; empty if any of them is invalid or there are too many members.

    Of members with the same key the first remains. A value longer than 512 characters is cut at members as W3C
    demands: members longer than 128 characters are dropped first, then the last ones.
    """
    members: dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            if member := part.strip(_BLANK):
                found = _MEMBER.fullmatch(member)
                if found is None:
                    return ""
                members.setdefault(found[1], member)
    if len(members) > STATE_MEMBERS_MAX:
        return ""
    return ",".join(_shortened(list(members.values())))


def _shortened(members: list[str]) -> list[str]:
    size = sum(map(len, members)) + len(members) - 1
    for is_candidate in (_is_long, bool):
        for at in range(len(members) - 1, -1, -1):
            if size <= STATE_CHARACTERS_MAX:
                return members
            if is_candidate(members[at]):
                size -= len(members.pop(at)) + 1
    return members


def _is_long(member: str) -> bool:
    return len(member) > _LONG_MEMBER


def read_trace_context(headers: Iterable[tuple[str, bytes | str]]) -> TraceContext | None:
    """Return the context in the headers of a message or request; None without exactly one valid `traceparent`.

    Names are compared without case. An invalid `tracestate` is left out.
    """
    parents: list[bytes | str] = []
    states: list[bytes | str] = []
    for name, value in headers:
        if len(name) == len(TRACEPARENT) and name.lower() == TRACEPARENT:
            parents.append(value)
        elif len(name) == len(TRACESTATE) and name.lower() == TRACESTATE:
            states.append(value)
    if len(parents) != 1:
        return None
    context = parse_traceparent(_text(parents[0]))
    if context is None or not states:
        return context
    return context._replace(state=parse_tracestate(map(_text, states)))


def trace_headers(context: TraceContext) -> Sequence[tuple[str, str]]:
    """Return the headers that carry a context."""
    parent = (TRACEPARENT, format_traceparent(context))
    return (parent, (TRACESTATE, context.state)) if context.state else (parent,)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")  # what is not ASCII is refused by the patterns


# --- ids that follow from a position ---


def log_hash(topic: str, partition: int) -> bytes:
    """Return the first 8 bytes of the derived trace ids of a partition; never zeros."""
    return _hash(f"{partition}/{topic}")


def derived_trace_id(topic: str, partition: int, offset: int) -> bytes:
    return log_hash(topic, partition) + _mix(offset).to_bytes(8, "big")


def offset_of(trace_id: bytes) -> int:
    """Return the offset in a derived trace id. `trace_id[:8]` is the `log_hash` of its partition."""
    return _unmix(int.from_bytes(trace_id[8:], "big"))


def derived_span_id(topic: str, partition: int, offset: int, role: str = "", number: int = 0) -> bytes:
    """Return the id of a span about the messages from `offset` on: the same on each broker and at each question.

    `role` and `number` distinguish spans at the same offset, such as the deliveries to a group.
    """
    return _hash(f"{partition}/{offset}/{number}/{topic}/{role}")


def _hash(seed: str) -> bytes:
    found = mmh3.hash_bytes(seed.encode())[:8]
    return found if found != _ZEROS else b"\xff" * 8  # zeros are no id


def _mix(number: int) -> int:
    """Mix the bits of 64, as SplitMix64 does: each result has exactly one origin."""
    number = number + _GAMMA & _WORD
    number = (number ^ number >> 30) * _FIRST & _WORD
    number = (number ^ number >> 27) * _SECOND & _WORD
    return number ^ number >> 31


def _unmix(number: int) -> int:
    number = (number ^ number >> 31 ^ number >> 62) * _SECOND_INVERSE & _WORD
    number = (number ^ number >> 27 ^ number >> 54) * _FIRST_INVERSE & _WORD
    return (number ^ number >> 30 ^ number >> 60) - _GAMMA & _WORD
