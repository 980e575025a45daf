"""Messages in publish requests, and their translation to frames. The broker's admission has the rules."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from goqueue.api.fields import NOT_GIVEN, DelayTime, DueTime, PartitionNumber
from goqueue.api.message_json import EncodedText, Encoding, Priority, to_bytes
from goqueue.api.problems import ROOT, FieldPath, ProblemReport, TooManyProblems
from goqueue.broker.core import admission, delay_headers
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import PUBLISH_MESSAGES_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame

_MESSAGES = FieldPath("messages", ROOT)
_PRIORITIES = {name: number for number, name in enumerate(frame.PRIORITIES)}


class EncodedHeader(EncodedText, omit_defaults=True):
    """The value of a header, as bytes or as text."""


HeaderText = str | EncodedHeader


class OutgoingMessage(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message to publish."""

    value: Annotated[str | None, Meta(description="null with a key deletes the key (a tombstone).")]
    key: str | None = None
    partition: PartitionNumber | None = None
    headers: dict[str, HeaderText | Annotated[list[HeaderText], Meta(min_length=1)]] | None = None
    """A repeated name has a list."""
    priority: Priority | None = None
    encoding: Annotated[Encoding | None, Meta(description="The encoding of the value.")] = None
    key_encoding: Annotated[Encoding | None, Meta(description="The encoding of the key.")] = None
    delay: Annotated[DelayTime | None, Meta(description="Time to wait before delivery.")] = None
    deliver_at: Annotated[DueTime | None, Meta(description="Delivery time, instead of a delay.")] = None
    deliverAt: Annotated[DueTime | None, Meta(description="Another name of deliver_at.")] = None  # noqa: N815


class PublishRequest(Struct, forbid_unknown_fields=True):
    messages: Annotated[list[OutgoingMessage], Meta(min_length=1, max_length=PUBLISH_MESSAGES_MAX)]


class EncodedMessage(NamedTuple):
    """A message as a frame, and where it goes."""

    partition: Partition | None
    """The partition in the request, if it has one."""
    due_ns: int | None
    key: bytes | None
    frame: bytes


class MessageEncoder:
    """Makes frames of messages; `finish` refuses them all if one of them is invalid."""

    __slots__ = ("_encoded", "_error", "_flags", "_now_ns", "_report", "_topic")

    def __init__(self, topic: Topic, now_ns: int, *, is_transactional: bool) -> None:
        self._topic = topic
        self._now_ns = now_ns
        self._flags = frame.TRANSACTIONAL if is_transactional else 0
        self._report = ProblemReport("the body")
        self._error: GoQueueError | None = None
        self._encoded: list[EncodedMessage] = []

    def encode(self, first: int, messages: Iterable[OutgoingMessage]) -> None:
        """Encode messages; `first` is the index of the first one. Raises TooManyProblems."""
        topic, report, bytes_max = self._topic, self._report, self._topic.settings.max_message_bytes
        for number, message in enumerate(messages, first):
            place = FieldPath(number, _MESSAGES)
            try:
                partition = None if message.partition is None else topic.partition(message.partition)
                due_ns = _due(message, place, self._now_ns, report)
                key, content = _encode(message, place, due_ns, bytes_max, self._flags, report)
                self._encoded.append(EncodedMessage(partition, due_ns, key, content))
            except GoQueueError as error:
                error.details.setdefault("place", str(place))
                self._error = self._error or error

    def encode_all(self, messages: list[OutgoingMessage]) -> list[EncodedMessage]:
        try:
            self.encode(0, messages)
        except TooManyProblems:
            raise self._report.refusal() from None
        return self.finish()

    def finish(self) -> list[EncodedMessage]:
        """Return all messages, or raise an error before any is stored."""
        if self._report.problems:
            raise self._report.refusal()
        if self._error is not None:
            raise self._error
        return self._encoded


def priority_of(message: OutgoingMessage) -> int:
    if message.priority is None:
        return frame.NORMAL
    return _PRIORITIES[message.priority] if isinstance(message.priority, str) else message.priority


def _due(message: OutgoingMessage, place: FieldPath, now_ns: int, report: ProblemReport) -> int | None:
    """Return the delivery time, or None for a message without a delay."""
    if message.delay is None and message.deliver_at is None and message.deliverAt is None:
        return None
    times = {"deliver_at": message.deliver_at, "deliverAt": message.deliverAt}
    given = [name for name, time in times.items() if time is not None and time != NOT_GIVEN]
    if message.delay:
        given.insert(0, "delay")
    if len(given) > 1:
        report.add(FieldPath(given[1], place), f"cannot be combined with {given[0]}", "give one of the two")
    if message.delay:
        return now_ns + round(message.delay * NANOSECONDS)
    if not given:
        return None
    due_ns = int(times[given[0]] or 0)
    if problem := delay_headers.due_problem(due_ns - now_ns):
        report.add(FieldPath(given[0], place), f"is {format_time(due_ns)}, which {problem}", "schedule it earlier")
    return max(due_ns, now_ns)  # the past means now, so that no message counts as late


def _encode(
    message: OutgoingMessage, place: FieldPath, due_ns: int | None, bytes_max: int, flags: int, report: ProblemReport
) -> tuple[bytes | None, bytes]:
    key, value = None, b""
    if message.key is not None:
        key = _bytes(message.key, message.key_encoding, "key", place, report)
    if message.value is not None:
        value = _bytes(message.value, message.encoding, "value", place, report)
    elif message.key:
        flags |= frame.TOMBSTONE
    else:
        report.add(FieldPath("value", place), f"is null, {admission.TOMBSTONE_NEEDS_KEY}")
    headers = list(_headers(message.headers, FieldPath("headers", place), report)) if message.headers else []
    return key, admission.encode_message(value, key, headers, priority_of(message), flags, due_ns, bytes_max)


def _bytes(text: str, encoding: Encoding | None, name: str, place: FieldPath, report: ProblemReport) -> bytes:
    if encoding is None and isinstance(text, str):
        return text.encode()
    try:
        return to_bytes(text, encoding)
    except ValueError as error:
        report.add(FieldPath(name, place), f"is not base64: {error}")
        return b""


def _headers(headers: "dict[str, Any]", place: FieldPath, report: ProblemReport) -> Iterator[tuple[str, bytes]]:
    count = sum(len(texts) if isinstance(texts, list) else 1 for texts in headers.values())
    if problem := admission.header_count_problem(count):
        report.add(place, problem, "send fewer headers")
        return
    for name, texts in headers.items():
        if problem := admission.header_name_problem(name):
            report.add(FieldPath(name, place), problem, "rename it")
        for text in texts if isinstance(texts, list) else (texts,):
            if isinstance(text, str):
                yield name, text.encode()
            else:
                yield name, _bytes(text.value, text.encoding, name, place, report)
