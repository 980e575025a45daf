"""Requests that publish: one message as JSON, or the frames of a producer."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from crc32c import crc32c

from goqueue.client import propagation
from goqueue.client.address import quote
from goqueue.client.api_request import JSON, ApiRequest, ApiResponse, decode_field, error_of_record, unreadable_response
from goqueue.client.delivery import Stored
from goqueue.client.message_encoding import Headers, Key, Priority, Value, as_headers, as_priority, wrong_type
from goqueue.client.times import Delay, DeliverAt, delay_fields, nanoseconds
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.storage.frame import NORMAL, PRIORITIES, decode_headers
from goqueue.wire.headers import CHECKSUM, FRAMES, PARTITIONS


class SectionResult(msgspec.Struct, frozen=True):
    """The result of one section of a publish request."""

    partition: int
    first_offset: int | None = None
    next_offset: int | None = None
    timestamp: str | None = None
    duplicate: bool = False
    pieces: list[tuple[int, int]] | None = None
    """The ranges of offsets, if a crash has split them."""
    error: dict[str, Any] | None = None

    @property
    def refusal(self) -> GoQueueError | None:
        return None if self.error is None else error_of_record(self.error)


class _Published(msgspec.Struct):
    partition: int
    offset: int | None = None
    delayed: bool = False
    deliver_at: str | None = msgspec.field(default=None, name="deliverAt")
    error: dict[str, Any] | None = None


def publish(  # noqa: PLR0913 - the fields of a message
    name: str,
    value: Value,
    key: Key,
    headers: Headers | None,
    partition: int | None,
    priority: Priority = NORMAL,
    *,
    delay: Delay | None = None,
    deliver_at: DeliverAt | None = None,
) -> ApiRequest[Stored]:
    """Return the request for one message as JSON. Bytes are sent as base64; headers must be text."""
    if value is None and not key:
        raise RequestInvalid("a tombstone needs a key", hint="None deletes a key; an empty message is b''")
    message: dict[str, Any] = {"value": value} | delay_fields(delay, deliver_at)
    for field, encoding, given in (("value", "encoding", value), ("key", "key_encoding", key)):
        if isinstance(given, (bytes, bytearray, memoryview)):
            message |= {field: base64.b64encode(given).decode(), encoding: "base64"}
        elif given is not None and not isinstance(given, str):
            raise wrong_type(given, field)
        elif given is not None:
            message[field] = given
    if headers := propagation.add_current_trace(headers):
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
    return ApiRequest("POST", f"/topics/{quote(name)}/messages", _stored, (body,), JSON, idempotent=False)


def _text_headers(headers: Headers) -> dict[str, str]:
    try:
        return {name: value.decode() for name, value in decode_headers(as_headers(headers))}
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"a header is not text: {error}", hint="a Producer sends headers of any bytes") from None


def _stored(answer: ApiResponse) -> Stored:
    results = decode_field(answer, list[_Published], "results")
    if len(results) != 1:
        raise unreadable_response(answer, f"{len(results)} results for one message")
    (found,) = results
    if found.error is not None:
        raise error_of_record(found.error)
    if found.offset is None:
        raise unreadable_response(answer, "it has no offset")
    time_ns = None if found.deliver_at is None else nanoseconds(found.deliver_at)
    return Stored(found.partition, found.offset, found.delayed, time_ns)


def publish_frames(  # noqa: PLR0913 - independent options, given by name
    name: str,
    sections: Sequence[bytes],
    acks: str,
    whose: tuple[int, int] | None = None,
    *,
    begin: bool = False,
    placed_by: int | None = None,
    place: tuple[str, int] | None = None,
    transactional_id: str | None = None,
) -> ApiRequest[list[SectionResult]]:
    """Return the request for sections. The producer decides whether it is sent again.

    `placed_by` is the number of partitions by which the partitions of keys were chosen: the broker refuses another one.
    `place` is the topic with one of the partitions, whose leader gets them all.
    `whose` is the producer id and epoch of their transaction, and `begin` tells the broker to begin it if necessary.
    In a cluster the `transactional_id` says which node coordinates it.
    """
    checksum = 0
    for section in sections:
        checksum = crc32c(section, checksum, 0)  # 0: keep the interpreter lock; releasing it costs more
    headers: tuple[tuple[str, str], ...] = (("content-type", FRAMES), (CHECKSUM, f"{checksum:08x}"))
    if placed_by is not None:
        headers += ((PARTITIONS, str(placed_by)),)
    options = [] if acks == "all" else [f"acks={acks}"]
    if whose is not None:
        options += [f"producer_id={whose[0]}&epoch={whose[1]}"]
    if transactional_id is not None:
        options += [f"transactional_id={quote(transactional_id)}"]
    if begin:
        options += ["begin=true"]
    query = f"?{'&'.join(options)}" if options else ""

    def read(answer: ApiResponse) -> list[SectionResult]:
        results = decode_field(answer, list[SectionResult], "results")
        if len(results) != len(sections):
            raise unreadable_response(answer, f"{len(results)} results for {len(sections)} sections")
        return results

    return ApiRequest("POST", f"/topics/{quote(name)}/messages{query}", read, sections, headers, place=place)
