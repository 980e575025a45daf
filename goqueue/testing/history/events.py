"""What a process of a run can see.

An event that ends in -ing is written before its request is sent, every other one after its answer has come. So the
broker did what was asked at some time between the two, and of a request without an answer nobody knows whether it did.
"""

from typing import Literal

import msgspec

Isolation = Literal["read_committed", "read_uncommitted"]


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    repr_omit_defaults=True,
    tag_field="event",
    tag=str.lower,
):
    """Something that one process saw."""

    at_ns: int = 0
    """The monotonic clock of the machine, which all its processes share; 0 is stamped when the event is recorded."""
    process: str = ""


class Publishing(Event, frozen=True):
    """A producer is about to send a value that nothing else in the run has."""

    producer: str
    topic: str
    key: str
    value_id: str
    transaction: str = ""
    """The one that it is sent in; nothing where there is none."""


class Published(Event, frozen=True):
    """The broker has answered: the message is durable, at this place. If it is sent in a transaction, that may still
    be aborted."""

    value_id: str
    topic: str
    partition: int
    offset: int


class Scheduled(Event, frozen=True):
    """The broker has answered that a delayed message is durable: it comes into the log of its topic later."""

    value_id: str
    topic: str


class Joined(Event, frozen=True):
    """A member learned its assignment in a generation, the first one or a new one."""

    group: str
    member: str
    generation: int
    assigned: tuple[tuple[str, int], ...]


class Left(Event, frozen=True):
    """A member gave everything up, or was told that it is none any more."""

    group: str
    member: str


class Received(Event, frozen=True):
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


class Settling(Event, frozen=True):
    """What a member says about the offsets from `first` up to, and without, `end`."""

    group: str
    member: str
    topic: str
    partition: int
    first: int
    end: int


class Ack(Settling, frozen=True):
    """That the messages are done with, or will be when a transaction is committed."""

    transaction: str = ""
    """The one that the ack is part of; nothing where there is none."""


class Acking(Ack, frozen=True):
    """About to send an ack."""


class Acked(Ack, frozen=True):
    """The broker has answered: the ack is durable."""


class Nacked(Settling, frozen=True):
    """The broker has answered a nack: the messages come again."""


class Rejecting(Settling, frozen=True):
    """About to send a reject."""


class Rejected(Settling, frozen=True):
    """The messages are dead letters: a reject was answered, or somebody read them in the dead letter topic."""


class Owned(Event, frozen=True):
    """The description of a group says that a partition is this member's."""

    group: str
    generation: int
    member: str
    topic: str
    partition: int


class Begun(Event, frozen=True):
    """From here on things are sent in a transaction. No other one of the run has its name, whoever tries it again."""

    transaction: str
    producer: str


class Committing(Event, frozen=True):
    """About to ask that all that was sent in a transaction be committed; everything, or the request fails."""

    transaction: str


class Committed(Event, frozen=True):
    """The broker has answered that it is committed."""

    transaction: str


class Aborted(Event, frozen=True):
    """The broker has answered that it is aborted: to an abort, or to a commit that it refused for that."""

    transaction: str


class Seen(Event, frozen=True):
    """A plain read found a message while the run was under way. A reader begins at the beginning of a log."""

    reader: str
    topic: str
    partition: int
    offset: int
    value_id: str
    isolation: Isolation = "read_committed"


class Stored(Event, frozen=True):
    """A plain read of the whole log, at the end of the run, found a message; aborted ones are none."""

    topic: str
    partition: int
    offset: int
    value_id: str


class End(Event, frozen=True):
    """That read has come to the end of the log: no message is at or above `end_offset`."""

    topic: str
    partition: int
    end_offset: int


class Damaged(Event, frozen=True):
    """The bytes of a message were changed on purpose, and the broker names the place as damaged: it may be missing."""

    topic: str
    partition: int
    offset: int
    value_id: str


class Settled(Event, frozen=True):
    """The committed offset of a group, after everything was drained."""

    group: str
    topic: str
    partition: int
    floor: int


EVENTS = (
    Publishing,
    Published,
    Scheduled,
    Joined,
    Left,
    Received,
    Acking,
    Acked,
    Nacked,
    Rejecting,
    Rejected,
    Owned,
    Begun,
    Committing,
    Committed,
    Aborted,
    Seen,
    Stored,
    End,
    Damaged,
    Settled,
)


def in_order_of_time(event: Event) -> int:
    """A key to sort by. Events of one time stay as they were written."""
    return event.at_ns
