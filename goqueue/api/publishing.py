"""Publishing: JSON from any client, frames from the SDK. A request is checked as a whole before any of it is stored."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Literal, cast

import msgspec
from crc32c import crc32c

from goqueue.api.access import UNRESTRICTED
from goqueue.api.delayed_logs import begin_delayed_log, begun_delayed_log, delayed_log, transaction_log
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Epoch, ProducerId, TransactionalId
from goqueue.api.http.error_responses import ErrorJson, error_json
from goqueue.api.http.message import HttpRequest
from goqueue.api.outgoing_message import EncodedMessage, MessageEncoder, OutgoingMessage, priority_of
from goqueue.api.pipeline import is_frames
from goqueue.api.problems import TooManyProblems, invalid
from goqueue.api.quota_checks import admitted_settings
from goqueue.api.topics import new_topic
from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.topic import Topic
from goqueue.broker.transactions.records import TransactionMetadata
from goqueue.broker.transactions.refusals import unknown_transaction
from goqueue.errors import (
    ChecksumMismatch,
    FrameInvalid,
    GoQueueError,
    RequestInvalid,
    TopicBusy,
    TopicExists,
    TopicNotFound,
)
from goqueue.limits import MIB, SECTIONS_MAX
from goqueue.quantities import format_time
from goqueue.runtime.deferred import Deferred
from goqueue.wire.headers import CHECKSUM, PARTITIONS
from goqueue.wire.sections import DELAYED, SECTION

_MESSAGES_PER_TURN = 1_000  # encoded in one turn of the event loop: some milliseconds
_BYTES_PER_TURN = MIB  # of values, the same
_COUNT_DIGITS = 9


class PublishQuery(msgspec.Struct, forbid_unknown_fields=True):
    acks: Annotated[
        Literal["none", "leader", "all"],
        msgspec.Meta(
            description="When to answer: before it is stored, when it is on disk here, or on all replicas in sync."
        ),
    ] = "all"
    producer_id: Annotated[
        ProducerId | None, msgspec.Meta(description="Publish in the open transaction of this producer.")
    ] = None
    epoch: Epoch | None = None
    transactional_id: Annotated[
        TransactionalId | None,
        msgspec.Meta(description="That of the transaction: it says which node of a cluster coordinates it."),
    ] = None
    begin: Annotated[bool, msgspec.Meta(description="Begin the transaction if it has not begun.")] = False


_LEVELS = {"none": CommitLevel.STORED, "leader": CommitLevel.STORED, "all": CommitLevel.COMMITTED}


class PublishResult(msgspec.Struct):
    """The result of one message, or of the frames of one partition. Without waiting for acks, offsets are null."""

    partition: int
    offset: int | msgspec.UnsetType | None = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    delayed: bool | msgspec.UnsetType = msgspec.UNSET
    """True for a delayed message; its offsets are those of the delayed log."""
    deliver_at: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="deliverAt")
    first_offset: int | msgspec.UnsetType | None = msgspec.UNSET
    next_offset: int | msgspec.UnsetType | None = msgspec.UNSET
    timestamp: str | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET
    """True if these frames had been stored before."""
    pieces: list[tuple[int, int]] | msgspec.UnsetType = msgspec.UNSET
    """The ranges of offsets, if a crash has left them in more than one."""
    leader_epoch: int | msgspec.UnsetType = msgspec.UNSET
    """Of the leader that stored them, in a cluster."""
    error: ErrorJson | msgspec.UnsetType = msgspec.UNSET


class PublishResponse(msgspec.Struct):
    results: list[PublishResult]


def publish(call: ApiCall, query: PublishQuery) -> Awaitable[PublishResponse]:
    """Store messages and return their offsets."""
    if call.body is not None and len(call.body.messages) == 1 and _transaction_of(query) is None:
        name = call.parameters["topic"]
        topic = None if is_internal(name) else call.runtime.broker.topics.get(name)
        if topic is not None and not topic.validation:
            return _publish_one(call, topic, call.body.messages[0])
    return _publish(call, query)


async def _publish_one(call: ApiCall, topic: Topic, message: OutgoingMessage) -> PublishResponse:
    """Publish one message to a topic without validation, as most requests do: without what only several need."""
    runtime, acks = call.runtime, call.query.acks
    (encoded,) = MessageEncoder(topic, runtime.clock.now_ns(), is_transactional=False).encode_all([message])
    partition = encoded.partition or topic.place(encoded.key)
    log = partition if encoded.due_ns is None else await begun_delayed_log(call, partition)
    pending = runtime.offer(log, [encoded.frame], len(encoded.frame), _LEVELS[acks])
    placement = await pending if acks != "none" or pending.is_done else None
    return PublishResponse([_message_result(message, encoded, partition, 0, placement)])


async def _publish(call: ApiCall, query: PublishQuery) -> PublishResponse:
    transaction = _transaction_of(query)
    if transaction is not None:
        call.app.refuse_before_level("transactions")
        check_transaction(call, transaction, query.transactional_id)
        coordinator = call.runtime.broker.transactions.of_transaction(transaction, query.transactional_id)
        coordinator.current(transaction, query.transactional_id)  # before a topic is created in vain
    topic = await publishable_topic(call, call.parameters["topic"])
    publish_body = _publish_frames if is_frames(call.request) else _publish_messages
    return PublishResponse(await publish_body(call, topic, transaction))


def _transaction_of(query: PublishQuery) -> TransactionId | None:
    if query.producer_id is not None and query.epoch is not None:
        return TransactionId(query.producer_id, query.epoch)
    if query.producer_id is None and query.epoch is None and not query.begin and query.transactional_id is None:
        return None
    missing = "epoch" if query.epoch is None and query.producer_id is not None else "producer_id"
    raise invalid(missing, "is missing: a transaction is named by producer_id and epoch", "give both, or neither")


def check_transaction(call: ApiCall, transaction: TransactionId, name: str | None = None) -> None:
    """Check the transactional id of a producer id, and the one that the request names."""
    if call.access is UNRESTRICTED:
        return
    if name is not None:
        call.access.require("write", "transactional_id", name)
    known = known_transaction(call, transaction)
    if known is not None:
        call.access.require("write", "transactional_id", known.id)
    elif name is None:
        call.access.require_any("write", "transactional_id")
        if call.access.tenant:  # the number may be that of another tenant
            raise unknown_transaction(transaction, None, None)


def known_transaction(call: ApiCall, transaction: TransactionId) -> TransactionMetadata | None:
    """Return the transactional id of a producer; None if it has none, or one of another tenant."""
    known = call.runtime.broker.transactions.known(transaction.producer)
    return known if known is not None and call.access.reaches(known.id) else None


async def publishable_topic(call: ApiCall, name: str) -> Topic:
    """Return the topic; create it first if topics are created on publish."""
    creating = call.app.creating
    try:
        return call.runtime.broker.publishable_topic(name)
    except TopicNotFound:
        if not call.app.auto_create:
            raise
        call.access.require("create", "topic", name)
        if name not in creating:
            making = call.runtime.create_topic(new_topic(call.app, name, None, admitted_settings(call)))
            creating[name] = asyncio.ensure_future(making)
            creating[name].add_done_callback(lambda _: creating.pop(name, None))
    except TopicBusy:
        if name not in creating:
            raise
    try:
        return await asyncio.shield(creating[name])  # other requests wait for it, if the first client leaves
    except TopicExists:  # created by another request, which did not publish
        return call.runtime.broker.publishable_topic(name)


# --- JSON ---

_Pending = Deferred[Placement] | GoQueueError
_Target = tuple[Partition, bool]
"""A partition, and whether its delayed log is meant."""


async def _publish_messages(call: ApiCall, topic: Topic, transaction: TransactionId | None) -> list[PublishResult]:
    messages: list[OutgoingMessage] = call.body.messages
    encoder = MessageEncoder(topic, call.runtime.clock.now_ns(), is_transactional=transaction is not None)
    if len(messages) <= _MESSAGES_PER_TURN and call.request.size <= _BYTES_PER_TURN:
        encoded = encoder.encode_all(messages)
    else:
        encoded = await _encode_in_turns(messages, encoder)
    if topic.validation:
        await call.app.payload_checks.check(topic, [one.frame for one in encoded])
    if transaction is None:
        targets, positions, batches = _placed(topic, encoded)
        while [one for one, delayed in batches if delayed and await begin_delayed_log(call, one)]:
            targets, positions, batches = _placed(topic, encoded)
        # No await since the messages were placed: partitions may be added in any other turn.
        pending = {target: _append(call, target, frames) for target, frames in batches.items()}
    else:
        targets, positions, pending = await _append_in_transaction(call, topic, transaction, encoded)
    placements = {target: await _placement(one, call) for target, one in pending.items()}
    _raise_if_all_failed(list(placements.values()))
    placements = {target: _shown(call, one) for target, one in placements.items()}
    stored = zip(messages, encoded, targets, positions, strict=True)
    results: list[PublishResult] = []
    while some := [
        _message_result(message, content, target[0], position, placements[target])
        for message, content, target, position in islice(stored, _MESSAGES_PER_TURN)
    ]:
        results += some
        if len(results) == len(messages):
            break
        await asyncio.sleep(0)
    return results


def _placed(
    topic: Topic, encoded: Iterable[EncodedMessage]
) -> tuple[list[_Target], list[int], dict[_Target, list[bytes]]]:
    """Return for each message its partition and its position there, and the frames of each partition."""
    targets = [(one.partition or topic.place(one.key), one.due_ns is not None) for one in encoded]
    batches: dict[_Target, list[bytes]] = {}
    positions: list[int] = []
    for target, message in zip(targets, encoded, strict=True):
        batch = batches.setdefault(target, [])
        positions.append(len(batch))
        batch.append(message.frame)
    return targets, positions, batches


async def _encode_in_turns(messages: list[OutgoingMessage], encoder: MessageEncoder) -> list[EncodedMessage]:
    """Encode many or large messages in several turns of the event loop."""
    start = size = 0
    with suppress(TooManyProblems):
        for end, message in enumerate(messages, 1):
            size += len(message.value or "")
            if end - start == _MESSAGES_PER_TURN or size > _BYTES_PER_TURN:
                encoder.encode(start, messages[start:end])
                start, size = end, 0
                await asyncio.sleep(0)
        encoder.encode(start, messages[start:])
    return encoder.finish()


def _append(call: ApiCall, target: _Target, frames: list[bytes]) -> _Pending:
    partition, is_delayed = target
    try:
        chosen = delayed_log(call, partition) if is_delayed else partition
        return call.runtime.offer(chosen, frames, sum(map(len, frames)), _LEVELS[call.query.acks])
    except GoQueueError as error:  # other partitions may have taken theirs
        return error.without_tracebacks()


async def _append_in_transaction(
    call: ApiCall, topic: Topic, transaction: TransactionId, encoded: Sequence[EncodedMessage]
) -> tuple[list[_Target], list[int], dict[_Target, _Pending]]:
    """Append messages once it is durable that the transaction writes to all these logs."""
    count = 0
    while count != len(topic.partitions):  # partitions may be added while this waits
        count = len(topic.partitions)
        targets, positions, batches = _placed(topic, encoded)
        await _enlist(call, transaction, [LogRef(topic.name, one.number, delayed) for one, delayed in batches])
        chosen = {target: transaction_log(call, target[0], is_delayed=target[1]) for target in batches}
        for partition in chosen.values():
            await call.runtime.load_producers(partition)
    offer = call.runtime.transaction_runner.offer  # which has nothing to wait for any more
    pending: dict[_Target, _Pending] = {
        target: await offer(transaction, chosen[target], frames, name=call.query.transactional_id, is_delayed=target[1])
        for target, frames in batches.items()
    }
    return targets, positions, pending


async def _enlist(call: ApiCall, transaction: TransactionId, logs: Iterable[LogRef]) -> None:
    name = call.query.transactional_id
    coordinator = call.runtime.broker.transactions.of_transaction(transaction, name)
    await call.runtime.decide(coordinator.enlist(transaction, logs, name=name, begin=call.query.begin))


async def _placement(pending: _Pending, call: ApiCall) -> Placement | GoQueueError | None:
    """Wait for the result of an append; None if it is not known yet and acks are not waited for."""
    if isinstance(pending, GoQueueError):
        return pending
    if call.query.acks == "none" and not pending.is_done:
        return None
    try:
        return await pending
    except GoQueueError as error:
        return error.without_tracebacks()


def _raise_if_all_failed(placements: Sequence[Placement | GoQueueError | None]) -> None:
    """Fail the whole request if nothing was stored."""
    if all(isinstance(one, GoQueueError) for one in placements):
        raise cast(GoQueueError, placements[0])


def _shown(call: ApiCall, placement: Placement | GoQueueError | None) -> Placement | GoQueueError | None:
    """Return a result with the names that the sender knows. Only errors have names."""
    return call.shown(placement) if isinstance(placement, GoQueueError) else placement


def _message_result(
    message: OutgoingMessage,
    encoded: EncodedMessage,
    partition: Partition,
    position: int,
    placement: Placement | GoQueueError | None,
) -> PublishResult:
    due = format_time(encoded.due_ns) if encoded.due_ns is not None else msgspec.UNSET
    given = (priority_of(message), encoded.due_ns is not None, due)
    if isinstance(placement, GoQueueError):
        return PublishResult(partition.number, None, *given, error=error_json(placement))
    result = PublishResult(partition.number, None if placement is None else placement.first_offset + position, *given)
    if partition.leadership is not None:
        result.leader_epoch = partition.leadership.leader_epoch
    return result


# --- frames ---


async def _publish_frames(call: ApiCall, topic: Topic, transaction: TransactionId | None) -> list[PublishResult]:
    _check_checksum(call.request)
    found = list(_sections(call.request.body))
    if not found:
        problem = {"place": "", "problem": "is empty: it needs at least one section of frames"}
        raise RequestInvalid(f"the body {problem['problem']}", problems=[problem])
    if transaction is not None:
        numbers = [(topic.partition(number).number, is_delayed) for number, is_delayed, _ in found]
        await _enlist(call, transaction, [LogRef(topic.name, *one) for one in numbers])
    routing = _routing_of(call.request, topic)
    pending, size = list[tuple[int, bool, _Pending]](), 0
    for number, is_delayed, content in found:
        if (size := size + len(content)) > _BYTES_PER_TURN:
            size = 0
            await asyncio.sleep(0)
        answer = await _append_section(call, topic, transaction, number, is_delayed, content, routing)
        pending.append((number, is_delayed, answer))
    placements = [(number, is_delayed, await _placement(answer, call)) for number, is_delayed, answer in pending]
    if len(placements) == 1:
        _raise_if_all_failed([placements[0][2]])
    return [
        _section_result(topic, number, is_delayed=is_delayed, placement=_shown(call, one))
        for number, is_delayed, one in placements
    ]


def _check_checksum(request: HttpRequest) -> None:
    """Compare the body with the checksum header of the request, if it has one."""
    expected = request.headers.get(CHECKSUM)
    if expected is None:
        return
    found = f"{crc32c(request.body):08x}"
    if expected.lower() != found:
        raise ChecksumMismatch(
            f"the body has the checksum {found}, the request says {expected[:40]!r}",
            hint=f"{CHECKSUM} is the CRC-32C of the whole body as 8 hex digits; send again",
        )


def _sections(body: bytearray) -> Iterator[tuple[int, bool, memoryview]]:
    """Yield for each section the partition, whether it is delayed, and its frames.

    Nothing is copied: the frames are stamped in place.
    """
    view, position, seen = memoryview(body), 0, set()
    while position < len(body):
        if position + SECTION.size > len(body):
            raise FrameInvalid(f"a section begins with {SECTION.size} bytes, {len(body) - position} are left")
        number, length = SECTION.unpack_from(body, position)
        partition, is_delayed = number & ~DELAYED, bool(number & DELAYED)
        position += SECTION.size
        if not 0 < length <= len(body) - position:
            raise FrameInvalid(
                f"the section of partition {partition} says {length} bytes, {len(body) - position} are left",
                hint="a section is the partition and the length as u32, then its frames",
            )
        if number in seen:
            raise FrameInvalid(f"partition {partition} has two sections", hint="send its frames in one section")
        seen.add(number)
        if len(seen) > SECTIONS_MAX:
            raise FrameInvalid(f"the body has more than {SECTIONS_MAX:,} sections", hint="send one for each partition")
        yield partition, is_delayed, view[position : position + length]
        position += length


def _routing_of(request: HttpRequest, topic: Topic) -> Routing | None:
    """Return the number of partitions by which the client has placed its frames, if it says so."""
    given = request.headers.get(PARTITIONS)
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= _COUNT_DIGITS):
        raise invalid(PARTITIONS, f"is {given[:40]!r}, and must be a number of partitions")
    return Routing(topic, int(given))


async def _append_section(
    call: ApiCall,
    topic: Topic,
    transaction: TransactionId | None,
    number: int,
    is_delayed: bool,
    content: memoryview,
    routing: Routing | None,
) -> _Pending:
    walked = None if call.walked is None else call.walked.pop(number | DELAYED if is_delayed else number, None)
    if len(content) * 2 < len(call.request.body):  # frames stay in memory for readers, and a view keeps the whole body
        content, walked = memoryview(bytearray(content)), None
    try:
        partition, bytes_max = topic.partition(number), topic.settings.max_message_bytes
        if is_delayed and transaction is None:
            partition = await begun_delayed_log(call, partition)
        elif is_delayed:
            partition = transaction_log(call, partition, is_delayed=True)
        if topic.validation:
            await call.app.payload_checks.check_section(topic, partition, content)
        if transaction is not None:
            sent = transaction, partition, content, bytes_max, routing, call.query.transactional_id
            return await call.runtime.transaction_runner.publish(*sent, is_delayed=is_delayed)
        return await call.runtime.publish(partition, content, bytes_max, routing, _LEVELS[call.query.acks], walked)
    except GoQueueError as error:
        return error.without_tracebacks()


def _section_result(
    topic: Topic, number: int, *, is_delayed: bool, placement: Placement | GoQueueError | None
) -> PublishResult:
    delayed = is_delayed or msgspec.UNSET
    if placement is None:
        return PublishResult(number, delayed=delayed, first_offset=None, next_offset=None)
    if isinstance(placement, GoQueueError):
        return PublishResult(number, delayed=delayed, error=error_json(placement))
    leadership = topic.partition(number).leadership
    return PublishResult(
        number,
        delayed=delayed,
        first_offset=placement.first_offset,
        next_offset=placement.next_offset,
        timestamp=format_time(placement.time_ns),
        duplicate=placement.duplicate,
        pieces=msgspec.UNSET if len(placement.pieces) == 1 else list(placement.pieces),
        leader_epoch=msgspec.UNSET if leadership is None else leadership.leader_epoch,
    )
