"""What the consumers of threads and of event loops share: their options, and the rules joined together."""

import os
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from goqueue.client import polls
from goqueue.client.calls import Call
from goqueue.client.delivered import Batch, decode
from goqueue.client.lease import Held
from goqueue.client.leases import Leases, Part, Refused, Settlement, Stats
from goqueue.client.membership import Membership, Want
from goqueue.client.polls import Beat, Polled, Results, TopicPartition
from goqueue.client.retry import Backoff
from goqueue.client.times import seconds
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    IN_FLIGHT_MESSAGES_MAX,
    MIB,
    READ_BYTES_MAX,
    SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
    WAIT_SECONDS_MAX,
)

PROTOCOLS = ("cooperative", "eager")
STRATEGIES = (None, "sticky", "range", "round_robin")
ORDERS = (None, "none", "key")
STARTS = (None, "earliest", "latest")
_DURATIONS = ("session_timeout", "visibility_timeout", "heartbeat_interval", "wait", "until_idle")

TICK_SECONDS = 0.05
"""How often a companion looks while anything is leased: no note waits longer for being sent."""

AWAY_SECONDS = 0.1
"""For so long an answer that came ahead may lie unread; afterwards the companion takes it in."""

RESTLESS_MAX, RESTLESS_SECONDS = 5, 0.1
"""So often in a row an assignment is looked at without waiting, and how long is waited then."""

CLOSE_SECONDS = 5.0
"""What a broker that does not answer may cost at the end."""

OnPartitions = Callable[[list[TopicPartition]], object]
OnExpired = Callable[[list[Refused]], object]


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer joins, polls and settles; None leaves a choice to the broker."""

    client_id: str | None = None
    session_timeout: str | float = "30s"
    protocol: str = "cooperative"
    assignment_strategy: str | None = None
    order: str | None = None
    start: str | None = None
    max_in_flight: int | None = None
    max_messages: int = 5_000
    max_bytes: int = MIB
    visibility_timeout: str | float | None = None
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

    def __post_init__(self) -> None:
        for name, allowed in (
            ("protocol", PROTOCOLS),
            ("assignment_strategy", STRATEGIES),
            ("order", ORDERS),
            ("start", STARTS),
        ):
            if getattr(self, name) not in allowed:
                known = ", ".join(map(repr, allowed))
                raise RequestInvalid(f"{name} is {getattr(self, name)!r}", hint=f"known are {known}")
        for name, least, most in (
            ("max_messages", 1, IN_FLIGHT_MESSAGES_MAX),
            ("max_in_flight", 1, IN_FLIGHT_MESSAGES_MAX),
            ("max_bytes", 1, READ_BYTES_MAX),
            ("session_timeout", SESSION_SECONDS_MIN, SESSION_SECONDS_MAX),
            ("visibility_timeout", VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX),
            ("heartbeat_interval", 0.001, SESSION_SECONDS_MAX),
            ("wait", 0.001, WAIT_SECONDS_MAX),
            ("until_idle", 0, float("inf")),
        ):
            given = self.number(name)
            if given is not None and not least <= given <= most:
                unit = " seconds" if name in _DURATIONS else ""
                raise RequestInvalid(f"{name} is {getattr(self, name)!r}, and must be {least:g} to {most:g}{unit}")
        if self.client_id is not None and not 1 <= len(self.client_id) <= CLIENT_ID_CHARACTERS_MAX:
            raise RequestInvalid(
                f"client_id has {len(self.client_id)} characters, {CLIENT_ID_CHARACTERS_MAX} are the most"
            )

    def number(self, name: str) -> float | None:
        """An option that is a count, or a duration in seconds."""
        given = getattr(self, name)
        return seconds(given, name) if given is not None and name in _DURATIONS else given

    def wishes(self, topics: list[str]) -> dict[str, Any]:
        """What a join says."""
        said = {
            "client_id": self.client_id,
            "topics": topics,
            "session_timeout": self.number("session_timeout"),
            "protocol": self.protocol,
            "assignment_strategy": self.assignment_strategy,
            "order": self.order,
            "start": self.start,
            "max_in_flight": self.max_in_flight or min(4 * self.max_messages, IN_FLIGHT_MESSAGES_MAX),
        }
        return {name: value for name, value in said.items() if value is not None}


def options_of(given: dict[str, Any]) -> ConsumerOptions:
    try:
        return ConsumerOptions(**given)
    except TypeError:
        names = [field.name for field in fields(ConsumerOptions)]
        unknown = ", ".join(given.keys() - set(names))
        raise RequestInvalid(f"a consumer has no option {unknown}", hint=f"known are {', '.join(names)}") from None


class Consuming:
    """The part that neither waits nor locks."""

    def __init__(self, group: str, topics: Iterable[str], options: ConsumerOptions) -> None:
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise RequestInvalid("a consumer needs at least one topic")
        self.group = group
        self.topics = names
        self._options = options
        self._wait = seconds(options.wait, "wait")
        self._idle_seconds = options.number("until_idle")
        self._visibility = options.number("visibility_timeout")
        self._attention = True
        """Whether there is something to do between two messages."""
        self._leases = Leases(self, self._alert, extend=options.extend_leases)
        cooperative = options.protocol == "cooperative"
        self._membership = Membership(group, options.wishes(names), self._alert, cooperative=cooperative)
        self._closed = False
        self._process = os.getpid()
        self._refusal: GoQueueError | None = None
        """Set when this object cannot be used any more."""
        _ALIVE.add(self)

    def _alert(self) -> None:
        self._attention = True

    def durable(self, held: Held, first: int, end: int) -> Any:
        """What `ack(wait=True)` waits for."""
        raise NotImplementedError

    @property
    def member_id(self) -> str | None:
        """As the broker calls this consumer; None until it has joined."""
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

    # --- calls ---

    def _poll(self, idle_left: float | None = None) -> Call[Polled]:
        membership, options = self._membership, self._options
        assert membership.member_id is not None
        left = self._idle_seconds if idle_left is None else idle_left
        return polls.poll(
            self.group,
            membership.member_id,
            membership.generation,
            max_messages=options.max_messages,
            max_bytes=options.max_bytes,
            wait=self._wait if left is None else min(self._wait, left),
            visibility=self._visibility,
            skip_damage=options.skip_damage,
        )

    def _settle_call(self, settlement: Settlement) -> Call[Results]:
        assert self._membership.member_id is not None
        return polls.settle(self.group, self._membership.member_id, settlement.to_wire())

    def _beat_seconds(self) -> float:
        return self._options.number("heartbeat_interval") or self._membership.beat_seconds

    # --- what answers mean ---

    def _beaten(self, member_id: str | None, beat: Beat | GoQueueError) -> bool:
        """What a heartbeat brought. Whether it said so before and nobody has acted on it: whoever waits for messages
        must not wait on, although a poll should have ended by itself."""
        wanted = self._membership.want
        self._membership.beat(member_id, beat)
        return wanted is not Want.NOTHING and wanted is self._membership.want

    def _polled(self, polled: Polled, since: float) -> None:
        self._leases.took(polled, since)
        self._membership.polled(polled.head)

    def _batch(self, part: Part) -> tuple[Batch, list[tuple[int, int]]]:
        lease, content, position = part
        messages, gaps = decode(lease, content, position)
        self._leases.stats.received += len(messages)
        return Batch(lease, messages), gaps

    def _concluded(self, settlement: Settlement, outcome: Results | GoQueueError, now: float) -> bool:
        if isinstance(outcome, GoQueueError):
            self._membership.refused(outcome)
        return self._leases.conclude(settlement, outcome, now)

    def _may_ask_ahead(self) -> bool:
        return self._options.prefetch and self._leases.may_ask and self._membership.want is Want.NOTHING

    @property
    def _belongs_here(self) -> bool:
        """Not so in a child that was forked: there the membership and the connections are the parent's."""
        return self._process == os.getpid()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._closed:
            raise RequestInvalid("this consumer is closed", hint="make another one with client.consumer()")

    def __repr__(self) -> str:
        places = " ".join(map(str, self.assignment))
        return f"<{type(self).__name__} {self.group} {self.member_id or 'not joined'} {places}>"


class Patience:
    """How long somebody who waits for messages goes on waiting."""

    def __init__(self, timeout: float, idle_seconds: float | None) -> None:
        self._timeout = timeout
        self._idle_until = None if idle_seconds is None else time.monotonic() + idle_seconds
        self._failing_until: float | None = None
        self._backoff = Backoff()
        self._restless = 0

    @property
    def idle_left(self) -> float | None:
        """Until the iteration ends for want of messages; None is never."""
        return None if self._idle_until is None else max(self._idle_until - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return self.idle_left == 0.0

    def answered(self) -> None:
        self._backoff.attempts, self._failing_until = 0, None

    def after(self, error: GoQueueError) -> float:
        """Seconds to wait after a failure; raises it when the broker has stayed away for too long."""
        now = time.monotonic()
        self._failing_until = self._failing_until or now + self._timeout
        delay = self._backoff.next(error)
        if now + delay >= self._failing_until or error.details.get("foreign"):
            raise error
        return delay

    def before_attending(self) -> float:
        """Mostly nothing; more when the assignment is looked at again and again without a message in between."""
        self._restless += 1
        return 0.0 if self._restless <= RESTLESS_MAX else RESTLESS_SECONDS


def failure_of(held: Held, first: int, end: int) -> GoQueueError | None:
    """Why some of these offsets were settled in vain."""
    refused = any(low < end and first < high for low, high in held.refused.ranges())
    return held.error if refused else None


_ALIVE: "weakref.WeakSet[Consuming]" = weakref.WeakSet()


def _forked() -> None:
    """In a child: the threads are gone, the locks may be held by one that was, and the membership is the parent's."""
    for consumer in list(_ALIVE):
        consumer.__dict__["_refusal"] = RequestInvalid(
            "this consumer belongs to the process that this one was forked from",
            hint="make a consumer in each process, after the fork",
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
