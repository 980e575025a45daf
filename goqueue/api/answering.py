"""Answers with many or large messages, encoded on a thread and a piece at a time.

An encoder does not let other threads run until it is done, so it gets one message at a time, and of a large value one
piece. What must stay true: the bytes are those that encoding the whole answer would give.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from goqueue.api.http.message import Response
from goqueue.limits import KIB

T = TypeVar("T")

_PIECE_CHARACTERS = 128 * KIB
_PART_BYTES = 256 * KIB
_EMPTY = b'{"messages":[]'
_STAND_IN = uuid.uuid4().hex
"""Encoded in place of a large value. It is in no message."""

_encode = msgspec.json.Encoder().encode


async def answer_on_thread(make: Callable[[], Any]) -> Response:
    """The answer with messages that `make` makes."""
    return Response(200, await on_thread(lambda: encode_answer(make())))


async def on_thread(job: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job, *given)


def encode_answer(answer: Any) -> list[bytes]:
    """A struct whose first field is `messages`, as JSON in several parts."""
    messages, answer.messages = answer.messages, []
    rest = _encode(answer)
    answer.messages = messages
    assert rest.startswith(_EMPTY), "messages are the first field"
    parts, gathered, size = list[bytes](), [_EMPTY[:-1]], 0
    for number, message in enumerate(messages):
        for piece in (b",", *encode_message(message)) if number else encode_message(message):
            gathered.append(piece)
            size += len(piece)
        if size >= _PART_BYTES:
            parts.append(b"".join(gathered))
            gathered, size = [], 0
    return [*parts, b"".join((*gathered, b"]", rest[len(_EMPTY) :]))]


def encode_message(message: Any) -> Iterator[bytes]:
    """One message as JSON, its value in pieces where it is large."""
    value = message.value
    if value is None or len(value) <= _PIECE_CHARACTERS:
        yield _encode(message)
        return
    message.value = _STAND_IN
    before, _, behind = _encode(message).partition(_STAND_IN.encode())
    message.value = value
    yield before
    for start in range(0, len(value), _PIECE_CHARACTERS):
        yield _encode(value[start : start + _PIECE_CHARACTERS])[1:-1]
    yield behind
