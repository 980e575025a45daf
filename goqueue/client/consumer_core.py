"""The common part of consumers for threads and for event loops: options, and the rules joined together."""

import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, get_args

from goqueue.client import member_requests
from goqueue.client.api_request import ApiRequest, check_names, refuse_after_fork
from goqueue.client.consumer_parts import THROTTLED_SECONDS_MAX, PollerCore, SettlementSenderCore
from goqueue.client.lease import AckOutcome, HeldLease, LeaseOwner, Range
from goqueue.client.lease_tracker import KeyOrderFilter, LeaseTracker, Refused, SettlementBatch, Stats
from goqueue.client.leased_message import Batch, Delivered, decode
from goqueue.client.member_requests import HeartbeatResult, ReceivedPoll, SettleResults, TopicPartition
from goqueue.client.membership import GroupMembership, PendingChange
from goqueue.client.partition_reads import Isolation
from goqueue.client.quota_waits import note_delay
from goqueue.client.request_attempts import Backoff
from goqueue.client.serializers.interfaces import PayloadDeserializer
from goqueue.client.times import seconds
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    IN_FLIGHT_MESSAGES_MAX,
    MIB,
    READ_BYTES_MAX,
    RETRIES_LIMIT,
    RETRY_DELAY_SECONDS_MAX,
    RETRY_SECONDS_LIMIT,
    RETRY_SECONDS_MIN,
    SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
    WAIT_SECONDS_MAX,
)

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding

ANSWERS_IN_FLIGHT = 2
"""One is read while the next is fetched."""

OnPartitions = Callable[[list[TopicPartition]], object]
OnExpired = Callable[[list[Refused]], object]

Protocol = Literal["cooperative", "eager"]
Strategy = Literal["sticky", "range", "round_robin"]
Order = Literal["none", "key"]
Start = Literal["earliest", "latest"]

_WORDS = {
    "protocol": get_args(Protocol),
    "assignment_strategy": (None, *get_args(Strategy)),
    "order": (None, *get_args(Order)),
    "start": (None, *get_args(Start)),
    "isolation": (None, *get_args(Isolation)),
}
_COUNTS: dict[str, tuple[float, float]] = {
    "max_messages": (1, IN_FLIGHT_MESSAGES_MAX),
    "max_in_flight": (1, IN_FLIGHT_MESSAGES_MAX),
    "max_bytes": (1, READ_BYTES_MAX),
}
_DURATIONS: dict[str, tuple[float, float]] = {
    "session_timeout": (SESSION_SECONDS_MIN, SESSION_SECONDS_MAX),
    "visibility_timeout": (VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX),
    "retry_delay": (RETRY_SECONDS_MIN, RETRY_SECONDS_LIMIT),
    "max_retry_delay": (RETRY_SECONDS_MIN, RETRY_DELAY_SECONDS_MAX),
    "heartbeat_interval": (0.001, SESSION_SECONDS_MAX),
    "wait": (0.001, WAIT_SECONDS_MAX),
    "until_idle": (0, float("inf")),
}
_SWITCHES = ("prefetch", "extend_leases", "skip_damage")
_CALLBACKS = ("on_assigned", "on_revoked", "on_lost", "on_expired")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NAMED = count(1)


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer; None leaves a choice to the broker.

    `max_retries`, `retry_delay`, `max_retry_delay` and `dead_letter_topic` become those of the whole group when the
    consumer joins it. `visibility_timeout` holds for this consumer alone.
    """

    client_id: str | None = None
    session_timeout: str | float = "30s"
    protocol: Protocol = "cooperative"
    assignment_strategy: Strategy | None = None
    order: Order | None = None
    start: Start | None = None
    isolation: Isolation | None = None
    max_in_flight: int | None = None
    max_messages: int = 1_000
    max_bytes: int = MIB
    visibility_timeout: str | float | None = None
    max_retries: int | Literal["unlimited"] | None = None
    retry_delay: str | float | None = None
    max_retry_delay: str | float | None = None
    dead_letter_topic: str | None = None
    wait: str | float = "20s"
    heartbeat_interval: str | float | None = None
    prefetch: bool = True
    extend_leases: bool = True
    skip_damage: bool = False
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None
    on_expired: OnExpired | None = None
    until_idle: str | float | None = None
    deserializer: PayloadDeserializer | None = None
    key_deserializer: PayloadDeserializer | None = None

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            self._check(name, getattr(self, name) in words, "one of " + ", ".join(map(repr, words)))
        for name, limits in _COUNTS.items():
            self._check(name, self._is_unsaid(name) or _is_number(getattr(self, name), int), "a whole number")
            self._check_limits(name, *limits, "")
        for name, limits in _DURATIONS.items():
            fits = self._is_unsaid(name) or _is_number(getattr(self, name), str, int, float)
            self._check(name, fits, "seconds, or text like '500ms'")
            self._check_limits(name, *limits, " seconds")
        fits = _is_number(self.max_retries, int) and 0 <= int(self.max_retries or 0) <= RETRIES_LIMIT
        self._check(
            "max_retries",
            self.max_retries in (None, "unlimited") or fits,
            f"a whole number from 0 to {RETRIES_LIMIT}, or 'unlimited'",
        )
        is_name = self.dead_letter_topic is None or isinstance(self.dead_letter_topic, str)
        self._check("dead_letter_topic", is_name, "the name of a topic, or 'none'")
        for name in _SWITCHES:
            self._check(name, isinstance(getattr(self, name), bool), "True or False")
        for name in _CALLBACKS:
            self._check(name, self._is_unsaid(name) or callable(getattr(self, name)), "something that can be called")
        self._check("client_id", self.client_id is None or isinstance(self.client_id, str), "text")
        if self.client_id is not None and not 1 <= len(self.client_id) <= CLIENT_ID_CHARACTERS_MAX:
            raise RequestInvalid(
                f"client_id has {len(self.client_id)} characters, and must have 1 to {CLIENT_ID_CHARACTERS_MAX}"
            )

    def _is_unsaid(self, name: str) -> bool:
        """Return whether an option is None, and that is its default."""
        default = next(field.default for field in fields(self) if field.name == name)
        return default is None and getattr(self, name) is None

    def _check(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise RequestInvalid(f"{name} is {_shown(getattr(self, name))}, and must be {wanted}")

    def _check_limits(self, name: str, least: float, most: float, unit: str) -> None:
        given = self.number(name)
        limits = f"{_plain(least)} to {_plain(most)}{unit}" if most < float("inf") else f"{_plain(least)}{unit} or more"
        self._check(name, given is None or least <= given <= most, limits)

    def number(self, name: str) -> float | None:
        """Return an option that is a count, or a duration in seconds."""
        given = getattr(self, name)
        return seconds(given, name) if given is not None and name in _DURATIONS else given

    def group_settings(self) -> dict[str, Any]:
        """Return the fields of a join request that set something for the whole group."""
        said = {
            "max_retries": self.max_retries,
            "retry_delay": self.number("retry_delay"),
            "max_retry_delay": self.number("max_retry_delay"),
            "dead_letter_topic": self.dead_letter_topic,
        }
        return {name: value for name, value in said.items() if value is not None}

    def join_fields(self, topics: list[str]) -> dict[str, Any]:
        """Return the fields of a join request."""
        said = {
            "client_id": self.client_id or default_client_id(),
            "topics": topics,
            "session_timeout": self.number("session_timeout"),
            "protocol": self.protocol,
            "assignment_strategy": self.assignment_strategy,
            "order": self.order,
            "start": self.start,
            "isolation": self.isolation,
            "max_in_flight": self.max_in_flight or min(ANSWERS_IN_FLIGHT * self.max_messages, IN_FLIGHT_MESSAGES_MAX),
        }
        return {name: value for name, value in said.items() if value is not None}


def parse_consumer_options(given: dict[str, Any]) -> ConsumerOptions:
    check_names("consumer", given, ConsumerOptions.__slots__)
    return ConsumerOptions(**given)


def default_client_id() -> str:
    """Return host and process, with a number from the second consumer of a process on: names are unique in a group."""
    number = next(_NAMED)
    suffix = f"-{os.getpid()}" + (f".{number}" if number > 1 else "")
    host = _CONTROL.sub("", socket.gethostname()) or "client"
    return host[: CLIENT_ID_CHARACTERS_MAX - len(suffix)] + suffix


def check_group(group: object) -> None:
    if not isinstance(group, str):
        raise RequestInvalid(f"the group is {_shown(group)}, and must be text")
    if not group:
        raise RequestInvalid("the group has no name", hint="consumers with the same group share the messages")


def check_topics(given: object) -> list[str]:
    """Return the names of one topic or several."""
    names: list[Any] = [given]
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        names = list(given)
    if not names:
        raise RequestInvalid("a consumer needs at least one topic")
    for name in names:
        if not isinstance(name, str):
            raise RequestInvalid(f"a topic is {_shown(name)}, and must be text", hint='write ["orders"], for example')
        if not name:
            raise RequestInvalid("a topic has no name")
    return names


def _is_number(given: object, *kinds: type) -> bool:
    return isinstance(given, kinds) and not isinstance(given, bool)


def _plain(number: float) -> str:
    return f"{number:.12g}"


def _shown(given: object) -> str:
    return repr(given)[:80]


UNREAD_SECONDS_MAX = 0.1
"""The time after which the worker takes an answer that was requested ahead."""

CLOSE_SECONDS = 5.0
"""The time that `close` spends on a broker that does not answer."""


class ConsumerCore(LeaseOwner):
    """The part that does not wait."""

    _poller: PollerCore[Any]
    _settler: SettlementSenderCore[Any]
    decoding: "MessageDecoding | None" = None

    def __init__(self, group: str, topics: Iterable[str], options: ConsumerOptions) -> None:
        check_group(group)
        names = check_topics(topics)
        self.group = group
        self.topics = names
        self._options = options
        self._wait = seconds(options.wait, "wait")
        self._idle_seconds = options.number("until_idle")
        self._held_back = 0.0
        """Seconds to wait after the last poll if it brought nothing, because of a quota of the tenant."""
        self._visibility = options.number("visibility_timeout")
        self._attention = True
        """Whether there is something to do before the next message."""
        order = KeyOrderFilter() if options.order == "key" else None
        self._leases = LeaseTracker(self, self._alert, extend=options.extend_leases, order=order)
        cooperative = options.protocol == "cooperative"
        self._membership = GroupMembership(
            group, options.join_fields(names), self._alert, cooperative=cooperative, settings=options.group_settings()
        )
        self._rest: Iterator[Delivered] = iter(())
        self._left_at: float | None = None
        """Since when the application has been processing what it received, if it is."""
        self._asleep = False
        """Whether the worker sleeps until the next heartbeat."""
        self._beat_at = 0.0
        self._beat_backoff = Backoff()
        self._closed = self._stopped = False
        self._process = os.getpid()
        self._refusal: GoQueueError | None = None
        """The error for every further call, once this object cannot be used anymore."""
        refuse_after_fork(self, "consumer")

    def _alert(self) -> None:
        self._attention = True

    @property
    def member_id(self) -> str | None:
        """The broker's id of this consumer; None until it has joined."""
        return self._membership.member_id

    @property
    def generation(self) -> int:
        return self._membership.generation

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer has now."""
        return sorted(self._membership.places)

    @property
    def stats(self) -> Stats:
        return self._leases.stats

    def reserve(self, held: HeldLease, ranges: Iterable[Range]) -> tuple[list[Range], tuple[str, str]]:
        assert self._membership.member_id is not None
        with self._settler.lock:
            return self._leases.reserve(held, ranges), (self.group, self._membership.member_id)

    def finish_reservation(
        self, held: HeldLease, ranges: list[Range], outcome: AckOutcome, reason: str | None = None
    ) -> None:
        with self._settler.lock:
            self._leases.finish_reservation(held, ranges, outcome, reason)

    def stop(self) -> None:
        """End the iteration, from elsewhere or from a signal handler. `close` is still needed."""
        self._stopped = True  # a flag and no lock: a signal handler may interrupt the code that holds the lock
        self._alert()
        if self._belongs_here:
            self._poller.interrupt()

    def _end(self) -> None:
        self._closed = True
        self._poller.abandon()
        self._settler.close()
        self._leases.forget()
        self._rest = iter(())

    # --- requests ---

    def _poll(self, idle_left: float | None = None) -> ApiRequest[ReceivedPoll]:
        membership, options = self._membership, self._options
        assert membership.member_id is not None
        if self._leases.order is not None:
            self._leases.order.polls += 1
        left = self._idle_seconds if idle_left is None else idle_left
        return member_requests.poll(
            self.group,
            membership.member_id,
            membership.generation,
            max_messages=self._messages_wanted(),
            max_bytes=options.max_bytes,
            wait=self._wait if left is None else min(self._wait, left),
            visibility=self._visibility,
            skip_damage=options.skip_damage,
        )

    def _messages_wanted(self) -> int:
        """Return how many messages the next poll asks for."""
        return self._options.max_messages

    def _settle_call(self, settlement: SettlementBatch) -> ApiRequest[SettleResults]:
        assert self._membership.member_id is not None
        return member_requests.settle(self.group, self._membership.member_id, settlement.to_wire())

    def _beat_seconds(self) -> float:
        return self._options.number("heartbeat_interval") or self._membership.beat_seconds

    # --- answers ---

    def _heartbeat_answered(self, identity: tuple[str | None, int], beat: HeartbeatResult | GoQueueError) -> bool:
        """Record the result of a heartbeat. Return whether it repeats a change that was not acted on.

        Then a poll that should have ended by itself must be interrupted.
        """
        wanted = self._membership.want
        self._membership.beat(identity, beat)
        return wanted is not PendingChange.NOTHING and wanted is self._membership.want

    def _polled(self, polled: ReceivedPoll, since: float) -> None:
        self._leases.took(polled, since)
        self._membership.polled(polled.head)
        self._held_back = min(polled.head.retry_after, THROTTLED_SECONDS_MAX)
        note_delay(polled.head.quota, self._held_back)

    def _next_batch(self) -> Batch | None:
        """Return the messages of the next lease; None if it has none that may be returned now."""
        with self._settler.lock:
            part = self._leases.next()
        if part is None:
            return None
        lease, content, position = part
        messages, gaps = decode(lease, content, position)
        self._leases.stats.received += len(messages)
        if self._leases.order is not None:
            lease.held.keys = {message.offset: message.key for message in messages if message.key}
        if gaps:
            with self._settler.lock:
                lease.held.skip(gaps)
        messages = self._sifted(messages)
        if not messages:
            return None
        self._left_at = time.monotonic()
        return Batch(lease, messages)

    def _sifted(self, messages: list[Delivered]) -> list[Delivered]:
        """Return the messages of a lease that may be returned now."""
        if self._leases.order is None or not messages:
            return messages
        with self._settler.lock:
            return self._leases.sift(messages[0]._lease.held, messages)

    def _may_deliver(self, message: Delivered) -> bool:
        """Return whether a message may still be delivered after a change; otherwise `_rest` has changed."""
        if message._lease.held.over or self._stopped:
            self._rest = iter(())
            return False
        if self._leases.order is None:
            return True
        self._rest = iter(self._sifted([message, *self._rest]))
        return False

    def _may_handle(self, message: Delivered) -> bool:
        """Return whether a message that was held back may be handled now; otherwise it is delivered again."""
        return not message._lease.held.over and bool(self._sifted([message]))

    def _concluded(self, settlement: SettlementBatch, outcome: SettleResults | GoQueueError, now: float) -> bool:
        if isinstance(outcome, GoQueueError):
            self._membership.refused(outcome)
        return self._leases.conclude(settlement, outcome, now)

    def _may_ask_ahead(self) -> bool:
        return self._options.prefetch and self._leases.may_ask and self._membership.want is PendingChange.NOTHING

    @property
    def _has_unwatched_poll(self) -> bool:
        """True if an answer may come for which the application does not wait."""
        return self._left_at is not None and self._poller.is_under_way

    @property
    def _belongs_here(self) -> bool:
        """False in a forked child: the membership and the connections are the parent's."""
        return self._process == os.getpid()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._closed:
            raise RequestInvalid("this consumer is closed", hint="make another one with client.consumer()")

    def __repr__(self) -> str:
        places = " ".join(map(str, self.assignment))
        return f"<{type(self).__name__} {self.group} {self.member_id or 'not joined'} {places}>"
