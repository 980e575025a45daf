"""The common parts of a group run's processes: their job, their end, their record.

A process ends when its standard input does, so none outlives the test that started it. It writes a line whenever it got
on with its work: a client that wants to kill it in the middle of something waits for such lines.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Self

from goqueue.client import Batch, Delivered
from goqueue.client.consumer_core import ConsumerCore
from goqueue.client.lease import OffsetRanges
from goqueue.testing.history.events import (
    AckedEvent,
    AckSentEvent,
    Event,
    Isolation,
    JoinedEvent,
    LeftEvent,
    NackedEvent,
    ReceivedEvent,
    Recorder,
    RejectSentEvent,
)

NACK_SECONDS = 0.05


@dataclass(frozen=True)
class Job:
    """The job of one process."""

    url: str
    topic: str
    group: str
    history: str = ""
    """The file that it writes what it sees into: a new one for each life."""
    name: str = ""
    seed: str = ""
    style: str = "batches"
    members: int = 1
    """How many members of the group it is."""
    visibility: str = "30s"
    session: str = "30s"
    protocol: str = "cooperative"
    order: str = "none"
    nacks: float = 0.0
    """The part of its messages that it nacks."""
    rejects: float = 0.0
    quits: bool = False
    """Whether its members leave after a while, and others come."""
    forgives: bool = True
    """Whether something may come too late, because its lease was over or its membership was."""
    transactional_id: str = ""
    timeout: str = "60s"
    """Of a transaction of which nothing is heard."""
    aborts: float = 0.0
    """The part of its transactions that it aborts."""
    isolation: Isolation = "read_committed"
    patience: float = 120.0
    """Seconds that it goes on without an answer: a broker that is killed all the time is away a lot."""
    mixed: bool = False
    """Whether it also publishes delayed messages, and single ones as JSON."""
    priorities: bool = False
    """Whether its messages have all priorities."""
    skip_damage: bool = False
    """Whether it passes over damaged messages; otherwise one ends it."""

    @property
    def consumer_options(self) -> dict[str, Any]:
        """The options of its consumers but their name and what they do with assignments."""
        return {
            "session_timeout": self.session,
            "visibility_timeout": self.visibility,
            "protocol": self.protocol,
            "order": self.order,
            "skip_damage": self.skip_damage,
        }

    def to_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls) -> Self:
        return cls(**json.loads(sys.argv[1]))


def when_told_to_end(end: Callable[[], object]) -> None:
    """Call `end`, on another thread, when the standard input ends."""

    def wait() -> None:
        sys.stdin.read()
        end()

    threading.Thread(target=wait, daemon=True).start()


def tell() -> None:
    """Something was done."""
    sys.stdout.write(".\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that returned messages, as its member knows it."""

    asked_ns: int
    generation: int
    """That of the group when the messages were handed out: the one that the answer names."""
    member: str


class Watch:
    """Writes down what one consumer sees."""

    def __init__(self, seen: Recorder, group: str) -> None:
        self._seen = seen
        self._group = group
        self._known: tuple[str, int, tuple[tuple[str, int], ...]] | None = None
        self._polls: dict[str, Poll] = {}
        self._unanswered: list[Event] = []
        """What is to be recorded when all that was said is durable."""

    def polled(self, leases: Iterable[str], poll: Poll) -> None:
        for lease in leases:
            self._polls[lease] = poll

    def assigned(self, consumer: ConsumerCore) -> None:
        """Record a new assignment. Called where it does not change, by the iterating thread."""
        member = consumer.member_id
        assert member is not None
        places = tuple((place.topic, place.partition) for place in consumer.assignment)
        now = member, consumer.generation, places
        if now == self._known:
            return
        if self._known is not None and self._known[0] != member:
            self._seen.record(LeftEvent(self._group, self._known[0]))
        self._known = now
        self._seen.record(JoinedEvent(self._group, member, consumer.generation, places))

    def left(self) -> None:
        if self._known is not None:
            self._seen.record(LeftEvent(self._group, self._known[0]))

    def received(self, consumer: ConsumerCore, messages: Iterable[Delivered]) -> None:
        self.assigned(consumer)
        self._seen.record(*(self._received(message) for message in messages))

    def _received(self, message: Delivered) -> ReceivedEvent:
        poll = self._polls[message._lease.held.leased.lease]
        value = (message.value or b"").decode()
        place = message.topic, message.partition, message.offset
        return ReceivedEvent(self._group, poll.member, poll.generation, *place, message.attempt, value, poll.asked_ns)

    # --- settling ---

    def acking_in_transaction(self, name: str, messages: Iterable[Delivered]) -> None:
        """Messages of one lease are to be acknowledged with the commit of a transaction."""
        for fields in self._ranges(messages):
            self._seen.record(AckSentEvent(*fields, name))

    def saying(self, action: str, messages: Iterable[Delivered]) -> None:
        """`ack`, `nack` or `reject` is about to be said of messages of one lease."""
        before, after = _EVENTS[action]
        for fields in self._ranges(messages):
            if before is not None:
                self._seen.record(before(*fields))
            if after is not None:
                self._unanswered.append(after(*fields))

    def _ranges(self, messages: Iterable[Delivered]) -> Iterator[tuple[str, str, str, int, int, int]]:
        """Return what is said of settled offsets, for each range of them."""
        of = list(messages)
        if of:
            member = self._polls[of[0]._lease.held.leased.lease].member
            for first, end in OffsetRanges((message.offset, message.offset + 1) for message in of).ranges():
                yield self._group, member, of[0].topic, of[0].partition, first, end

    def answered(self) -> None:
        """All that was said is durable."""
        self._seen.record(*self._unanswered)
        self._unanswered.clear()

    def refused(self) -> None:
        """Something that was said came too late; which it was need not be known."""
        self._unanswered.clear()


# A reject that is sent again, because its answer got lost, is refused whether it had arrived before or came too late:
# only the dead letters tell.
_EVENTS: dict[str, tuple[type[AckSentEvent | RejectSentEvent] | None, type[AckedEvent | NackedEvent] | None]] = {
    "ack": (AckSentEvent, AckedEvent),
    "nack": (None, NackedEvent),
    "reject": (RejectSentEvent, None),
}


def verdict(job: Job, chance: Random) -> str:
    number = chance.random()
    return "nack" if number < job.nacks else "reject" if number < job.nacks + job.rejects else "ack"


def say(batch: Batch, job: Job, chance: Random, watch: Watch) -> Any:
    """Nack or reject some messages at random, and ack the rest of the batch; the result may be awaited."""
    verdicts = {message.offset: verdict(job, chance) for message in batch}
    for action in ("nack", "reject", "ack"):
        chosen = [message for message in batch if verdicts[message.offset] == action]
        watch.saying(action, chosen)
        if action != "ack":
            for message in chosen:
                speak(message, action)
    return batch.ack(wait=True)


def speak(message: Delivered, action: str, *, wait: bool = False) -> Any:
    if action == "nack":
        return message.nack(delay=NACK_SECONDS, reason="by chance", wait=wait)
    if action == "reject":
        return message.reject(reason="by chance", wait=wait)
    return message.ack(wait=wait)
