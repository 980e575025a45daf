"""Messages as JSON, and the responses that hold them.

Text is shown as text where the bytes are UTF-8, otherwise as base64 with the name of the encoding beside it.
Large answers are encoded on a thread, in pieces: an encoder does not let other threads run until it is done. The pieces
together are the bytes that encoding the whole answer would give.
"""

import asyncio
import base64
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from crc32c import crc32c

from goqueue.api.http.message import HttpResponse
from goqueue.compression import decompress, uncompressed_size
from goqueue.errors import BrokerOverloaded, FrameInvalid
from goqueue.limits import DECOMPRESSED_BYTES, KIB, PRIORITY_COUNT, READ_BYTES_MAX
from goqueue.quantities import format_size, format_time
from goqueue.storage import frame

T = TypeVar("T")

_PIECE_CHARACTERS = 128 * KIB
_PART_BYTES = 256 * KIB
_BASE64_BYTES = 3 * 256 * KIB
_SMALL_MESSAGES = 100
_SMALL_BYTES = 64 * KIB
_NO_MESSAGES = b'{"messages":[]'
_PLACEHOLDER = uuid.uuid4().hex
"""Encoded in place of a large value. No message contains it."""

_encode = msgspec.json.Encoder().encode

Encoding = Literal["utf-8", "base64"]
ValueEncoding = Literal["utf-8", "base64", "zstd"]
"""The form of a value. `zstd`: base64 of the stored bytes, which were not decompressed."""
Priority = (
    Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_COUNT - 1)]
    | Literal["critical", "high", "normal", "low", "background"]
)


class EncodedText(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are not UTF-8."""

    value: str
    encoding: Encoding = "base64"


class MessageJson(msgspec.Struct, omit_defaults=True):
    """A message in an answer."""

    offset: int
    timestamp: str
    key: str | None = msgspec.field(name="key")
    value: str | None = msgspec.field(name="value")
    priority: int = msgspec.field(name="priority")
    headers: dict[str, str | EncodedText | list[str | EncodedText]] = msgspec.field(name="headers")
    partition: int | msgspec.UnsetType = msgspec.UNSET
    encoding: ValueEncoding | msgspec.UnsetType = msgspec.UNSET
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET


def to_bytes(text: str | bytes, encoding: Encoding | None) -> bytes:
    """Return the bytes of a text in a request. Raises ValueError for bad base64."""
    if isinstance(text, bytes):
        return text
    return text.encode() if encoding != "base64" else base64.b64decode(text, validate=True)


def to_text(content: bytes) -> tuple[str, Encoding | msgspec.UnsetType]:
    try:
        return content.decode(), msgspec.UNSET
    except UnicodeDecodeError:
        return encode_base64(content), "base64"


def message_json(message: frame.StoredMessage, content: bytes | None, partition: int | None = None) -> MessageJson:
    """Convert a frame; `content` is its decompressed value, or None to show the stored bytes."""
    value, encoding = _value(message, content)
    key, key_encoding = to_text(message.key) if message.key is not None else (None, msgspec.UNSET)
    return MessageJson(
        message.offset,
        format_time(message.timestamp_ns),
        key,
        value,
        message.priority,
        _headers(message),
        msgspec.UNSET if partition is None else partition,
        encoding,
        key_encoding,
    )


def _value(message: frame.StoredMessage, content: bytes | None) -> tuple[str | None, ValueEncoding | msgspec.UnsetType]:
    if message.is_tombstone:
        return None, msgspec.UNSET
    if content is None:
        return encode_base64(message.value), "zstd"
    return to_text(content)


def _headers(message: frame.StoredMessage) -> dict[str, Any]:
    """Return the headers by name, without those of the broker. A repeated name has a list."""
    found: dict[str, Any] = {}
    for name, content in message.headers:
        if name.startswith("__"):
            continue
        text, encoding = to_text(content)
        value: str | EncodedText = text if encoding is msgspec.UNSET else EncodedText(text)
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def encode_base64(content: bytes) -> str:
    pieces = (content[start : start + _BASE64_BYTES] for start in range(0, len(content), _BASE64_BYTES))
    return "".join(base64.b64encode(piece).decode() for piece in pieces)


# --- frames ---


def frame_positions(buffer: memoryview) -> Iterator[int]:
    """Yield the position of each frame in a buffer of verified frames."""
    position = 0
    while position < len(buffer):
        yield position
        position += frame.measure(buffer, position)


def is_small(count: int, buffers: Iterable[memoryview]) -> bool:
    """Return whether converting these frames is quick enough to be done on the event loop."""
    views = tuple(buffers)
    if count > _SMALL_MESSAGES or sum(map(len, views)) > _SMALL_BYTES:
        return False
    return not any(
        view[position + frame.AT_FLAGS] & frame.COMPRESSED for view in views for position in frame_positions(view)
    )


class DecompressedMemory:
    """Bytes of decompressed values that the answers of all requests hold. Any thread may use it.

    A value of a few hundred bytes may be 16 MiB when it is decompressed. What must stay true: a request decompresses at
    most `READ_BYTES_MAX` and one value more, and all requests together at most `bytes_max` and one value more each.
    """

    def __init__(self, bytes_max: int = DECOMPRESSED_BYTES) -> None:
        self.held = 0
        self._bytes_max = bytes_max
        self._lock = Lock()

    @contextmanager
    def budget(self) -> Iterator["DecompressionBudget"]:
        """Yield the budget of one request; its bytes are released when the answer is made."""
        budget = DecompressionBudget(self)
        try:
            yield budget
        finally:
            with self._lock:
                self.held -= budget.taken

    def take(self, size: int) -> None:
        """Reserve bytes, or raise BrokerOverloaded."""
        with self._lock:
            if not self.held or self.held + size <= self._bytes_max:
                self.held += size
                return
        raise BrokerOverloaded(
            f"answers to other requests hold {format_size(self.held)} of decompressed values, "
            f"at most {format_size(self._bytes_max)} are allowed",
            hint="retry in a moment, or read less at once",
            retry_after=1,
        )


class DecompressionBudget:
    """The decompressed bytes of one request."""

    def __init__(self, memory: DecompressedMemory, bytes_max: int = READ_BYTES_MAX) -> None:
        self.taken = 0
        self._memory = memory
        self._bytes_max = bytes_max

    def has_room_for(self, message: frame.StoredMessage) -> bool:
        """Return whether the value may be decompressed; the first one always may."""
        if not message.flags & frame.COMPRESSED or not self.taken:
            return True
        return self.taken + max(1, uncompressed_size(message.value)) <= self._bytes_max

    def decompress(self, message: frame.StoredMessage) -> bytes | None:
        """Return the decompressed value, or None if it is damaged. Raises BrokerOverloaded."""
        if not message.flags & frame.COMPRESSED:
            return message.value
        expected = max(0, uncompressed_size(message.value))
        self._memory.take(expected)
        self.taken += expected
        try:
            content = decompress(message.value)
        except FrameInvalid:
            return None
        if (more := len(content) - expected) > 0:  # the value did not give its size
            self._memory.take(more)
            self.taken += more
        return content

    def decompress_if_room(self, message: frame.StoredMessage) -> bytes | None:
        return self.decompress(message) if self.has_room_for(message) else None


# --- responses ---


async def run_on_thread(job: Callable[..., T], *given: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job, *given)


async def respond_on_thread(make: Callable[[], Any]) -> HttpResponse:
    """Return the response to the answer with messages that `make` makes; both are made on a thread."""
    return HttpResponse(200, await run_on_thread(lambda: encode_messages(make())))


def encode_messages(answer: Any) -> list[bytes]:
    """Encode a struct whose first field is `messages`, in several parts."""
    messages, answer.messages = answer.messages, []
    rest = _encode(answer)
    answer.messages = messages
    assert rest.startswith(_NO_MESSAGES), "messages are the first field"
    parts, gathered, size = list[bytes](), [_NO_MESSAGES[:-1]], 0
    for number, message in enumerate(messages):
        for piece in (b",", *encode_message(message)) if number else encode_message(message):
            gathered.append(piece)
            size += len(piece)
        if size >= _PART_BYTES:
            parts.append(b"".join(gathered))
            gathered, size = [], 0
    return [*parts, b"".join((*gathered, b"]", rest[len(_NO_MESSAGES) :]))]


def encode_message(message: Any) -> Iterator[bytes]:
    """Encode one message; a large value in pieces."""
    value = message.value
    if value is None or len(value) <= _PIECE_CHARACTERS:
        yield _encode(message)
        return
    message.value = _PLACEHOLDER
    before, _, after = _encode(message).partition(_PLACEHOLDER.encode())
    message.value = value
    yield before
    for start in range(0, len(value), _PIECE_CHARACTERS):
        yield _encode(value[start : start + _PIECE_CHARACTERS])[1:-1]
    yield after


def checksum_of(parts: Iterable[memoryview]) -> str:
    """Return the CRC-32C of a body in parts, as the checksum header has it."""
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    return f"{checksum:08x}"
