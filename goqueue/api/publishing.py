"""Publishing: JSON for people, frames for the SDK. A request is understood as a whole before any of it is stored."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec

from goqueue import delay
from goqueue.api.call import Call
from goqueue.api.problems import ROOT, Enough, Place, Report
from goqueue.api.producers import Epoch, ProducerId
from goqueue.api.router import is_frames
from goqueue.api.scalars import UNSAID, DelayTime, DueTime
from goqueue.api.sections import check_sum, sections
from goqueue.api.status import ErrorBody, told
from goqueue.api.text import EncodedText, Encoding, Priority, to_bytes
from goqueue.api.topics import new_topic
from goqueue.broker.admission import RESERVED_HEADER_PREFIX, too_large
from goqueue.broker.partition import Partition, Placement
from goqueue.broker.topic import Topic
from goqueue.broker.transactions.records import Spot
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, RequestInvalid, TopicBusy, TopicExists, TopicNotFound
from goqueue.limits import (
    DELAY_SECONDS_MAX,
    FRAME_HEADER_BYTES,
    MESSAGE_HEADERS_MAX,
    MIB,
    PARTITIONS_MAX,
    PUBLISH_MESSAGES_MAX,
)
from goqueue.quantities import format_duration, format_time
from goqueue.storage import frame

HeaderText = str | EncodedText
Acks = Literal["none", "leader", "all"]
_MESSAGES_AT_ONCE = 1_000  # made into frames or answers in one turn of the loop: some milliseconds
_BYTES_AT_ONCE = MIB  # of values, the same
_PRIORITIES = {name: number for number, name in enumerate(frame.PRIORITIES)}


class PublishQuery(msgspec.Struct, forbid_unknown_fields=True):
    acks: Annotated[
        Acks,
        msgspec.Meta(description="When to answer: before it is stored, when it is on disk here, or on all replicas."),
    ] = "leader"
    producer_id: Annotated[
        ProducerId | None, msgspec.Meta(description="Publish in the open transaction of this producer.")
    ] = None
    epoch: Epoch | None = None
    begin: Annotated[bool, msgspec.Meta(description="Begin the transaction, if it has not begun.")] = False


class OutgoingMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message to be published."""

    value: Annotated[str | None, msgspec.Meta(description="null with a key says that what the key had is gone.")]
    key: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)] | None = None
    headers: dict[str, HeaderText | Annotated[list[HeaderText], msgspec.Meta(min_length=1)]] | None = None
    """A name that is to come more than once has a list."""
    priority: Priority | None = None
    encoding: Annotated[Encoding | None, msgspec.Meta(description="How the value's bytes are written.")] = None
    key_encoding: Annotated[Encoding | None, msgspec.Meta(description="How the key's bytes are written.")] = None
    delay: Annotated[DelayTime | None, msgspec.Meta(description="How long it waits before it is delivered.")] = None
    deliver_at: Annotated[DueTime | None, msgspec.Meta(description="When it is delivered, instead of a delay.")] = None
    deliverAt: Annotated[DueTime | None, msgspec.Meta(description="Another way to write deliver_at.")] = None  # noqa: N815


class PublishRequest(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[OutgoingMessage], msgspec.Meta(min_length=1, max_length=PUBLISH_MESSAGES_MAX)]


class Published(msgspec.Struct):
    """What became of one message, or of the frames of one partition. Offsets are null where the answer did not wait."""

    partition: int
    offset: int | msgspec.UnsetType | None = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    delayed: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether it waits for its time; then the offsets are those of the delayed log."""
    deliver_at: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="deliverAt")
    first_offset: int | msgspec.UnsetType | None = msgspec.UNSET
    next_offset: int | msgspec.UnsetType | None = msgspec.UNSET
    timestamp: str | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether these frames had been stored before."""
    pieces: list[tuple[int, int]] | msgspec.UnsetType = msgspec.UNSET
    """The ranges of offsets, where a crash has left them in more than one."""
    error: ErrorBody | msgspec.UnsetType = msgspec.UNSET


class PublishAnswer(msgspec.Struct):
    results: list[Published]


async def publish(call: Call) -> PublishAnswer:
    """Store messages, and say where."""
    whose = _whose(call.query)
    if whose is not None:
        call.runtime.broker.transactions.current(whose)  # before a topic is made for nothing
    topic = await topic_named(call, call.parameters["topic"])
    publication = _publish_frames if is_frames(call.request) else _publish_messages
    return PublishAnswer(await publication(call, topic, whose))


def _whose(query: PublishQuery) -> Whose | None:
    """The transaction that is meant, if one is."""
    if query.producer_id is not None and query.epoch is not None:
        return Whose(query.producer_id, query.epoch)
    if query.producer_id is None and query.epoch is None and not query.begin:
        return None
    missing = "epoch" if query.epoch is None and query.producer_id is not None else "producer_id"
    problem = {"place": missing, "problem": "is missing: a transaction is named by producer_id and epoch"}
    raise RequestInvalid(f"{missing} {problem['problem']}", hint="give both, or neither", problems=[problem])


async def topic_named(call: Call, name: str) -> Topic:
    """The topic, which is made if it is to be made by whoever publishes to it first."""
    creating = call.app.creating
    try:
        return call.runtime.broker.for_publishing(name)
    except TopicNotFound:
        if not call.app.auto_create:
            raise
        if name not in creating:
            making = call.runtime.create_topic(new_topic(call.app, name, None, {}))
            creating[name] = asyncio.ensure_future(making)
            creating[name].add_done_callback(lambda _: creating.pop(name, None))
    except TopicBusy:
        if name not in creating:
            raise
    try:
        return await asyncio.shield(creating[name])  # others wait for it, should the first one leave
    except TopicExists:  # made by somebody who did not publish
        return call.runtime.broker.for_publishing(name)


# --- JSON ---

_Offered = asyncio.Future[Placement] | GoQueueError
_Target = tuple[Partition, bool]
"""A partition, and whether its delayed log is meant."""


class _Content(NamedTuple):
    """What a message comes to."""

    partition: Partition | None
    """The one that it names."""
    due_ns: int | None
    key: bytes | None
    frame: bytes


async def _publish_messages(call: Call, topic: Topic, whose: Whose | None) -> list[Published]:
    messages: list[OutgoingMessage] = call.body.messages
    encoder = _Encoder(topic, call.runtime.clock.now_ns(), is_transactional=whose is not None)
    if len(messages) <= _MESSAGES_AT_ONCE and len(call.request.body) <= _BYTES_AT_ONCE:
        contents = encoder.encode_all(messages)
    else:
        contents = await _encode_in_turns(messages, encoder)
    targets = [(one.partition or topic.place(one.key), one.due_ns is not None) for one in contents]
    batches: dict[_Target, list[bytes]] = {}
    places: list[int] = []
    for target, content in zip(targets, contents, strict=True):
        batch = batches.setdefault(target, [])
        places.append(len(batch))
        batch.append(content.frame)
    if whose is None:
        answers = {one: _offer(call, one, frames) for one, frames in batches.items()}
    else:
        answers = await _offer_in(call, topic, whose, batches)
    outcomes = {one: await _outcome(answer, call) for one, answer in answers.items()}
    _refuse_if_all_failed(list(outcomes.values()))
    stored = zip(messages, contents, targets, places, strict=True)
    results: list[Published] = []
    while some := [
        _published(message, content, target[0], place, outcomes[target])
        for message, content, target, place in islice(stored, _MESSAGES_AT_ONCE)
    ]:
        results += some
        if len(results) == len(messages):
            break
        await asyncio.sleep(0)
    return results


async def _encode_in_turns(messages: list[OutgoingMessage], encoder: "_Encoder") -> list[_Content]:
    """What each message comes to. Many, or large ones, take several turns of the loop."""
    start = size = 0
    with suppress(Enough):
        for end, message in enumerate(messages, 1):
            size += len(message.value or "")
            if end - start == _MESSAGES_AT_ONCE or size > _BYTES_AT_ONCE:
                encoder.encode(start, messages[start:end])
                start, size = end, 0
                await asyncio.sleep(0)
        encoder.encode(start, messages[start:])
    return encoder.finish()


def _offer(call: Call, target: _Target, frames: list[bytes]) -> _Offered:
    partition, is_delayed = target
    try:
        chosen = inbox(call, partition) if is_delayed else partition
        return call.runtime.offer(chosen, frames, sum(map(len, frames)))
    except GoQueueError as error:  # others may have been taken already
        return error.without_frames()


def inbox(call: Call, partition: Partition) -> Partition:
    """Where messages for this one wait for their time."""
    return call.runtime.broker.scheduling(partition).delays.inbox


async def _offer_in(
    call: Call, topic: Topic, whose: Whose, batches: dict[_Target, list[bytes]]
) -> dict[_Target, _Offered]:
    """The same in a transaction, once it is durable that it touches all of them."""
    spots = [Spot(topic.name, partition.number, is_delayed) for partition, is_delayed in batches]
    await enlist(call, whose, spots)
    notary = call.runtime.notary
    answers: dict[_Target, _Offered] = {}
    for (partition, is_delayed), frames in batches.items():
        chosen = inbox(call, partition) if is_delayed else partition
        answers[partition, is_delayed] = await notary.offer(whose, chosen, frames)
    return answers


async def enlist(call: Call, whose: Whose, spots: Iterable[Spot]) -> None:
    coordinator = call.runtime.broker.transactions
    await call.runtime.decide(coordinator.enlist(whose, spots, begin=call.query.begin))


def understood(message: OutgoingMessage, topic: Topic, now_ns: int) -> _Content:
    """What one message of a transaction comes to; or a refusal."""
    return _Encoder(topic, now_ns, is_transactional=True).encode_all([message])[0]


class _Encoder:
    """Makes frames of messages; `finish` refuses them all if one of them is wrong."""

    __slots__ = ("_contents", "_flags", "_now_ns", "_report", "_topic", "_unfit")

    def __init__(self, topic: Topic, now_ns: int, *, is_transactional: bool) -> None:
        self._topic = topic
        self._now_ns = now_ns
        self._flags = frame.TRANSACTIONAL if is_transactional else 0
        self._report = Report("the body")
        self._unfit: GoQueueError | None = None
        self._contents: list[_Content] = []

    def encode(self, first: int, messages: Iterable[OutgoingMessage]) -> None:
        """Encode some messages, of which the first has this number. Raises Enough where too much is wrong with them."""
        topic, report, most = self._topic, self._report, self._topic.settings.max_message_bytes
        for number, message in enumerate(messages, first):
            place = Place(number, Place("messages", ROOT))
            try:
                partition = None if message.partition is None else topic.partition(message.partition)
                due_ns = _due(message, place, self._now_ns, report)
                key, content = _encoded(message, place, due_ns, most, self._flags, report)
                self._contents.append(_Content(partition, due_ns, key, content))
            except GoQueueError as error:
                error.details.setdefault("place", str(place))
                self._unfit = self._unfit or error

    def encode_all(self, messages: list[OutgoingMessage]) -> list[_Content]:
        """The same in one go, with `finish`."""
        with suppress(Enough):
            self.encode(0, messages)
        return self.finish()

    def finish(self) -> list[_Content]:
        """What each message comes to; or a refusal, before any is stored."""
        if self._report.problems:
            raise self._report.refusal()
        if self._unfit is not None:
            raise self._unfit
        return self._contents


def _due(message: OutgoingMessage, place: Place, now_ns: int, report: Report) -> int | None:
    """When the message is due; None where it does not wait."""
    if message.delay is None and message.deliver_at is None and message.deliverAt is None:
        return None
    times = {"deliver_at": message.deliver_at, "deliverAt": message.deliverAt}
    said = [name for name, time in times.items() if time is not None and time != UNSAID]
    if message.delay:
        said.insert(0, "delay")
    if len(said) > 1:
        report.add(Place(said[1], place), f"stands beside {said[0]}: only one of them can be meant", "leave one away")
    if message.delay:
        return now_ns + round(message.delay * NANOSECONDS)
    if not said:
        return None
    due = times[said[0]] or 0
    if due > now_ns + round(DELAY_SECONDS_MAX * NANOSECONDS):
        most = format_duration(DELAY_SECONDS_MAX)
        report.add(Place(said[0], place), f"is {format_time(due)}, more than {most} ahead", "schedule it later")
    return max(int(due), now_ns)  # nobody is late for what is said afterwards


def _encoded(
    message: OutgoingMessage, place: Place, due_ns: int | None, most: int, flags: int, report: Report
) -> tuple[bytes | None, bytes]:
    key, value = None, b""
    if message.key is not None:
        key = _bytes(message.key, message.key_encoding, Place("key", place), report)
    if message.value is not None:
        value = _bytes(message.value, message.encoding, Place("value", place), report)
    elif message.key:
        flags |= frame.TOMBSTONE
    else:
        report.add(Place("value", place), "is null, which needs a key: it says that what the key had is gone")
    headers = list(_headers(message.headers, Place("headers", place), report)) if message.headers else []
    if due_ns is not None:
        headers.insert(0, delay.deliver_at(due_ns))
        most += delay.HEADER_BYTES
    encoded = frame.encode_headers(headers) if headers else frame.NO_HEADERS
    content = frame.encode(value, key, encoded, priority=_priority(message), flags=flags)
    if (size := len(content) - FRAME_HEADER_BYTES) > most:
        raise too_large(size, most)
    return key, content


def _bytes(text: str, encoding: Encoding | None, place: Place, report: Report) -> bytes:
    try:
        return to_bytes(text, encoding)
    except ValueError as error:
        report.add(place, f"is not base64: {error}")
        return b""


def _headers(headers: "dict[str, Any]", place: Place, report: Report) -> Iterator[tuple[str, bytes]]:
    count = sum(len(texts) if isinstance(texts, list) else 1 for texts in headers.values())
    if count > MESSAGE_HEADERS_MAX:
        report.add(place, f"has {count:,} values, at most {MESSAGE_HEADERS_MAX} are allowed", "send less in headers")
        return
    for name, texts in headers.items():
        if name.startswith(RESERVED_HEADER_PREFIX):
            report.add(Place(name, place), "begins with __, which is kept for the broker", "rename it")
        for text in texts if isinstance(texts, list) else (texts,):
            if isinstance(text, str):
                yield name, text.encode()
            else:
                yield name, _bytes(text.value, text.encoding, Place(name, place), report)


def _priority(message: OutgoingMessage) -> int:
    if message.priority is None:
        return frame.NORMAL
    return _PRIORITIES[message.priority] if isinstance(message.priority, str) else message.priority


async def _outcome(answer: _Offered, call: Call) -> Placement | GoQueueError | None:
    """What became of it; None where nobody wants to wait for that, and it is not known yet."""
    if isinstance(answer, GoQueueError):
        return answer
    if call.query.acks == "none" and not answer.done():
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody is told
        return None
    try:
        return await answer
    except GoQueueError as error:
        return error.without_frames()


def _refuse_if_all_failed(outcomes: Sequence[Placement | GoQueueError | None]) -> None:
    """Nothing was stored: then the request has failed, and not only its parts."""
    if all(isinstance(outcome, GoQueueError) for outcome in outcomes):
        raise cast(GoQueueError, outcomes[0])


def _published(
    message: OutgoingMessage,
    content: _Content,
    partition: Partition,
    number: int,
    outcome: Placement | GoQueueError | None,
) -> Published:
    is_delayed = content.due_ns is not None
    due = format_time(content.due_ns) if content.due_ns is not None else msgspec.UNSET
    given = (_priority(message), is_delayed, due)
    if isinstance(outcome, GoQueueError):
        return Published(partition.number, None, *given, error=ErrorBody(**told(outcome)))
    return Published(partition.number, None if outcome is None else outcome.first_offset + number, *given)


# --- frames ---


async def _publish_frames(call: Call, topic: Topic, whose: Whose | None) -> list[Published]:
    check_sum(call.request)
    found = list(sections(call.request.body))
    if not found:
        problem = {"place": "", "problem": "is empty: at least one section of frames belongs there"}
        raise RequestInvalid(f"the body {problem['problem']}", problems=[problem])
    if whose is not None:
        numbers = [(topic.partition(number).number, is_delayed) for number, is_delayed, _ in found]
        await enlist(call, whose, [Spot(topic.name, *one) for one in numbers])
    answers, size = list[tuple[int, bool, _Offered]](), 0
    for number, is_delayed, content in found:
        if (size := size + len(content)) > _BYTES_AT_ONCE:  # several small ones are as much as a large one
            size = 0
            await asyncio.sleep(0)
        answers.append((number, is_delayed, await _hand_over(call, topic, whose, number, is_delayed, content)))
    outcomes = [(number, is_delayed, await _outcome(answer, call)) for number, is_delayed, answer in answers]
    if len(outcomes) == 1:
        _refuse_if_all_failed([outcomes[0][2]])
    return [_section(*one) for one in outcomes]


async def _hand_over(
    call: Call, topic: Topic, whose: Whose | None, number: int, is_delayed: bool, content: memoryview
) -> _Offered:
    if len(content) * 2 < len(call.request.body):  # frames stay in memory for readers, and with a view all of the body
        content = memoryview(bytearray(content))
    try:
        partition = topic.partition(number)
        if is_delayed:
            partition = inbox(call, partition)
        if whose is not None:
            return await call.runtime.notary.publish(whose, partition, content, topic.settings.max_message_bytes)
        return await call.runtime.publish(partition, content, topic.settings.max_message_bytes)
    except GoQueueError as error:
        return error.without_frames()


def _section(number: int, is_delayed: bool, outcome: Placement | GoQueueError | None) -> Published:
    delayed = is_delayed or msgspec.UNSET
    if outcome is None:
        return Published(number, delayed=delayed, first_offset=None, next_offset=None)
    if isinstance(outcome, GoQueueError):
        return Published(number, delayed=delayed, error=ErrorBody(**told(outcome)))
    return Published(
        number,
        delayed=delayed,
        first_offset=outcome.first_offset,
        next_offset=outcome.next_offset,
        timestamp=format_time(outcome.time_ns),
        duplicate=outcome.duplicate,
        pieces=msgspec.UNSET if len(outcome.pieces) == 1 else list(outcome.pieces),
    )
