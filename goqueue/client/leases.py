"""All leases of a consumer: what to hand out, what to send, what to extend. No threads, no sockets.

What must stay true:

- What was gathered is in exactly one settlement until the broker has answered it, and a settlement that got lost is
  sent again as it was.
- A lease is remembered while its messages are in use, or something noted about it was not gathered. Afterwards it is
  left to its time: what nobody settled comes back by itself.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from goqueue.client import refusals
from goqueue.client.intervals import Range, count
from goqueue.client.lease import ACK, EXTEND, LEFT, NACK, NEVER, REJECT, RELEASE, Entry, Fate, Held, Lease, Owner
from goqueue.client.polls import Polled, Results, TopicPartition
from goqueue.client.retry import Backoff
from goqueue.errors import CallerError, GoQueueError, GroupNotFound, LeaseExpired, MemberUnknown, TransientError
from goqueue.limits import RECEIPTS_MAX

if TYPE_CHECKING:
    from goqueue.client.delivered import Delivered
    from goqueue.client.ordering import KeyOrder

RANGES_MAX = RECEIPTS_MAX // 2
"""Of one request: there may be as many extensions beside them."""

_AGAIN_SECONDS = 1.0
_STATISTIC = {ACK: "acked", NACK: "nacked", REJECT: "rejected", RELEASE: "released"}


class Stats(msgspec.Struct):
    """How many messages; those that were settled are counted when that is durable."""

    received: int = 0
    """Decoded, to be handed out."""
    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    released: int = 0
    """Also those that were fetched ahead and were never decoded, when an eager group gives everything back."""
    refused: int = 0
    """Settled too late, or in another way that the broker did not take."""
    extensions: int = 0
    """Leases that were extended."""
    assignments: int = 0
    """How often it was told what it has: when it joined, and after each change."""


class Refused(msgspec.Struct, frozen=True):
    """Messages whose settling came too late: others have them by now, or they will come again."""

    topic: str
    partition: int
    ranges: list[tuple[int, int]]
    action: str
    """`acks`, `nacks`, `rejects` or `releases`."""
    error: GoQueueError


class Settlement:
    """The entries of one request."""

    __slots__ = ("backoff", "entries", "failure", "not_before", "repeated", "sent")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.sent = False
        self.repeated = False
        """It may have been carried out before without our knowing."""
        self.not_before = 0.0
        self.backoff = Backoff()
        self.failure: GoQueueError | None = None
        """Why it was to be sent again, the last time."""

    def of(self, action: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.action == action]

    def to_wire(self) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {}
        for entry in self.entries:
            found.setdefault(entry.action, []).append(entry.to_wire())
        return found


class _Answer:
    """An answer to a poll, of which leases are left to be handed out."""

    __slots__ = ("content", "parts")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.parts: deque[tuple[Lease, int]] = deque()


Part = tuple[Lease, bytes, int]
"""A lease to be handed out, and where its frames stand."""


class Leases:
    """Told of answers, gives out what is to be done."""

    def __init__(
        self, owner: Owner, alert: Callable[[], None], *, extend: bool, order: "KeyOrder | None" = None
    ) -> None:
        self.stats = Stats()
        self.order = order
        self._owner = owner
        self._alert = alert
        self._extend = extend
        self._held: dict[tuple[str, int, str], Held] = {}
        self._answers: deque[_Answer] = deque()
        self._again: list[Entry] = []
        """To be sent once more; those of `_alone` each by itself."""
        self._alone: deque[Entry] = deque()
        self._refused: list[Refused] = []
        self._unseen: tuple[GoQueueError, int] | None = None

    # --- what is handed out ---

    def took(self, polled: Polled, since: float) -> None:
        """An answer, whose leases hold since then or later."""
        answer, position = _Answer(polled.content), polled.position
        for leased in polled.head.leases:
            held = Held(leased, since + leased.visibility / 2)
            if self.order is not None:
                held.asked, held.left = self.order.polls, self.order.left
            lease = Lease(held, self._owner, None if self.order is None else self._alert)
            answer.parts.append((lease, position))
            self._held[leased.topic, leased.partition, leased.lease] = held
            position += leased.bytes
        if answer.parts:
            self._answers.append(answer)

    @property
    def has_unread(self) -> bool:
        return bool(self._answers)

    @property
    def may_ask(self) -> bool:
        """Whether one more answer may be asked for: one ahead of the one that is being read."""
        return len(self._answers) <= 1

    def next(self) -> Part | None:
        """The next lease to be handed out."""
        while self._answers:
            answer = self._answers[0]
            part = answer.parts.popleft() if answer.parts else None
            if not answer.parts:
                self._answers.popleft()
            if part is not None and not part[0].held.over:
                return part[0], answer.content, part[1]
        return None

    def sift(self, held: Held, messages: "list[Delivered]") -> "list[Delivered]":
        """Of messages that are in hand those that may be handed out; where keys stay in their order some may not."""
        if self.order is None:
            return messages
        for one in self._held.values():
            one.fold()
        return self.order.sift(held, messages)

    def drop(self, places: Iterable[TopicPartition] | None = None) -> None:
        """These partitions are gone: nothing more of them is handed out or extended. What comes late is still sent."""
        gone = None if places is None else set(places)
        for held in self._held.values():
            if gone is None or held.place in gone:
                held.over = True
        self._alert()

    def release_all(self) -> None:
        """Give back everything of which nothing was said, and hand nothing more of it out."""
        for held in self._held.values():
            held.give_back()
        self._alert()

    def forget(self) -> None:
        """The end. A lease and its answer point at each other, so they are taken apart."""
        self._held.clear()
        self._answers.clear()
        self._again.clear()
        self._alone.clear()

    # --- what is left to transactions ---

    def pledge(self, held: Held, ranges: Iterable[Range]) -> list[Range]:
        """Leave offsets to a transaction; the lease is extended until the broker knows."""
        fresh = held.pledge(ranges)
        held.pledged += bool(fresh)
        return fresh

    def redeem(self, held: Held, ranges: list[Range], fate: Fate, reason: str | None = None) -> None:
        if fate in (Fate.TOLD, Fate.UNSAID):
            held.pledged -= 1
        if fate is Fate.DONE:
            self.stats.acked += count(ranges)
        elif fate is Fate.UNSAID:
            held.take_back(ranges, reason)
            self._alert()
        elif fate is Fate.BACK and self.order is not None:
            self.order.left(held, ranges)
            self.order.told(held, ranges)
            self._alert()

    # --- what is sent ---

    @property
    def is_idle(self) -> bool:
        """Nothing is leased, so nothing can become due."""
        return not (self._held or self._again or self._alone)

    @property
    def has_news(self) -> bool:
        return bool(self._again or self._alone) or any(held.has_news for held in self._held.values())

    def gather(self, now: float) -> Settlement | None:
        """All that was noted and not sent yet, and the extensions that are due."""
        if self._alone:
            return Settlement([self._alone.popleft()])
        entries, self._again = self._again, []
        room = RANGES_MAX - len(entries)
        for key, held in list(self._held.items()):
            used = held.is_in_use  # before the notes are read: a lease out of use gets no more of them
            held.fold()
            if held.pending:
                taken = held.take(room)
                room -= sum(len(entry.ranges) for entry in taken)
                entries += taken
            if not (held.pending or held.pledged) and (held.is_complete or not used):
                del self._held[key]
            else:
                self._extension(held, entries, now)
        return Settlement(entries) if entries else None

    def _extension(self, held: Held, entries: list[Entry], now: float) -> None:
        wanted, held.wanted = held.wanted, None
        if wanted is None:
            if not self._extend or now < held.extend_at or held.over:
                return
            wanted = held.leased.visibility
        held.extend_at = now + wanted / 2
        entries.append(Entry(held, EXTEND, (), 0, wanted, None))

    def conclude(self, settlement: Settlement, outcome: Results | GoQueueError, now: float) -> bool:
        """What came of a settlement. False: it is to be sent again."""
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
            self._alone.extend(settlement.entries)  # one of them is wrong, and need not spoil the others
        else:
            for entry in settlement.entries:
                self._refuse(entry, outcome)
        return True

    def _result(self, settlement: Settlement, entry: Entry, error: object, now: float) -> None:
        refusal = None if error is None else refusals.of_record(error)
        if not isinstance(refusal, TransientError):
            self._told(entry)
        known = settlement.repeated and isinstance(refusal, LeaseExpired) and entry.action in LEFT
        if refusal is None or known:
            name = _STATISTIC.get(entry.action, "extensions")
            setattr(self.stats, name, getattr(self.stats, name) + (entry.messages or 1))
        elif not isinstance(refusal, TransientError):
            self._refuse(entry, refusal)
        elif entry.action == EXTEND:
            entry.held.extend_at = now + _AGAIN_SECONDS
        else:
            self._again.append(entry)

    def _told(self, entry: Entry) -> None:
        if self.order is not None and entry.action in LEFT:
            self.order.told(entry.held, entry.ranges)

    def _refuse(self, entry: Entry, error: GoQueueError) -> None:
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

    # --- what is told ---

    def refused(self) -> list[Refused]:
        """What was refused since somebody asked the last time."""
        told, self._refused = self._refused, []
        return told

    def failure(self) -> GoQueueError | None:
        """The error to raise for all that was refused and not raised yet."""
        unseen, self._unseen = self._unseen, None
        if unseen is None:
            return None
        cause, messages = unseen
        details = {name: value for name, value in cause.details.items() if name != "refused"}
        sentence = f"{messages} messages were settled in vain; the first because: {cause.sentence}"
        error = type(cause)(sentence, hint=cause.hint, **details, refused=messages)
        error.__cause__ = cause
        return error
