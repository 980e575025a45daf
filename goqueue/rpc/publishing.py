"""Publish methods. A batch is one request of the endpoint that publishes; a stream sends one after the other.

What must stay true: the batches of a stream are stored in their order, so the next one is not offered before the one
before it is answered. Single messages of a stream are gathered while an answer is awaited, into one request.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from goqueue.api.fields import DelayTime, DueTime
from goqueue.api.outgoing_message import EncodedHeader, HeaderText, OutgoingMessage, PublishRequest
from goqueue.api.transactions import TransactionPublishRequest
from goqueue.limits import PARTITIONS_MAX, PRIORITY_COUNT, PUBLISH_MESSAGES_MAX, RPC_GATHERED_MESSAGES
from goqueue.quantities import parse_time
from goqueue.rpc.session import CallSession, path_of
from goqueue.rpc.status import CallFailed, described_failure, invalid_request
from goqueue.rpc.transcoding import nanoseconds_of, seconds_of, timestamp
from goqueue.rpc.v1 import publish_pb2
from goqueue.wire.headers import CHECKSUM, PARTITIONS

_ENDPOINT = "/topics/{topic}/messages"
_ACKS = {publish_pb2.ACK_MODE_LEADER: "all", publish_pb2.ACK_MODE_NONE: "none", publish_pb2.ACK_MODE_ALL: "all"}
_UNKNOWN_OFFSET = -1


# --- messages ---


def outgoing(message: Any, place: str = "") -> OutgoingMessage:
    """Return a message as the endpoint takes it. Raises CallFailed for what the types of HTTP would refuse."""
    return OutgoingMessage(**_fields(message, place))


def _fields(message: Any, place: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"value": None if message.tombstone else message.value, "key": message.key or None}
    if message.HasField("partition") and message.partition >= 0:
        if message.partition >= PARTITIONS_MAX:
            raise invalid_request(f"{place}partition", f"is {message.partition}, at most {PARTITIONS_MAX - 1} exists")
        fields["partition"] = message.partition
    if message.HasField("priority"):
        if not 0 <= message.priority < PRIORITY_COUNT:
            raise invalid_request(f"{place}priority", f"is {message.priority}, and must be 0 (critical) to 4")
        fields["priority"] = message.priority
    if message.headers or message.raw_headers:
        fields["headers"] = _headers(message)
    if message.HasField("delay"):
        try:
            fields["delay"] = DelayTime.read(seconds_of(message.delay))
        except ValueError as error:
            raise invalid_request(f"{place}delay", str(error)) from None
    if message.HasField("deliver_at"):
        fields["deliver_at"] = DueTime(nanoseconds_of(message.deliver_at))
    return fields


def _headers(message: Any) -> dict[str, HeaderText | list[HeaderText]]:
    found: dict[str, Any] = dict(message.headers)
    for header in message.raw_headers:
        value = EncodedHeader(header.value, "utf-8")  # bytes are taken as they are
        if header.name not in found:
            found[header.name] = value
        elif isinstance(found[header.name], list):
            found[header.name].append(value)
        else:
            found[header.name] = [found[header.name], value]
    return found


def _acks(acks: str) -> list[tuple[str, str]]:
    """Return the query; the default is left out, because decoding it takes a tenth of a small publish."""
    return [] if acks == "all" else [("acks", acks)]


def _checked_topic(request: Any) -> str:
    if not request.topic:
        raise invalid_request("topic", "is missing")
    return str(request.topic)


def _due(result: dict[str, Any], message: Any) -> None:
    if text := result.get("deliverAt"):
        message.deliver_at.CopyFrom(timestamp(parse_time(text)))


# --- single messages ---


async def publish(session: CallSession, request: Any) -> Any:
    topic = _checked_topic(request)
    response = publish_pb2.PublishResponse(topic=topic)
    if request.producer_id:
        await _publish_in_transaction(session, request, response)
        return response
    found = await _offered(session, topic, _ACKS[request.ack_mode], [outgoing(request)], request.ByteSize())
    _fill_single(response, found[0])
    return response


async def _offered(
    session: CallSession, topic: str, acks: str, messages: list[OutgoingMessage], weight: int
) -> list[dict[str, Any]]:
    decoded = PublishRequest(messages)
    answer = await session.ask_typed(path_of(_ENDPOINT, topic=topic), _acks(acks), decoded, weight)
    results: list[dict[str, Any]] = answer.json["results"]
    return results


async def _publish_in_transaction(session: CallSession, request: Any, response: Any) -> None:
    decoded = TransactionPublishRequest(
        **_fields(request, ""),
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        topic=request.topic,
        sequence=request.sequence if request.HasField("sequence") else None,
    )
    _fill_single(response, (await session.ask_typed("/transactions/publish", (), decoded, request.ByteSize())).json)


def _fill_single(response: Any, result: dict[str, Any]) -> None:
    if "error" in result:
        response.error.CopyFrom(described_failure(result["error"]).error)
        return
    offset = result.get("offset")
    response.partition = result["partition"]
    response.offset = _UNKNOWN_OFFSET if offset is None else offset
    response.delayed = result.get("delayed", False)
    response.duplicate = result.get("duplicate", False)
    _due(result, response)


async def publish_stream(session: CallSession, requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Publish what has gathered, answer it, and go on with what has gathered meanwhile."""
    async with _Gatherer(requests) as gatherer:
        while some := await gatherer.take():
            for response in await _published(session, some):
                yield response


async def _published(session: CallSession, requests: Sequence[Any]) -> list[Any]:
    """Publish requests in their order; those in a row that may share a request of the endpoint do so."""
    responses: list[Any] = []
    start = 0
    for end in range(1, len(requests) + 1):
        if end == len(requests) or _shared(requests[end]) != _shared(requests[start]) or requests[end].producer_id:
            responses += await _published_together(session, requests[start:end])
            start = end
    return responses


def _shared(request: Any) -> tuple[str, int, int]:
    return request.topic, request.ack_mode, request.producer_id


async def _published_together(session: CallSession, requests: Sequence[Any]) -> list[Any]:
    first = requests[0]
    responses = [
        publish_pb2.PublishStreamResponse(correlation_id=one.correlation_id, topic=one.topic) for one in requests
    ]
    try:
        if first.producer_id:
            await _publish_in_transaction(session, first, responses[0])
        else:
            messages = [outgoing(one) for one in requests]
            results = await _offered(
                session, _checked_topic(first), _ACKS[first.ack_mode], messages, sum(one.ByteSize() for one in requests)
            )
            for response, result in zip(responses, results, strict=True):
                _fill_single(response, result)
    except CallFailed as failed:
        if len(requests) == 1:
            responses[0].error.CopyFrom(failed.failure.error)
        else:  # one invalid message refuses a request as a whole: the others must not pay for it
            return [response for one in requests for response in await _published_together(session, [one])]
    return responses


class _Gatherer:
    """Reads a stream ahead, up to a number of messages."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        self._requests = requests
        self._gathered: deque[Any] = deque()
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._has_ended = False
        self._reader: asyncio.Task[None]

    async def __aenter__(self) -> "_Gatherer":
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for request in self._requests:
                self._gathered.append(request)
                self._changed.set()
                if len(self._gathered) >= RPC_GATHERED_MESSAGES:
                    self._has_room.clear()
                    await self._has_room.wait()
        finally:
            self._has_ended = True
            self._changed.set()

    async def take(self) -> list[Any]:
        """Return what has gathered, at least one request; none at the end of the stream."""
        while not self._gathered and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        some = list(self._gathered)
        self._gathered.clear()
        self._has_room.set()
        return some


# --- batches ---


async def publish_batch(session: CallSession, request: Any) -> Any:
    return await _published_batch(session, request, _checked_topic(request))


async def publish_batches(session: CallSession, requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    topic = ""
    async for request in requests:
        topic = request.topic or topic
        try:
            if not topic:
                raise invalid_request("topic", "is missing in the first request of the stream")
            yield await _published_batch(session, request, topic)
        except CallFailed as failed:
            yield publish_pb2.PublishBatchResponse(correlation_id=request.correlation_id, error=failed.failure.error)


async def publish_all(session: CallSession, requests: AsyncIterator[Any]) -> Any:
    topic, response = "", publish_pb2.PublishAllResponse()
    async for request in requests:
        topic = request.topic or topic
        if not topic:
            raise invalid_request("topic", "is missing in the first request of the stream")
        results = await _batch_results(session, request, topic)
        for result in results:
            if "error" in result:
                raise CallFailed(described_failure(result["error"]))
            response.messages += (result.get("next_offset") or 0) - (result.get("first_offset") or 0)
        response.messages += len(request.messages)
        response.batches += 1
    return response


async def _published_batch(session: CallSession, request: Any, topic: str) -> Any:
    results = await _batch_results(session, request, topic)
    fill: Callable[[Any, dict[str, Any]], None] = _fill_section if request.frames else _fill_message
    response = publish_pb2.PublishBatchResponse(correlation_id=request.correlation_id)
    for result in results:
        fill(response.results.add(), result)
    return response


async def _batch_results(session: CallSession, request: Any, topic: str) -> list[dict[str, Any]]:
    query = _acks(_ACKS[request.ack_mode])
    if request.producer_id:
        query += [("producer_id", str(request.producer_id)), ("epoch", str(request.producer_epoch))]
    if request.begin:
        query.append(("begin", "true"))
    path = path_of(_ENDPOINT, topic=topic)
    if request.frames:
        if request.messages:
            raise invalid_request("frames", "cannot be combined with messages", "send one of the two")
        headers = [(PARTITIONS, str(request.partitions))] if request.partitions else []
        headers += [(CHECKSUM, f"{request.checksum:08x}")] if request.HasField("checksum") else []
        answer = await session.ask("POST", path, query, frames=request.frames, headers=tuple(headers))
    else:
        answer = await session.ask_typed(path, query, PublishRequest(_messages(request.messages)), request.ByteSize())
    results: list[dict[str, Any]] = answer.json["results"]
    return results


def _plain(message: Any) -> OutgoingMessage | None:
    """Return a message that has a value and perhaps a key, as most have; None if it has more, or no value.

    Its size tells: to ask for all fields takes four times as long.
    """
    value, key = message.value, message.key
    if value and message.ByteSize() == _field_bytes(len(value)) + (_field_bytes(len(key)) if key else 0):
        return OutgoingMessage(value=value, key=key or None)
    return None


def _field_bytes(length: int) -> int:
    """Return the size of a field with its number, which is below 16, and its length."""
    return 1 + (length.bit_length() + 6) // 7 + length


def _messages(messages: Iterable[Message]) -> list[OutgoingMessage]:
    found = [_plain(one) or outgoing(one, f"messages[{number}].") for number, one in enumerate(messages)]
    if not 0 < len(found) <= PUBLISH_MESSAGES_MAX:
        raise invalid_request(
            "messages", f"has {len(found):,} entries, and must have 1 to {PUBLISH_MESSAGES_MAX:,}", "or send frames"
        )
    return found


def _fill_message(message: Any, result: dict[str, Any]) -> None:
    if "error" in result:
        message.error.CopyFrom(described_failure(result["error"]).error)
        message.partition = result["partition"]
        return
    offset = result["offset"]
    message.partition = result["partition"]
    message.offset = _UNKNOWN_OFFSET if offset is None else offset
    if result.get("delayed"):
        message.delayed = True
        _due(result, message)


def _fill_section(message: Any, result: dict[str, Any]) -> None:
    message.partition = result["partition"]
    message.delayed = result.get("delayed", False)
    if "error" in result:
        message.error.CopyFrom(described_failure(result["error"]).error)
        return
    first, following = result["first_offset"], result["next_offset"]
    message.first_offset = _UNKNOWN_OFFSET if first is None else first
    message.next_offset = _UNKNOWN_OFFSET if following is None else following
    message.offset = message.first_offset
    message.duplicate = result.get("duplicate", False)
    if text := result.get("timestamp"):
        message.timestamp.CopyFrom(timestamp(parse_time(text)))
