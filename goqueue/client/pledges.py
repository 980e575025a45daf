"""What a transaction acknowledges: messages of consumers, and offsets of groups. No threads, no sockets.

Noted at the call, and told to the broker with the commit, so that a thousand calls are one request. What must stay
true: from the call on nobody else settles these messages, and their lease is extended until the broker knows.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from goqueue.client import refusals, transactions
from goqueue.client.calls import Script
from goqueue.client.delivered import Batch, Delivered
from goqueue.client.endpoints import GroupOffsets
from goqueue.client.intervals import Intervals, Range
from goqueue.client.lease import Fate, Held, Lease
from goqueue.client.leases import RANGES_MAX
from goqueue.client.options import check_group
from goqueue.client.polls import TopicPartition
from goqueue.client.transactions import Facts, Whose
from goqueue.errors import RequestInvalid
from goqueue.limits import OFFSET_MAX

Places = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]
"""By topic and partition the offset before which everything is done."""


class Member(Protocol):
    """A consumer, as far as offsets need one."""

    group: str

    @property
    def member_id(self) -> str | None: ...
    @property
    def generation(self) -> int: ...


class Pledge:
    """What of one lease is acknowledged. It has the lease, so that this is alive and extended."""

    __slots__ = ("lease", "ranges", "said_by", "told")

    def __init__(self, lease: Lease, said_by: tuple[str, str]) -> None:
        self.lease = lease
        self.said_by = said_by
        """Group and member."""
        self.ranges: list[Range] = []
        self.told = False

    def become(self, fate: Fate, reason: str | None = None) -> None:
        self.lease.owner.redeem(self.lease.held, self.ranges, fate, reason)

    def to_tell(self) -> list[Range]:
        return self.lease.held.widened(self.ranges)


Entry = tuple[Pledge, list[Range]]
"""Of a request."""


class Pledges:
    """Of one transaction."""

    def __init__(self) -> None:
        self._pledges: dict[Held, Pledge] = {}
        self._offsets: dict[tuple[str, str | None, int | None], dict[TopicPartition, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._pledges or self._offsets)

    # --- what is noted ---

    def acknowledge(self, given: object) -> None:
        """A batch, a message or several of them; what was settled before stays so."""
        for lease, ranges in _leased(given):
            held, owner = lease.held, lease.owner
            fresh, said_by = owner.pledge(held, ranges)
            if fresh:
                pledge = self._pledges.get(held)
                if pledge is None:
                    pledge = self._pledges[held] = Pledge(lease, said_by)
                pledge.ranges += fresh

    def commit_offsets(self, group: str, offsets: Places, consumer: Member | None) -> None:
        check_group(group)
        if consumer is None:
            who: tuple[str, str | None, int | None] = group, None, None
        elif consumer.group != group:
            raise RequestInvalid(f"the consumer is of group {consumer.group}, and the offsets are for group {group}")
        elif consumer.member_id is None:
            raise RequestInvalid("the consumer has not joined its group", hint="iterate it, or enter its with block")
        else:
            who = group, consumer.member_id, consumer.generation
        places = {_place(place): _offset(place, offset) for place, offset in offsets.items()}
        if places:
            self._offsets.setdefault(who, {}).update(places)

    # --- what is told ---

    def tell(self, whose: Whose) -> Script[None]:
        """Tell the broker, which has begun the transaction; raises what it refuses."""
        for (group, member_id), entries in self._requests():
            results = yield transactions.acks(whose, group, member_id, [_to_wire(*entry) for entry in entries])
            for (pledge, _), result in zip(entries, results, strict=True):
                if result.get("error") is not None:
                    raise refusals.of_record(result["error"])
                if not pledge.told:
                    pledge.told = True
                    pledge.become(Fate.TOLD)
        for (name, member, generation), places in self._offsets.items():
            yield transactions.offsets(whose, name, _by_topic(places), member, generation)

    def _requests(self) -> Iterator[tuple[tuple[str, str], list[Entry]]]:
        """For each member what fits a request, and the rest in another one."""
        by_member: dict[tuple[str, str], list[Entry]] = {}
        for pledge in self._pledges.values():
            ranges = pledge.to_tell()
            for first in range(0, len(ranges), RANGES_MAX):
                by_member.setdefault(pledge.said_by, []).append((pledge, ranges[first : first + RANGES_MAX]))
        for said_by, entries in by_member.items():
            some: list[Entry] = []
            count = 0
            for entry in entries:
                if count + len(entry[1]) > RANGES_MAX:
                    yield said_by, some
                    some, count = [], 0
                some.append(entry)
                count += len(entry[1])
            yield said_by, some

    def close(self, *, committed: bool, reason: str | None = None) -> None:
        """How the transaction ended; with a `reason` because whoever worked on the messages has failed."""
        for pledge in self._pledges.values():
            fate = Fate.UNSAID if not pledge.told else Fate.DONE if committed else Fate.BACK
            pledge.become(fate, reason)
        self._pledges.clear()  # what has its lease has it extended


def _leased(given: object) -> list[tuple[Lease, list[Range]]]:
    """Which offsets of which leases are meant."""
    if isinstance(given, Batch):
        leased = given._lease.held.leased
        return [(given._lease, [(leased.first, leased.end)])]
    if isinstance(given, Delivered):
        return [(given._lease, [(given.offset, given.offset + 1)])]
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
        raise _unfit(given)
    found: dict[Lease, Intervals] = {}
    for one in given:
        if not isinstance(one, (Batch, Delivered)):
            raise _unfit(one)
        for lease, ranges in _leased(one):
            for first, end in ranges:
                found.setdefault(lease, Intervals()).add(first, end)
    return [(lease, offsets.ranges()) for lease, offsets in found.items()]


def _unfit(given: object) -> RequestInvalid:
    return RequestInvalid(
        f"{type(given).__name__} is nothing to acknowledge",
        hint="give a batch that a consumer has handed out, or messages of one",
    )


def _to_wire(pledge: Pledge, ranges: list[Range]) -> Facts:
    leased = pledge.lease.held.leased
    return {"topic": leased.topic, "partition": leased.partition, "lease": leased.lease, "ranges": ranges}


def _place(place: object) -> TopicPartition:
    if isinstance(place, TopicPartition):
        return place
    if isinstance(place, tuple) and len(place) == 2 and type(place[0]) is str and type(place[1]) is int:
        return TopicPartition(*place)
    raise RequestInvalid(f"{place!r} is not a topic and a partition", hint='write {("orders", 0): 42}, for example')


def _offset(place: object, offset: object) -> int:
    if type(offset) is not int or not 0 <= offset <= OFFSET_MAX:
        raise RequestInvalid(f"the offset of {place} is {offset!r}, and must be a whole number from 0")
    return offset


def _by_topic(places: Mapping[TopicPartition, int]) -> GroupOffsets:
    found: GroupOffsets = {}
    for place, offset in places.items():
        found.setdefault(place.topic, {})[place.partition] = offset
    return found
