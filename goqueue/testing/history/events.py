"""The events of a history: what a process of a run can see.

An event that ends in -ing is written before its request is sent, every other one after its answer has come. So the
broker did what was asked at some time between the two, and a request without an answer may have taken effect or not.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Literal, Self, Union

import msgspec

from goqueue.clock import Clock, SystemClock

Isolation = Literal["read_committed", "read_uncommitted"]


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    repr_omit_defaults=True,
    tag_field="event",
    tag=lambda name: name.removesuffix("Event").lower(),
):
    """Something that one process saw."""

    at_ns: int = 0
    """The monotonic clock of the machine, which all its processes share; 0 is stamped when the event is recorded."""
    process: str = ""


class PublishSentEvent(Event, frozen=True):
    """A producer is about to send a value that nothing else in the run has."""

    producer: str
    topic: str
    key: str
    value_id: str
    transaction: str = ""
    """The one that it is sent in; nothing where there is none."""


class PublishedEvent(Event, frozen=True):
    """The broker has answered: the message is durable, at this place. If it is sent in a transaction, that may still
    be aborted."""

    value_id: str
    topic: str
    partition: int
    offset: int


class ScheduledEvent(Event, frozen=True):
    """The broker has answered that a delayed message is durable: it comes into the log of its topic later."""

    value_id: str
    topic: str


class JoinedEvent(Event, frozen=True):
    """A member learned its assignment in a generation, the first one or a new one."""

    group: str
    member: str
    generation: int
    assigned: tuple[tuple[str, int], ...]


class LeftEvent(Event, frozen=True):
    """A member gave everything up, or was told that it is none any more."""

    group: str
    member: str


class ReceivedEvent(Event, frozen=True):
    """A poll handed a message to the application."""

    group: str
    member: str
    generation: int
    topic: str
    partition: int
    offset: int
    attempt: int
    value_id: str
    asked_ns: int = 0
    """When the poll was sent. What it brought was decided after that, so it tells more than when it arrived."""
    isolation: Isolation = "read_committed"
    """That of the group."""

    @property
    def since_ns(self) -> int:
        """The earliest time at which the broker can have decided on this delivery."""
        return self.asked_ns or self.at_ns


class SettlementEvent(Event, frozen=True):
    """A settlement of the offsets from `first` up to, not including, `end`."""

    group: str
    member: str
    topic: str
    partition: int
    first: int
    end: int


class AckEvent(SettlementEvent, frozen=True):
    """That the messages are done with, or will be when a transaction is committed."""

    transaction: str = ""
    """The one that the ack is part of; nothing where there is none."""


class AckSentEvent(AckEvent, frozen=True):
    """About to send an ack."""


class AckedEvent(AckEvent, frozen=True):
    """The broker has answered: the ack is durable."""


class NackedEvent(SettlementEvent, frozen=True):
    """The broker has answered a nack: the messages come again."""


class RejectSentEvent(SettlementEvent, frozen=True):
    """About to send a reject."""


class RejectedEvent(SettlementEvent, frozen=True):
    """The messages are dead letters: a reject was answered, or a client read them in the dead letter topic."""


class OwnedEvent(Event, frozen=True):
    """The description of a group says that a partition is this member's."""

    group: str
    generation: int
    member: str
    topic: str
    partition: int


class BegunEvent(Event, frozen=True):
    """The beginning of a transaction. No other one of the run has its name, even when it is retried."""

    transaction: str
    producer: str


class CommitSentEvent(Event, frozen=True):
    """About to ask that all that was sent in a transaction be committed; everything, or the request fails."""

    transaction: str


class CommittedEvent(Event, frozen=True):
    """The broker has answered that it is committed."""

    transaction: str


class AbortedEvent(Event, frozen=True):
    """The broker has answered that it is aborted: to an abort, or to a commit that it refused for that."""

    transaction: str


class SeenEvent(Event, frozen=True):
    """A plain read found a message while the run was under way. A reader begins at the beginning of a log."""

    reader: str
    topic: str
    partition: int
    offset: int
    value_id: str
    isolation: Isolation = "read_committed"


class StoredEvent(Event, frozen=True):
    """A plain read of the whole log, at the end of the run, found a message; aborted ones are none."""

    topic: str
    partition: int
    offset: int
    value_id: str


class EndEvent(Event, frozen=True):
    """That read has come to the end of the log: no message is at or above `end_offset`."""

    topic: str
    partition: int
    end_offset: int


class DamagedEvent(Event, frozen=True):
    """The bytes of a message were changed on purpose, and the broker names the place as damaged: it may be missing."""

    topic: str
    partition: int
    offset: int
    value_id: str


class SettledEvent(Event, frozen=True):
    """The committed offset of a group, after everything was drained."""

    group: str
    topic: str
    partition: int
    floor: int


def _kinds(base: type[Event]) -> list[type[Event]]:
    return [kind for child in base.__subclasses__() for kind in _kinds(child)] or [base]


EVENTS = tuple(_kinds(Event))


def in_order_of_time(event: Event) -> int:
    """A key to sort by. Events of one time stay as they were written."""
    return event.at_ns


# --- files of a run ---


Path = str | os.PathLike[str]

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[EVENTS])  # noqa: UP007 - of a tuple
_NAMES: dict[type[Event], list[str]] = {
    kind: [field.name for field in msgspec.structs.fields(kind) if field.type is str and field.name != "value_id"]
    for kind in EVENTS
}


class Recorder:
    """Writes what one process sees into a new file of its own.

    When `record` returns, the kernel has the lines: killing the process does not lose them.
    """

    def __init__(self, path: Path, process: str, clock: Clock | None = None) -> None:
        self._process = process
        self._clock = clock or SystemClock()
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - open until `close`

    def record(self, *events: Event) -> None:
        """Write events down, with one write for all of them; those without a time get the present one."""
        now = self._clock.monotonic_ns()
        stamped = (msgspec.structs.replace(one, at_ns=one.at_ns or now, process=self._process) for one in events)
        self._file.write(b"".join(_encoder.encode(one) + b"\n" for one in stamped))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(paths: Iterable[Path]) -> list[Event]:
    """All events of a run in the order of time. A file may end in a torn line: its writer was killed."""
    events = [event for path in paths for event in _read(path)]
    events.sort(key=in_order_of_time)
    return events


def _read(path: Path) -> Iterator[Event]:
    words: dict[str, str] = {}
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _shared(_decoder.decode(line), words)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if line.endswith(b"\n"):
                    raise ValueError(f"line {number} of {os.fspath(path)} is not an event: {error}") from error


def _shared(event: Event, words: dict[str, str]) -> Event:
    """The names in it are those of the events before: they would take half of the memory of a history."""
    for field in _NAMES[type(event)]:
        word = getattr(event, field)
        msgspec.structs.force_setattr(event, field, words.setdefault(word, word))
    return event


# --- names in the sentences of violations ---


def describe_place(event: PublishedEvent | StoredEvent | ReceivedEvent | SeenEvent) -> str:
    return f"{event.topic}/{event.partition}/{event.offset}"


def describe_others(count: int) -> str:
    """Return what else there is of a list of which one was told."""
    return f", and {count - 1:,} other{'s' if count > 2 else ''}" if count > 1 else ""


def describe_finder(event: StoredEvent | ReceivedEvent | SeenEvent) -> str:
    """That a value was found somewhere, and by whom."""
    if isinstance(event, ReceivedEvent):
        return f"{event.member} received {event.value_id} at {describe_place(event)}"
    if isinstance(event, SeenEvent):
        return f"{event.reader} read {event.value_id} at {describe_place(event)}"
    return f"{describe_place(event)} holds {event.value_id}"
