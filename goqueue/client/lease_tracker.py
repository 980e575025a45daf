"""All leases of a consumer: which messages to return, what to settle and to extend. No threads, no sockets.

What must stay true:

- What was gathered is in exactly one settlement until the broker has answered it, and a settlement that got lost is
  sent again unchanged.
- A lease is remembered while its messages are in use, or something noted about it was not gathered. Afterwards it is
  left to time out: what was not settled is delivered again.
"""

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from goqueue.client.api_request import error_of_record
from goqueue.client.lease import (
    ACK,
    EXTEND,
    NACK,
    NEVER,
    REJECT,
    RELEASE,
    RETURNING,
    AckOutcome,
    HeldLease,
    LeaseHandle,
    LeaseOwner,
    Range,
    SettleEntry,
    SettleNote,
    count_offsets,
)
from goqueue.client.leased_message import Delivered
from goqueue.client.member_requests import ReceivedPoll, SettleResults, TopicPartition
from goqueue.client.request_attempts import Backoff
from goqueue.errors import CallerError, GoQueueError, GroupNotFound, LeaseExpired, MemberUnknown, TransientError
from goqueue.limits import RECEIPTS_MAX

RANGES_MAX = RECEIPTS_MAX // 2
"""The limit for one request, which may have as many extensions besides."""

_AGAIN_SECONDS = 1.0
_STATISTIC = {ACK: "acked", NACK: "nacked", REJECT: "rejected", RELEASE: "released"}


class Stats(msgspec.Struct):
    """Counts of messages; settled ones are counted when that is durable."""

    received: int = 0
    """Decoded, to be returned to the application."""
    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    released: int = 0
    """Includes messages that were requested ahead and never decoded, when an eager group rebalances."""
    refused: int = 0
    """Settled too late, or refused for another reason."""
    extensions: int = 0
    """The number of extended leases."""
    assignments: int = 0
    """The number of assignments received: the first one, and one for each change."""


class Refused(msgspec.Struct, frozen=True):
    """Messages that were settled too late: another member has them, or they will be delivered again."""

    topic: str
    partition: int
    ranges: list[tuple[int, int]]
    action: str
    """`acks`, `nacks`, `rejects` or `releases`."""
    error: GoQueueError


class SettlementBatch:
    """The entries of one settle request."""

    __slots__ = ("backoff", "entries", "failure", "not_before", "repeated", "sent")

    def __init__(self, entries: list[SettleEntry]) -> None:
        self.entries = entries
        self.sent = False
        self.repeated = False
        """True if it may have been carried out before."""
        self.not_before = 0.0
        self.backoff = Backoff()
        self.failure: GoQueueError | None = None
        """The last error after which it was sent again."""

    def of(self, action: str) -> list[SettleEntry]:
        return [entry for entry in self.entries if entry.action == action]

    def to_wire(self) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {}
        for entry in self.entries:
            found.setdefault(entry.action, []).append(entry.to_wire())
        return found


LeasePart = tuple[LeaseHandle, bytes, int]
"""A lease, and the bytes and position of its frames."""


Key = tuple[str, int, bytes]
"""A key in a partition of a topic."""


class KeyOrderFilter:
    """Keeps messages of one key in order, for a consumer that reads ahead. The caller holds the lock of the leases.

    A message that failed or was released comes again. Later messages of its key that were received by then would
    overtake it, so they are released as well, and the broker, which knows of the failure now, holds them back.

    What must stay true: a message is returned only if each earlier one of its key that was to come again has come
    again, or if the broker knew of it before the message was requested.
    """

    def __init__(self) -> None:
        self.polls = 0
        """The number of polls so far."""
        self._awaited: dict[Key, dict[int, float]] = {}
        """The offsets that are to come again, with the last poll that may have been answered without knowing it."""
        self._known: deque[tuple[int, Key, int]] = deque()
        """The offsets that the broker knows of, in the order of these polls."""

    def left(self, held: HeldLease, ranges: Iterable[Range]) -> None:
        """Record that these messages are to come again."""
        for key, offset in _with_keys(held, ranges):
            self._awaited.setdefault(key, {})[offset] = NEVER

    def told(self, held: HeldLease, ranges: Iterable[Range]) -> None:
        """Record that the broker knows of that, or has refused it: later requests are in order."""
        for key, offset in _with_keys(held, ranges):
            awaited = self._awaited.get(key, {})
            if awaited.get(offset) == NEVER:
                awaited[offset] = self.polls
                self._known.append((self.polls, key, offset))

    def sift(self, held: HeldLease, messages: list[Delivered]) -> list[Delivered]:
        """Return the messages of a lease that may be returned to the application now; release the others."""
        self._forget(held.asked)
        if not self._awaited:
            return messages
        kept = []
        for message in messages:
            if self._must_wait(held, message):
                held.noted.append(SettleNote(RELEASE, message.offset, message.offset + 1))
            else:
                kept.append(message)
        held.fold()
        return kept

    def _must_wait(self, held: HeldLease, message: Delivered) -> bool:
        offset, key = message.offset, (message.topic, message.partition, message.key or b"")
        awaited = self._awaited.get(key)
        if not awaited:
            return False
        if any(one < offset and held.asked <= until for one, until in awaited.items()):
            return True
        awaited.pop(offset, None)  # it has come again
        if not awaited:
            del self._awaited[key]
        return False

    def _forget(self, asked: int) -> None:
        """Drop entries that no unread answer can concern anymore."""
        while self._known and self._known[0][0] < asked:
            until, key, offset = self._known.popleft()
            awaited = self._awaited.get(key, {})
            if awaited.get(offset) == until:
                del awaited[offset]
                if not awaited:
                    del self._awaited[key]


def _with_keys(held: HeldLease, ranges: Iterable[Range]) -> Iterable[tuple[Key, int]]:
    leased = held.leased
    for first, end in ranges:
        for offset in range(first, end):
            key = held.keys.get(offset)
            if key:
                yield (leased.topic, leased.partition, key), offset


class LeaseTracker:
    """Records answers, and returns what is to be done."""

    def __init__(
        self, owner: LeaseOwner, alert: Callable[[], None], *, extend: bool, order: KeyOrderFilter | None = None
    ) -> None:
        self.stats = Stats()
        self.order = order
        self._owner = owner
        self._alert = alert
        self._extend = extend
        self._held: dict[tuple[str, int, str], HeldLease] = {}
        self._answers: deque[deque[LeasePart]] = deque()
        """The leases of each answer to a poll that were not returned yet."""
        self._again: list[SettleEntry] = []
        """To be sent again; those of `_alone` in a request of their own."""
        self._alone: deque[SettleEntry] = deque()
        self._refused: list[Refused] = []
        self._unseen: tuple[GoQueueError, int] | None = None

    # --- returning messages ---

    def took(self, polled: ReceivedPoll, since: float) -> None:
        """Record an answer whose leases hold since then or later."""
        answer, position = deque[LeasePart](), polled.position
        for leased in polled.head.leases:
            held = HeldLease(leased, since + leased.visibility / 2)
            if self.order is not None:
                held.asked, held.left = self.order.polls, self.order.left
            lease = LeaseHandle(held, self._owner, None if self.order is None else self._alert)
            answer.append((lease, polled.content, position))
            self._held[leased.topic, leased.partition, leased.lease] = held
            position += leased.bytes
        if answer:
            self._answers.append(answer)

    @property
    def has_unread(self) -> bool:
        return bool(self._answers)

    @property
    def may_ask(self) -> bool:
        """True if one more answer may be requested: one ahead of the one that is being read."""
        return len(self._answers) <= 1

    def next(self) -> LeasePart | None:
        """Return the next lease."""
        while self._answers:
            part = self._answers[0].popleft()
            if not self._answers[0]:
                self._answers.popleft()
            if not part[0].held.over:
                return part
        return None

    def sift(self, held: HeldLease, messages: list[Delivered]) -> list[Delivered]:
        """Return the messages that may be returned to the application now, if keys are kept in order."""
        if self.order is None:
            return messages
        for one in self._held.values():
            one.fold()
        return self.order.sift(held, messages)

    def drop(self, places: Iterable[TopicPartition] | None = None) -> None:
        """End the leases of lost partitions: their messages are not returned. Late settlements are still sent."""
        gone = None if places is None else set(places)
        for held in self._held.values():
            if gone is None or held.place in gone:
                held.over = True
        self._alert()

    def release_all(self) -> None:
        """Release everything that was not settled, and return no more of it."""
        for held in self._held.values():
            held.release_unsettled()
        self._alert()

    def forget(self) -> None:
        """Drop everything. A lease and its answer refer to each other, so the references are removed."""
        self._held.clear()
        self._answers.clear()
        self._again.clear()
        self._alone.clear()

    # --- transactions ---

    def reserve(self, held: HeldLease, ranges: Iterable[Range]) -> list[Range]:
        """Reserve offsets for a transaction; the lease is extended until the broker knows of it."""
        fresh = held.reserve(ranges)
        held.reserved += bool(fresh)
        return fresh

    def finish_reservation(
        self, held: HeldLease, ranges: list[Range], outcome: AckOutcome, reason: str | None = None
    ) -> None:
        if outcome in (AckOutcome.SENT, AckOutcome.UNSENT):
            held.reserved -= 1
        if outcome is AckOutcome.COMMITTED:
            self.stats.acked += count_offsets(ranges)
        elif outcome is AckOutcome.UNSENT:
            held.release_reserved(ranges, reason)
            self._alert()
        elif outcome is AckOutcome.REDELIVERED and self.order is not None:
            self.order.left(held, ranges)
            self.order.told(held, ranges)
            self._alert()

    # --- settling ---

    @property
    def is_idle(self) -> bool:
        """True if nothing is leased, so that nothing can become due."""
        return not (self._held or self._again or self._alone)

    @property
    def has_news(self) -> bool:
        return bool(self._again or self._alone) or any(held.has_news for held in self._held.values())

    def gather(self, now: float) -> SettlementBatch | None:
        """Return everything noted and not sent yet, and the extensions that are due."""
        if self._alone:
            return SettlementBatch([self._alone.popleft()])
        entries, self._again = self._again, []
        room = RANGES_MAX - len(entries)
        for key, held in list(self._held.items()):
            used = held.is_in_use  # before reading the notes: a lease out of use gets no more of them
            held.fold()
            if held.pending:
                taken = held.take(room)
                room -= sum(len(entry.ranges) for entry in taken)
                entries += taken
            if not (held.pending or held.reserved) and (held.is_complete or not used):
                del self._held[key]
            else:
                self._extension(held, entries, now)
        return SettlementBatch(entries) if entries else None

    def _extension(self, held: HeldLease, entries: list[SettleEntry], now: float) -> None:
        wanted, held.wanted = held.wanted, None
        if wanted is None:
            if not self._extend or now < held.extend_at or held.over:
                return
            wanted = held.leased.visibility
        held.extend_at = now + wanted / 2
        entries.append(SettleEntry(held, EXTEND, (), 0, wanted, None))

    def conclude(self, settlement: SettlementBatch, outcome: SettleResults | GoQueueError, now: float) -> bool:
        """Record the result of a settlement. Return False if it must be sent again."""
        if isinstance(outcome, TransientError) and not outcome.details.get("foreign"):
            settlement.sent = False
            settlement.repeated = settlement.repeated or not outcome.details.get("unsent")
            settlement.failure = outcome
            settlement.not_before = now + settlement.backoff.next(outcome)
            return False
        if not isinstance(outcome, GoQueueError):
            for action, results in outcome.items():
                for entry, result in zip(settlement.of(action), results, strict=False):
                    self._result(settlement, entry, result.get("error"), now)
        elif (
            isinstance(outcome, CallerError)
            and not isinstance(outcome, (MemberUnknown, GroupNotFound))
            and len(settlement.entries) > 1
        ):
            self._alone.extend(settlement.entries)  # one of them is invalid; the others may succeed
        else:
            for entry in settlement.entries:
                self._refuse(entry, outcome)
        return True

    def _result(self, settlement: SettlementBatch, entry: SettleEntry, error: object, now: float) -> None:
        refusal = None if error is None else error_of_record(error)
        if not isinstance(refusal, TransientError):
            self._told(entry)
        known = settlement.repeated and isinstance(refusal, LeaseExpired) and entry.action in RETURNING
        if refusal is None or known:
            name = _STATISTIC.get(entry.action, "extensions")
            setattr(self.stats, name, getattr(self.stats, name) + (entry.messages or 1))
        elif not isinstance(refusal, TransientError):
            self._refuse(entry, refusal)
        elif entry.action == EXTEND:
            entry.held.extend_at = now + _AGAIN_SECONDS
        else:
            self._again.append(entry)

    def _told(self, entry: SettleEntry) -> None:
        if self.order is not None and entry.action in RETURNING:
            self.order.told(entry.held, entry.ranges)

    def _refuse(self, entry: SettleEntry, error: GoQueueError) -> None:
        self._told(entry)
        held = entry.held
        held.extend_at = NEVER
        if isinstance(error, (LeaseExpired, MemberUnknown, GroupNotFound)):
            held.over = True
        self._alert()
        if entry.action == EXTEND:
            return
        held.refuse(entry, error)
        self.stats.refused += entry.messages
        first, before = self._unseen or (error, 0)
        self._unseen = first, before + entry.messages
        leased = held.leased
        self._refused.append(Refused(leased.topic, leased.partition, list(entry.ranges), entry.action, error))

    # --- refusals ---

    def refused(self) -> list[Refused]:
        """Return what was refused since the last call."""
        told, self._refused = self._refused, []
        return told

    def failure(self) -> GoQueueError | None:
        """Return the error for everything that was refused and not raised yet."""
        unseen, self._unseen = self._unseen, None
        if unseen is None:
            return None
        cause, messages = unseen
        details = {name: value for name, value in cause.details.items() if name != "refused"}
        sentence = f"{messages} messages could not be settled; the first because: {cause.sentence}"
        error = type(cause)(sentence, hint=cause.hint, **details, refused=messages)
        error.__cause__ = cause
        return error
