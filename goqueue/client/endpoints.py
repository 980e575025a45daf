"""Every call that the broker answers, as a value, and what comes back, as types."""

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from crc32c import crc32c

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.delivery import Receipt
from goqueue.client.message import check
from goqueue.client.outgoing import Headers, Key, Priority, Value, as_headers, as_priority
from goqueue.client.times import Moment, to_text
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import MIB, VALUE_BYTES_MAX
from goqueue.storage.frame import NORMAL, PRIORITIES, decode_headers

T = TypeVar("T")

JSON = (("content-type", "application/json"), ("accept", "application/json"))
FRAMES = "application/vnd.goqueue.frames"
ANSWER_BYTES = MIB
ANSWER_BYTES_MAX = 16 * MIB


class Offsets(msgspec.Struct, frozen=True):
    """What a partition holds: from `earliest` up to, and not with, `latest`."""

    earliest: int
    latest: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic as the broker describes it."""

    name: str
    partitions: int
    total_messages: int = 0
    total_size_bytes: int = 0
    partition_offsets: dict[str, Offsets] = {}
    config: dict[str, Any] = {}

    @property
    def partitioner(self) -> str:
        return str(self.config.get("partitioner", "murmur3"))

    @property
    def value_bytes_max(self) -> int:
        most = self.config.get("max_message_bytes")
        return min(most, VALUE_BYTES_MAX) if isinstance(most, int) else VALUE_BYTES_MAX


class Section(msgspec.Struct, frozen=True):
    """What became of one section of a publication."""

    partition: int
    first_offset: int | None = None
    next_offset: int | None = None
    timestamp: str | None = None
    duplicate: bool = False
    error: dict[str, Any] | None = None

    @property
    def refusal(self) -> GoQueueError | None:
        return None if self.error is None else refusals.of_record(self.error)


class Fetched(msgspec.Struct, frozen=True):
    """An answer of frames."""

    content: bytes
    next_offset: int
    high_watermark: int
    first_offset: int


class _Topics(msgspec.Struct):
    topics: list[str]


class _Offset(msgspec.Struct):
    offset: int


class _Results(msgspec.Struct):
    results: list[Section]


class _Published(msgspec.Struct):
    partition: int = 0
    offset: int | None = None
    error: dict[str, Any] | None = None


class _PublishedAll(msgspec.Struct):
    results: list[_Published]


class _Identity(msgspec.Struct):
    producer_id: int
    epoch: int


def decoded(answer: Answer, kind: type[T]) -> T:
    """The answer as what it should be; a refusal is raised as its error."""
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise refusals.unreadable(answer, error) from None


def _ask(method: str, path: str, kind: type[T], body: object = None, *, idempotent: bool = True) -> Call[T]:
    parts = () if body is None else (msgspec.json.encode(body),)
    return Call(method, path, lambda answer: decoded(answer, kind), parts, JSON, idempotent)


# --- topics ---


def create_topic(name: str, partitions: int | None, settings: dict[str, Any]) -> Call[dict[str, Any]]:
    count = {} if partitions is None else {"num_partitions": partitions}
    return _ask("POST", "/topics", dict[str, Any], {"name": name} | count | settings, idempotent=False)


def create_on_publish(name: str) -> Call[dict[str, Any]]:
    """For a producer: have the topic made, if the broker makes topics when they are published to."""
    return _ask("POST", "/topics", dict[str, Any], {"name": name, "auto": True}, idempotent=False)


def topics(internal: bool) -> Call[list[str]]:
    path = "/topics?internal=true" if internal else "/topics"
    return Call("GET", path, lambda answer: decoded(answer, _Topics).topics, headers=JSON)


def topic(name: str) -> Call[TopicInfo]:
    return _ask("GET", f"/topics/{quote(name)}", TopicInfo)


def alter_topic(name: str, settings: dict[str, Any]) -> Call[TopicInfo]:
    return _ask("PATCH", f"/admin/topics/{quote(name)}", TopicInfo, settings)


def delete_topic(name: str) -> Call[dict[str, Any]]:
    return _ask("DELETE", f"/topics/{quote(name)}", dict[str, Any], idempotent=False)


def offset_at(name: str, partition: int, time: Moment) -> Call[int]:
    path = f"/topics/{quote(name)}/partitions/{partition}/offset?time={to_text(time)}"
    return Call("GET", path, lambda answer: decoded(answer, _Offset).offset, headers=JSON)


def version() -> Call[dict[str, Any]]:
    return _ask("GET", "/version", dict[str, Any])


def health() -> Call[dict[str, Any]]:
    return _ask("GET", "/healthz", dict[str, Any])


# --- publishing ---


def publish(
    name: str, value: Value, key: Key, headers: Headers | None, partition: int | None, priority: Priority = NORMAL
) -> Call[Receipt]:
    """One message as JSON. Bytes go as base64; the names of headers are text, and so are their values."""
    if value is None and not key:
        raise RequestInvalid("a tombstone needs a key", hint="None deletes a key; an empty message is b''")
    message: dict[str, Any] = {"value": value}
    for field, encoding, given in (("value", "encoding", value), ("key", "key_encoding", key)):
        if isinstance(given, (bytes, bytearray, memoryview)):
            message |= {field: base64.b64encode(given).decode(), encoding: "base64"}
        elif given is not None and not isinstance(given, str):
            raise RequestInvalid(f"the {field} is {type(given).__name__}, and must be bytes or text")
        elif given is not None:
            message[field] = given
    if headers:
        message["headers"] = _text_headers(headers)
    if partition is not None:
        message["partition"] = partition
    if priority != NORMAL:
        message["priority"] = PRIORITIES[as_priority(priority)]
    try:
        body = msgspec.json.encode({"messages": [message]})
    except UnicodeEncodeError as error:
        raise RequestInvalid(f"the message cannot be encoded: {error.reason}") from None
    return Call("POST", f"/topics/{quote(name)}/messages", _receipt, (body,), JSON, idempotent=False)


def _text_headers(headers: Headers) -> dict[str, str]:
    try:
        return {name: value.decode() for name, value in decode_headers(as_headers(headers))}
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"a header is not text: {error}", hint="a Producer sends headers of any bytes") from None


def _receipt(answer: Answer) -> Receipt:
    results = decoded(answer, _PublishedAll).results
    if len(results) != 1:
        raise refusals.unreadable(answer, f"{len(results)} results for one message")
    (found,) = results
    if found.error is not None:
        raise refusals.of_record(found.error)
    return Receipt(found.partition, found.offset, None)


def init_producer() -> Call[tuple[int, int]]:
    def read(answer: Answer) -> tuple[int, int]:
        found = decoded(answer, _Identity)
        return found.producer_id, found.epoch

    return Call("POST", "/producers/init", read, (b"{}",), JSON)


def publish_frames(name: str, sections: Sequence[bytes], acks: str) -> Call[list[Section]]:
    """Sections as they are. Whether it may be sent again is the producer's business."""
    checksum = 0
    for section in sections:
        checksum = crc32c(section, checksum, 0)  # 0: the interpreter is not let go, which would cost more
    headers = (("content-type", FRAMES), ("x-goqueue-checksum", f"{checksum:08x}"))
    query = "" if acks == "leader" else f"?acks={acks}"

    def read(answer: Answer) -> list[Section]:
        results = decoded(answer, _Results).results
        if len(results) != len(sections):
            raise refusals.unreadable(answer, f"{len(results)} results for {len(sections)} sections")
        return results

    return Call("POST", f"/topics/{quote(name)}/messages{query}", read, sections, headers)


# --- reading ---


def fetch(name: str, partition: int, offset: int, max_bytes: int, wait: float, *, skip_damage: bool) -> Call[Fetched]:
    query = f"offset={offset}&max_bytes={max_bytes}"
    if wait:
        query += f"&wait={wait:g}s"
    if skip_damage:
        query += "&skip_damage=true"
    path = f"/topics/{quote(name)}/partitions/{partition}/messages?{query}"
    return Call("GET", path, _fetched, headers=(("accept", FRAMES),), patience=wait)


def _fetched(answer: Answer) -> Fetched:
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    content = bytes(answer.body)  # slices of it are bytes, which a message gives away
    check(content, answer.header(b"x-goqueue-checksum"))
    found = [
        answer.header(name)
        for name in (b"x-goqueue-next-offset", b"x-goqueue-high-watermark", b"x-goqueue-first-offset")
    ]
    if not all(text.isdecimal() and text.isascii() for text in found):
        raise refusals.unreadable(answer, f"the offsets {', '.join(map(repr, found))} are not numbers")
    return Fetched(content, *map(int, found))
