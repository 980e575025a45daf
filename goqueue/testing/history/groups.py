"""What must be true of a group: every message is handed out, and given back only until it is settled."""

from collections.abc import Iterator

from goqueue.testing.history.cover import first_covering
from goqueue.testing.history.events import Acked, Received, Rejected, Rejecting, Settled, Settling, Stored
from goqueue.testing.history.report import Counts, Violation
from goqueue.testing.history.run import Log, Run, Track


def check_ownership(run: Run) -> Iterator[Violation]:
    for (group, generation, topic, partition), claims in run.claims.items():
        if len(claims) > 1:
            members = " and ".join(claims)
            sentence = f"{topic}/{partition} of {group} belongs to {members} in generation {generation}"
            yield Violation("two_owners", sentence, tuple(claims.values()))


class GroupChecker:
    """Checks the way of one group through one partition."""

    def __init__(self, track: Track, log: Log) -> None:
        self._track = track
        self._log = log
        self._first: dict[int, Received] = {}
        self._again: dict[int, list[Received]] = {}
        """Of what came more than once, all deliveries but the first."""
        for event in track.received:
            if self._first.setdefault(event.offset, event) is not event:
                self._again.setdefault(event.offset, []).append(event)
        offsets = sorted(log.stored.keys() | self._first.keys())
        self._settled = first_covering(offsets, track.answered)
        rest = [offset for offset in offsets if offset not in self._settled]
        self._tried = first_covering(rest, track.tried)

    def count(self, counts: Counts) -> None:
        counts.received += len(self._track.received)
        counts.redelivered += len(self._track.received) - len(self._first)
        acked = sum(isinstance(event, Acked) for event in self._settled.values())
        counts.acked += acked
        counts.rejected += len(self._settled) - acked

    def check(self, *, in_order: bool) -> Iterator[Violation]:
        yield from self._attempts_rise()
        yield from self._nothing_comes_after_its_end()
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

    def _nothing_comes_after_its_end(self) -> Iterator[Violation]:
        """A poll that was sent after an ack was answered brings nothing that the ack covers."""
        for event in self._track.received:
            end = self._settled.get(event.offset)
            if end is not None and event.since_ns > end.at_ns:
                what = "acked" if isinstance(end, Acked) else "rejected"
                sentence = f"{_delivery(event)} after {end.member} had {what} {end.first} to {end.end - 1}"
                yield Violation("duplicated_after_ack", sentence, (end, event))

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
