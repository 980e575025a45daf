"""What the consumers of threads and of event loops share: the rules joined together."""

import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from goqueue.client import polls
from goqueue.client.calls import Call
from goqueue.client.delivered import Batch, Delivered, decode
from goqueue.client.intervals import Range
from goqueue.client.lease import Fate, Held
from goqueue.client.leases import Leases, Part, Settlement, Stats
from goqueue.client.membership import Membership, Want
from goqueue.client.options import ConsumerOptions, check_group, topics_of
from goqueue.client.ordering import KeyOrder
from goqueue.client.polls import Beat, Polled, Results, TopicPartition
from goqueue.client.retry import Backoff
from goqueue.client.times import seconds
from goqueue.errors import GoQueueError, RequestInvalid

TICK_SECONDS = 0.05
"""How often a companion looks while anything is leased: no note waits longer for being sent."""

AWAY_SECONDS = 0.1
"""For so long an answer that came ahead may lie unread; afterwards the companion takes it in."""

RESTLESS_MAX, RESTLESS_SECONDS = 5, 0.1
"""So often in a row an assignment is looked at without waiting, and how long is waited then."""

CLOSE_SECONDS = 5.0
"""What a broker that does not answer may cost at the end."""


class Consuming(ABC):
    """The part that neither waits nor locks."""

    def __init__(self, group: str, topics: Iterable[str], options: ConsumerOptions) -> None:
        check_group(group)
        names = topics_of(topics)
        self.group = group
        self.topics = names
        self._options = options
        self._wait = seconds(options.wait, "wait")
        self._idle_seconds = options.number("until_idle")
        self._visibility = options.number("visibility_timeout")
        self._attention = True
        """Whether there is something to do between two messages."""
        order = KeyOrder() if options.order == "key" else None
        self._leases = Leases(self, self._alert, extend=options.extend_leases, order=order)
        cooperative = options.protocol == "cooperative"
        self._membership = Membership(group, options.wishes(names), self._alert, cooperative=cooperative)
        self._closed = False
        self._process = os.getpid()
        self._refusal: GoQueueError | None = None
        """Set when this object cannot be used any more."""
        _ALIVE.add(self)

    def _alert(self) -> None:
        self._attention = True

    @abstractmethod
    def durable(self, held: Held, first: int, end: int) -> Any:
        """What `ack(wait=True)` waits for."""

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

    def pledge(self, held: Held, ranges: Iterable[Range]) -> tuple[list[Range], tuple[str, str]]:
        """For transactions: leave these offsets to one."""
        assert self._membership.member_id is not None
        return self._leases.pledge(held, ranges), (self.group, self._membership.member_id)

    def redeem(self, held: Held, ranges: list[Range], fate: Fate, reason: str | None = None) -> None:
        """For transactions: what became of them."""
        self._leases.redeem(held, ranges, fate, reason)

    # --- calls ---

    def _poll(self, idle_left: float | None = None) -> Call[Polled]:
        membership, options = self._membership, self._options
        assert membership.member_id is not None
        if self._leases.order is not None:
            self._leases.order.polls += 1
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

    def _beaten(self, spoken_as: tuple[str | None, int], beat: Beat | GoQueueError) -> bool:
        """What a heartbeat brought. Whether it said so before and nobody has acted on it: whoever waits for messages
        must not wait on, although a poll should have ended by itself."""
        wanted = self._membership.want
        self._membership.beat(spoken_as, beat)
        return wanted is not Want.NOTHING and wanted is self._membership.want

    def _polled(self, polled: Polled, since: float) -> None:
        self._leases.took(polled, since)
        self._membership.polled(polled.head)

    def _batch(self, part: Part) -> tuple[Batch, list[tuple[int, int]]]:
        lease, content, position = part
        messages, gaps = decode(lease, content, position)
        self._leases.stats.received += len(messages)
        if self._leases.order is not None:
            lease.held.keys = {message.offset: message.key for message in messages if message.key}
        return Batch(lease, messages), gaps

    def _sifted(self, messages: Iterable[Delivered]) -> list[Delivered]:
        """Those in hand that may be handed out, of one lease; the lock that guards the leases is held."""
        found = list(messages)
        return self._leases.sift(found[0]._lease.held, found) if found else found

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
