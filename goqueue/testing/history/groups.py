"""What must be true of a group: every message is handed out, and given back only until it is settled."""

from collections.abc import Iterator

from goqueue.testing.history.cover import first_covering
from goqueue.testing.history.events import Ack, Received, Rejected, Rejecting, Settled, Settling, Stored
from goqueue.testing.history.pledges import Hints, Pledges, check_twice
from goqueue.testing.history.report import Counts, Violation
from goqueue.testing.history.run import Log, Run, Track
from goqueue.testing.history.sentences import found
from goqueue.testing.history.transactions import Transactions


def check_ownership(run: Run) -> Iterator[Violation]:
    for (group, generation, topic, partition), claims in run.claims.items():
        if len(claims) > 1:
            members = " and ".join(claims)
            sentence = f"{topic}/{partition} of {group} belongs to {members} in generation {generation}"
            yield Violation("two_owners", sentence, tuple(claims.values()))


class GroupChecker:
    """Checks the way of one group through one partition."""

    def __init__(self, track: Track, log: Log, transactions: Transactions) -> None:
        self._track = track
        self._log = log
        self._transactions = transactions
        self._first: dict[int, Received] = {}
        self._again: dict[int, list[Received]] = {}
        """Of what came more than once, all deliveries but the first."""
        for event in track.received:
            if self._first.setdefault(event.offset, event) is not event:
                self._again.setdefault(event.offset, []).append(event)
        self._cover(Pledges(track, transactions))

    def _cover(self, pledges: Pledges) -> None:
        """What was settled, what may have been, and what only was to be."""
        self._pledges = pledges
        self._since = pledges.since_ns
        offsets = sorted(self._log.stored.keys() | self._first.keys())
        answered = sorted([*self._track.answered, *pledges.kept], key=self._since)
        self._settled: dict[int, Settling] = first_covering(offsets, answered)
        rest = [offset for offset in offsets if offset not in self._settled]
        self._tried: dict[int, Settling] = first_covering(rest, [*self._track.tried, *pledges.open])
        rest = [offset for offset in rest if offset not in self._tried]
        self._void = first_covering(rest, pledges.void)
        self._twice = pledges.twice(offsets)

    def count(self, counts: Counts) -> None:
        counts.received += len(self._track.received)
        counts.redelivered += len(self._track.received) - len(self._first)
        acked = sum(isinstance(event, Ack) for event in self._settled.values())
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

    def hint(self, hints: Hints) -> None:
        """What is known here of transactions that are not known to have taken effect or not."""
        if not self._pledges.open:
            return
        acked = self._pledges.answered(sorted(self._first))
        for event in self._track.received:
            ack = acked.get(event.offset)
            if ack is not None and event.since_ns > ack.at_ns:
                sentence = f"{_delivery(event)} after {ack.member} had acked it in {ack.transaction}"
                hints.given_back(ack.transaction, sentence, ack, event)
        floor = self._track.floor
        tried = first_covering(sorted(self._tried), self._track.tried)
        for offset, ack in self._pledges.alone(sorted(self._tried)).items():
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
            if isinstance(end, Ack) and end.transaction:
                if event.offset not in self._twice:
                    yield self._given_back(end, event)
                continue
            what = "acked" if isinstance(end, Ack) else "rejected"
            sentence = f"{_delivery(event)} after {end.member} had {what} {end.first} to {end.end - 1}"
            yield Violation("duplicated_after_ack", sentence, (end, event))

    def _given_back(self, end: Ack, event: Received) -> Violation:
        """The input of a transaction that took effect."""
        shown = self._transactions.shown(end.transaction)
        known = "which was committed" if shown is None else f"of which {found(shown)}"
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
        highest: dict[tuple[str, int], Received] = {}
        for event in self._track.received:
            if event.attempt != 1:
                continue
            before = highest.setdefault((event.member, event.generation), event)
            if event.offset > before.offset:
                highest[event.member, event.generation] = event
            elif event.offset < before.offset and self._first[event.offset] is event:
                sentence = f"{_delivery(event)} after offset {before.offset}, in generation {event.generation}"
                yield Violation("backward", sentence, (before, event))

    def _floor_holds(self, floor: Settled) -> Iterator[Violation]:
        """At the end everything is received, settled and below the floor."""
        left = []
        for offset, stored in self._log.stored.items():
            settling = self._settled.get(offset) or self._tried.get(offset)
            if self._transactions.is_void(stored.value_id):
                continue  # nobody was to find it
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

    def _skipped(self, floor: Settled, stored: Stored) -> Violation:
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

    def _unseen(self, floor: Settled, stored: Stored) -> Violation:
        sentence = f"{floor.group} never received {self._track}/{stored.offset} ({stored.value_id})"
        settling = self._settled.get(stored.offset) or self._tried.get(stored.offset)
        return Violation("unseen", sentence, (stored, *([settling] if settling else ()), floor))


def _is_dead(settling: Settling | None) -> bool:
    """A message may die of deliveries whose answers got lost, so that nobody ever received it."""
    return isinstance(settling, (Rejecting, Rejected))


def _contradicts(event: Received, earlier: list[Received]) -> Received | None:
    """A delivery with the same attempt; or one with a higher attempt that had arrived before this one was asked for."""
    for other in earlier:
        if other.attempt == event.attempt or (other.attempt > event.attempt and other.at_ns < event.since_ns):
            return other
    return None


def _delivery(event: Received) -> str:
    place = f"{event.topic}/{event.partition}/{event.offset}"
    return f"{event.member} of {event.group} received {place} ({event.value_id}) as attempt {event.attempt}"
