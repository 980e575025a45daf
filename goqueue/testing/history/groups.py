"""Rules for groups: every message is delivered, and redelivered only until it is settled."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from goqueue.testing.history.events import (
    AckedEvent,
    AckEvent,
    AckSentEvent,
    Event,
    ReceivedEvent,
    RejectedEvent,
    RejectSentEvent,
    SettledEvent,
    SettlementEvent,
    StoredEvent,
    describe_finder,
    describe_others,
    in_order_of_time,
)
from goqueue.testing.history.model import GroupHistory, LogHistory, RunHistory
from goqueue.testing.history.report import EventCounts, Violation
from goqueue.testing.history.transactions import TransactionOutcomes

# --- ranges ---


Range = TypeVar("Range", bound=SettlementEvent)


def first_covering(offsets: Sequence[int], ranges: Iterable[Range]) -> dict[int, Range]:
    """Map each of the rising offsets to the first range that holds it, if any does.

    Ranges may be wide and overlap, as those of a client that always commits from 0. Each offset is visited once: from
    every index leads a way onward to the next one that is not covered yet, and walking it makes it shorter.
    """
    onward = list(range(len(offsets) + 1))
    covered = {}
    for one in ranges:
        stop = bisect_left(offsets, one.end)
        index = _next_uncovered(onward, bisect_left(offsets, one.first))
        while index < stop:
            covered[offsets[index]] = one
            onward[index] = index + 1
            index = _next_uncovered(onward, index + 1)
    return covered


def _next_uncovered(onward: list[int], index: int) -> int:
    while onward[index] != index:
        onward[index] = onward[onward[index]]
        index = onward[index]
    return index


# --- acks in transactions ---


class TransactionalAcks:
    """The acks of one track that are part of transactions, by what became of those."""

    def __init__(self, track: GroupHistory, transactions: TransactionOutcomes) -> None:
        self._track = track
        self._transactions = transactions
        self.kept: list[AckEvent] = []
        """Of those that took effect, in the order of their `since_ns`."""
        self.open: list[AckEvent] = []
        """They may have had their effect; it is unknown."""
        self.void: list[AckEvent] = []
        lists = {True: self.kept, None: self.open, False: self.void}
        for event in track.acked_in_transaction:
            lists[transactions.took_effect(event.transaction)].append(event)
        self.kept.sort(key=self.since_ns)

    def since_ns(self, event: SettlementEvent) -> int:
        """When it was known that what is acked is not handed out any more."""
        if isinstance(event, AckSentEvent):  # its answer is not known, but that of the transaction is
            return self._transactions.since_ns(event.transaction)
        return event.at_ns

    def alone(self, offsets: Sequence[int]) -> dict[int, AckEvent]:
        """Which of the rising offsets one open transaction acked, and no other one."""
        together = sorted(self.open, key=lambda event: event.transaction)
        first, last = first_covering(offsets, together), first_covering(offsets, reversed(together))
        return {offset: one for offset, one in first.items() if one.transaction == last[offset].transaction}

    def answered(self, offsets: Sequence[int]) -> dict[int, AckEvent]:
        """Map each of the rising offsets to the first answer to its ack in an open transaction."""
        return first_covering(offsets, [event for event in self.open if isinstance(event, AckedEvent)])

    def twice(self, offsets: Sequence[int]) -> dict[int, tuple[AckEvent, AckEvent]]:
        """Which of the rising offsets were acked by two transactions that took effect.

        With those of each transaction together, the first and the last that hold an offset differ if any two do.
        """
        together = sorted(
            self.kept, key=lambda event: (self._transactions.since_ns(event.transaction), event.transaction)
        )
        first, last = first_covering(offsets, together), first_covering(offsets, reversed(together))
        return {
            offset: (one, last[offset]) for offset, one in first.items() if one.transaction != last[offset].transaction
        }


class TransactionEvidence:
    """Evidence from a transaction's inputs on whether it took effect."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[str, tuple[Event, ...]]] = {}
        self._given_back: dict[str, tuple[str, tuple[Event, ...]]] = {}

    def done(self, name: str, sentence: str, *events: Event) -> None:
        self._done.setdefault(name, (sentence, events))

    def given_back(self, name: str, sentence: str, *events: Event) -> None:
        self._given_back.setdefault(name, (sentence, events))

    def check(self) -> Iterator[Violation]:
        for name, (done, proofs) in self._done.items():
            if name in self._given_back:
                given_back, others = self._given_back[name]
                yield Violation("torn_transaction", f"{done}, and {given_back}", (*proofs, *others))


def check_twice(
    track: GroupHistory, log: LogHistory, twice: dict[int, tuple[AckEvent, AckEvent]]
) -> Iterator[Violation]:
    """Each two transactions are told once, with the first offset that they share."""
    pairs: dict[tuple[str, str], list[int]] = {}
    for offset, (one, other) in twice.items():
        pairs.setdefault((one.transaction, other.transaction), []).append(offset)
    for (one_name, other_name), offsets in pairs.items():
        stored = log.stored.get(offsets[0])
        value = f" ({stored.value_id})" if stored is not None else ""
        sentence = (
            f"{track.group} has done {track}/{offsets[0]}{value} twice{describe_others(len(offsets))}: "
            f"{one_name} and {other_name} acked it, and both took effect"
        )
        yield Violation("duplicate", sentence, twice[offsets[0]])


# --- the rules ---


def check_ownership(run: RunHistory) -> Iterator[Violation]:
    for (group, generation, topic, partition), claims in run.claims.items():
        if len(claims) > 1:
            members = " and ".join(claims)
            sentence = f"{topic}/{partition} of {group} belongs to {members} in generation {generation}"
            yield Violation("two_owners", sentence, tuple(claims.values()))


def check_key_order(run: RunHistory) -> Iterator[Violation]:
    """A message is delivered when all older ones of its key in other partitions are settled: those of one producer.

    So no poll that was sent after its delivery brings an older one. Delayed messages have no order.
    """
    deliveries: dict[tuple[str, str], list[ReceivedEvent]] = {}
    for track in run.tracks.values():
        for event in track.received:
            deliveries.setdefault((track.group, event.value_id), []).append(event)
    values: dict[tuple[str, str, str], list[str]] = {}
    for sent in run.sent.values():
        if sent.value_id not in run.scheduled:
            values.setdefault((sent.topic, sent.producer, sent.key), []).append(sent.value_id)
    for group in {group for group, _ in deliveries}:
        for ordered in values.values():
            yield from _check_key([found for one in ordered if (found := deliveries.get((group, one)))])


def _check_key(ordered: list[list[ReceivedEvent]]) -> Iterator[Violation]:
    """Check the deliveries of each message of one key, the oldest first."""
    newer: dict[int, ReceivedEvent] = {}
    """By partition, the earliest delivery of what comes later."""
    for received in reversed(ordered):
        last, first = max(received, key=lambda event: event.since_ns), min(received, key=in_order_of_time)
        for partition, event in newer.items():
            if partition != last.partition and event.at_ns < last.since_ns:
                sentence = f"{_delivery(last)} after {event.value_id}, which is newer and of the same key"
                yield Violation("reordered", sentence, (event, last))
        known = newer.get(first.partition)
        if known is None or first.at_ns < known.at_ns:
            newer[first.partition] = first


class GroupChecker:
    """Checks the way of one group through one partition."""

    def __init__(self, track: GroupHistory, log: LogHistory, transactions: TransactionOutcomes) -> None:
        self._track = track
        self._log = log
        self._transactions = transactions
        self._first: dict[int, ReceivedEvent] = {}
        self._again: dict[int, list[ReceivedEvent]] = {}
        """Of what came more than once, all deliveries but the first."""
        for event in track.received:
            if self._first.setdefault(event.offset, event) is not event:
                self._again.setdefault(event.offset, []).append(event)
        self._cover(TransactionalAcks(track, transactions))

    def _cover(self, transaction_acks: TransactionalAcks) -> None:
        """Return what was settled, what may have been, and what only was to be."""
        self._transaction_acks = transaction_acks
        self._since = transaction_acks.since_ns
        offsets = sorted(self._log.stored.keys() | self._first.keys())
        answered = sorted([*self._track.answered, *transaction_acks.kept], key=self._since)
        self._settled: dict[int, SettlementEvent] = first_covering(offsets, answered)
        rest = [offset for offset in offsets if offset not in self._settled]
        self._tried: dict[int, SettlementEvent] = first_covering(rest, [*self._track.tried, *transaction_acks.open])
        rest = [offset for offset in rest if offset not in self._tried]
        self._void = first_covering(rest, transaction_acks.void)
        self._twice = transaction_acks.twice(offsets)

    def count(self, counts: EventCounts) -> None:
        counts.received += len(self._track.received)
        counts.redelivered += len(self._track.received) - len(self._first)
        acked = sum(isinstance(event, AckEvent) for event in self._settled.values())
        counts.acked += acked
        counts.rejected += len(self._settled) - acked

    def check(self, *, in_order: bool) -> Iterator[Violation]:
        yield from self._attempts_rise()
        yield from self._nothing_comes_after_its_end()
        yield from check_twice(self._track, self._log, self._twice)
        if in_order:
            yield from self._first_deliveries_rise()
        for before, after in self._track.falls():
            sentence = f"the floor of {self._track.group} in {self._track} fell from {before.floor} to {after.floor}"
            yield Violation("backward", sentence, (before, after))
        if (floor := self._track.floor) is None:
            sentence = f"it is not known where {self._track.group} stands in {self._track}, so it cannot be checked"
            yield Violation("total", sentence, (self._track.mentioned,))
        else:
            yield from self._floor_holds(floor)

    def hint(self, hints: TransactionEvidence) -> None:
        """Return what is known here of transactions that are not known to have taken effect or not."""
        if not self._transaction_acks.open:
            return
        acked = self._transaction_acks.answered(sorted(self._first))
        for event in self._track.received:
            ack = acked.get(event.offset)
            if ack is not None and event.since_ns > ack.at_ns:
                sentence = f"{_delivery(event)} after {ack.member} had acked it in {ack.transaction}"
                hints.given_back(ack.transaction, sentence, ack, event)
        floor = self._track.floor
        tried = first_covering(sorted(self._tried), self._track.tried)
        for offset, ack in self._transaction_acks.alone(sorted(self._tried)).items():
            if floor is not None and offset < floor.floor and offset not in tried:
                sentence = (
                    f"{floor.group} is done with {self._track}/{offset}, which was acked in {ack.transaction} alone"
                )
                hints.done(ack.transaction, sentence, ack, floor)

    def _nothing_comes_after_its_end(self) -> Iterator[Violation]:
        """A poll that was sent after an ack was answered brings nothing that the ack covers."""
        for event in self._track.received:
            end = self._settled.get(event.offset)
            if end is None or event.since_ns <= self._since(end):
                continue
            if isinstance(end, AckEvent) and end.transaction:
                if event.offset not in self._twice:
                    yield self._given_back(end, event)
                continue
            what = "acked" if isinstance(end, AckEvent) else "rejected"
            sentence = f"{_delivery(event)} after {end.member} had {what} {end.first} to {end.end - 1}"
            yield Violation("duplicated_after_ack", sentence, (end, event))

    def _given_back(self, end: AckEvent, event: ReceivedEvent) -> Violation:
        """The input of a transaction that took effect."""
        shown = self._transactions.shown(end.transaction)
        known = "which was committed" if shown is None else f"of which {describe_finder(shown)}"
        sentence = f"{_delivery(event)} after {end.member} had acked it in {end.transaction}, {known}"
        return Violation("torn_transaction", sentence, (end, *((shown,) if shown else ()), event))

    def _attempts_rise(self) -> Iterator[Violation]:
        for offset, again in self._again.items():
            earlier = [self._first[offset]]
            for event in again:
                if (other := _contradicts(event, earlier)) is not None:
                    sentence = f"{_delivery(event)}, after {other.member} had received it as attempt {other.attempt}"
                    yield Violation("backward", sentence, (other, event))
                earlier.append(event)

    def _first_deliveries_rise(self) -> Iterator[Violation]:
        """Within a member and a generation. The same offset again is found by its attempt."""
        highest: dict[tuple[str, int], ReceivedEvent] = {}
        for event in self._track.received:
            if event.attempt != 1:
                continue
            before = highest.setdefault((event.member, event.generation), event)
            if event.offset > before.offset:
                highest[event.member, event.generation] = event
            elif event.offset < before.offset and self._first[event.offset] is event:
                sentence = f"{_delivery(event)} after offset {before.offset}, in generation {event.generation}"
                yield Violation("backward", sentence, (before, event))

    def _floor_holds(self, floor: SettledEvent) -> Iterator[Violation]:
        """At the end everything is received, settled and below the floor."""
        left = []
        for offset, stored in self._log.stored.items():
            settling = self._settled.get(offset) or self._tried.get(offset)
            if self._transactions.is_void(stored.value_id):
                continue  # no client was to find it
            if offset < floor.floor and settling is None:
                yield self._skipped(floor, stored)
            elif offset not in self._first and not _is_dead(settling):
                yield self._unseen(floor, stored)
            elif offset >= floor.floor:
                left.append(stored)
        where = f"the floor of {self._track.group} in {self._track} is {floor.floor}"
        if left:
            sentence = f"{where}, and {len(left):,} messages, the first at {left[0].offset}, are not below it"
            yield Violation("total", sentence, (floor, *left))
        if (end := self._log.end) is not None and floor.floor > end.end_offset:
            yield Violation("total", f"{where}, and the log ends at {end.end_offset}", (floor, end))

    def _skipped(self, floor: SettledEvent, stored: StoredEvent) -> Violation:
        void = self._void.get(stored.offset)
        if void is not None:
            sentence = (
                f"{floor.group} is done with {self._track}/{stored.offset} ({stored.value_id}), "
                f"which was acked in {void.transaction} alone, and nothing else of that is there"
            )
            return Violation("torn_transaction", sentence, (void, stored, floor))
        received = self._first.get(stored.offset)
        what = "did not receive" if received is None else "neither acked nor rejected"
        sentence = (
            f"{floor.group} {what} {self._track}/{stored.offset} ({stored.value_id}), and its floor is {floor.floor}"
        )
        return Violation("skipped", sentence, (stored, *([received] if received else ()), floor))

    def _unseen(self, floor: SettledEvent, stored: StoredEvent) -> Violation:
        sentence = f"{floor.group} never received {self._track}/{stored.offset} ({stored.value_id})"
        settling = self._settled.get(stored.offset) or self._tried.get(stored.offset)
        return Violation("unseen", sentence, (stored, *([settling] if settling else ()), floor))


def _is_dead(settling: SettlementEvent | None) -> bool:
    """A message may die of deliveries whose answers got lost, so that no client ever received it."""
    return isinstance(settling, (RejectSentEvent, RejectedEvent))


def _contradicts(event: ReceivedEvent, earlier: list[ReceivedEvent]) -> ReceivedEvent | None:
    """A delivery with the same attempt; or one with a higher attempt that had arrived before this one was asked for."""
    for other in earlier:
        if other.attempt == event.attempt or (other.attempt > event.attempt and other.at_ns < event.since_ns):
            return other
    return None


def _delivery(event: ReceivedEvent) -> str:
    place = f"{event.topic}/{event.partition}/{event.offset}"
    return f"{event.member} of {event.group} received {place} ({event.value_id}) as attempt {event.attempt}"
