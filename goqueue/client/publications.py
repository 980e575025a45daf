"""The calls that publish: one message as JSON, or what a producer has gathered as frames."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from crc32c import crc32c

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.delivery import Stored
from goqueue.client.due import Delay, DeliverAt, fields_of
from goqueue.client.endpoints import FRAMES, JSON, decoded
from goqueue.client.outgoing import Headers, Key, Priority, Value, as_headers, as_priority, unfit
from goqueue.client.times import nanoseconds
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.storage.frame import NORMAL, PRIORITIES, decode_headers


class Section(msgspec.Struct, frozen=True):
    """What became of one section of a publication."""

    partition: int
    first_offset: int | None = None
    next_offset: int | None = None
    timestamp: str | None = None
    duplicate: bool = False
    pieces: list[tuple[int, int]] | None = None
    """The ranges of offsets, where a crash has left them in more than one."""
    error: dict[str, Any] | None = None

    @property
    def refusal(self) -> GoQueueError | None:
        return None if self.error is None else refusals.of_record(self.error)


class _Results(msgspec.Struct):
    results: list[Section]


class _Published(msgspec.Struct):
    partition: int
    offset: int | None = None
    delayed: bool = False
    deliver_at: str | None = msgspec.field(default=None, name="deliverAt")
    error: dict[str, Any] | None = None


class _PublishedAll(msgspec.Struct):
    results: list[_Published]


class _Identity(msgspec.Struct):
    producer_id: int
    epoch: int


def publish(  # noqa: PLR0913 - what may be said of a message
    name: str,
    value: Value,
    key: Key,
    headers: Headers | None,
    partition: int | None,
    priority: Priority = NORMAL,
    *,
    delay: Delay | None = None,
    deliver_at: DeliverAt | None = None,
) -> Call[Stored]:
    """One message as JSON. Bytes go as base64; the names of headers are text, and so are their values."""
    if value is None and not key:
        raise RequestInvalid("a tombstone needs a key", hint="None deletes a key; an empty message is b''")
    message: dict[str, Any] = {"value": value} | fields_of(delay, deliver_at)
    for field, encoding, given in (("value", "encoding", value), ("key", "key_encoding", key)):
        if isinstance(given, (bytes, bytearray, memoryview)):
            message |= {field: base64.b64encode(given).decode(), encoding: "base64"}
        elif given is not None and not isinstance(given, str):
            raise unfit(given, field)
        elif given is not None:
            message[field] = given
    if headers:
        message["headers"] = _text_headers(headers)
    if partition is not None:
        message["partition"] = partition
    urgency = as_priority(priority)
    if urgency != NORMAL:
        message["priority"] = PRIORITIES[urgency]
    try:
        body = msgspec.json.encode({"messages": [message]})
    except UnicodeEncodeError as error:
        raise RequestInvalid(f"the message cannot be encoded: {error.reason}") from None
    return Call("POST", f"/topics/{quote(name)}/messages", _stored, (body,), JSON, idempotent=False)


def _text_headers(headers: Headers) -> dict[str, str]:
    try:
        return {name: value.decode() for name, value in decode_headers(as_headers(headers))}
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"a header is not text: {error}", hint="a Producer sends headers of any bytes") from None


def _stored(answer: Answer) -> Stored:
    results = decoded(answer, _PublishedAll).results
    if len(results) != 1:
        raise refusals.unreadable(answer, f"{len(results)} results for one message")
    (found,) = results
    if found.error is not None:
        raise refusals.of_record(found.error)
    if found.offset is None:
        raise refusals.unreadable(answer, "it has no offset")
    time_ns = None if found.deliver_at is None else nanoseconds(found.deliver_at)
    return Stored(found.partition, found.offset, found.delayed, time_ns)


def init_producer() -> Call[tuple[int, int]]:
    def read(answer: Answer) -> tuple[int, int]:
        found = decoded(answer, _Identity)
        return found.producer_id, found.epoch

    return Call("POST", "/producers/init", read, (b"{}",), JSON)


def publish_frames(
    name: str, sections: Sequence[bytes], acks: str, whose: tuple[int, int] | None = None, *, begin: bool = False
) -> Call[list[Section]]:
    """Sections as they are. Whether it may be sent again is the producer's business.

    `whose` is the producer id and epoch of the transaction that they belong to; `begin` if it may have to begin.
    """
    checksum = 0
    for section in sections:
        checksum = crc32c(section, checksum, 0)  # 0: the interpreter is not let go, which would cost more
    headers = (("content-type", FRAMES), ("x-goqueue-checksum", f"{checksum:08x}"))
    wishes = [] if acks == "leader" else [f"acks={acks}"]
    if whose is not None:
        wishes += [f"producer_id={whose[0]}&epoch={whose[1]}"]
    if begin:
        wishes += ["begin=true"]
    query = f"?{'&'.join(wishes)}" if wishes else ""

    def read(answer: Answer) -> list[Section]:
        results = decoded(answer, _Results).results
        if len(results) != len(sections):
            raise refusals.unreadable(answer, f"{len(results)} results for {len(sections)} sections")
        return results

    return Call("POST", f"/topics/{quote(name)}/messages{query}", read, sections, headers)
