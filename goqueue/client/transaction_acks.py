"""The acks of a transaction: messages of consumers, and offsets of groups. No threads, no sockets.

Acks are noted at the call and sent with the commit, so that a thousand calls are one request. What must stay true: from
the call on only the transaction settles these messages, and their lease is extended until the broker knows of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from goqueue.client import transaction_requests
from goqueue.client.admin_requests import GroupOffsets, JsonObject
from goqueue.client.api_request import RequestSequence, error_of_record
from goqueue.client.consumer_core import check_group
from goqueue.client.lease import AckOutcome, HeldLease, LeaseHandle, OffsetRanges, Range
from goqueue.client.lease_tracker import RANGES_MAX
from goqueue.client.leased_message import Batch, Delivered
from goqueue.client.member_requests import TopicPartition
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.errors import RequestInvalid
from goqueue.limits import OFFSET_MAX

OffsetsByPartition = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]
"""The offset to commit for each topic and partition."""


class ConsumerIdentity(Protocol):
    """The part of a consumer that offset commits need."""

    group: str

    @property
    def member_id(self) -> str | None: ...
    @property
    def generation(self) -> int: ...


class LeaseAck:
    """The offsets of one lease that the transaction acknowledges. It keeps the lease alive, and so extended."""

    __slots__ = ("lease", "member", "ranges", "sent")

    def __init__(self, lease: LeaseHandle, member: tuple[str, str]) -> None:
        self.lease = lease
        self.member = member
        """The group and the member."""
        self.ranges: list[Range] = []
        self.sent = False

    def finish(self, outcome: AckOutcome, reason: str | None = None) -> None:
        self.lease.owner.finish_reservation(self.lease.held, self.ranges, outcome, reason)

    def ranges_to_send(self) -> list[Range]:
        return self.lease.held.widened(self.ranges)


AckEntry = tuple[LeaseAck, list[Range]]
"""One entry of a request."""


class TransactionAcks:
    """The acks and offsets of one transaction."""

    def __init__(self) -> None:
        self._acks: dict[HeldLease, LeaseAck] = {}
        self._offsets: dict[tuple[str, str | None, int | None], dict[TopicPartition, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._acks or self._offsets)

    # --- noting ---

    def acknowledge(self, given: object) -> None:
        """Note a batch, a message or several. Messages that were settled before stay settled."""
        for lease, ranges in _leased(given):
            held, owner = lease.held, lease.owner
            fresh, member = owner.reserve(held, ranges)
            if fresh:
                ack = self._acks.get(held)
                if ack is None:
                    ack = self._acks[held] = LeaseAck(lease, member)
                ack.ranges += fresh

    def commit_offsets(self, group: str, offsets: OffsetsByPartition, consumer: ConsumerIdentity | None) -> None:
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

    # --- sending ---

    def send(self, whose: TransactionIdentity) -> RequestSequence[None]:
        """Send the acks; the broker has begun the transaction. Raises what it refuses."""
        for (group, member_id), entries in self._requests():
            results = yield transaction_requests.acks(whose, group, member_id, [_to_wire(*entry) for entry in entries])
            for (ack, _), result in zip(entries, results, strict=True):
                if result.get("error") is not None:
                    raise error_of_record(result["error"])
                if not ack.sent:
                    ack.sent = True
                    ack.finish(AckOutcome.SENT)
        for (name, member, generation), places in self._offsets.items():
            yield transaction_requests.offsets(whose, name, _by_topic(places), member, generation)

    def _requests(self) -> Iterator[tuple[tuple[str, str], list[AckEntry]]]:
        """Yield the entries of each member, as many as fit a request."""
        by_member: dict[tuple[str, str], list[AckEntry]] = {}
        for ack in self._acks.values():
            ranges = ack.ranges_to_send()
            for first in range(0, len(ranges), RANGES_MAX):
                by_member.setdefault(ack.member, []).append((ack, ranges[first : first + RANGES_MAX]))
        for member, entries in by_member.items():
            some: list[AckEntry] = []
            count = 0
            for entry in entries:
                if count + len(entry[1]) > RANGES_MAX:
                    yield member, some
                    some, count = [], 0
                some.append(entry)
                count += len(entry[1])
            yield member, some

    def close(self, *, committed: bool, reason: str | None = None) -> None:
        """Finish the transaction; a `reason` says why the processing of the messages failed."""
        for ack in self._acks.values():
            outcome = (
                AckOutcome.UNSENT if not ack.sent else AckOutcome.COMMITTED if committed else AckOutcome.REDELIVERED
            )
            ack.finish(outcome, reason)
        self._acks.clear()  # otherwise their leases would be extended on


def _leased(given: object) -> list[tuple[LeaseHandle, list[Range]]]:
    """Return the leases and offsets that are meant."""
    if isinstance(given, Batch):
        leased = given._lease.held.leased
        return [(given._lease, [(leased.first, leased.end)])]
    if isinstance(given, Delivered):
        return [(given._lease, [(given.offset, given.offset + 1)])]
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
        raise _unfit(given)
    found: dict[LeaseHandle, OffsetRanges] = {}
    for one in given:
        if not isinstance(one, (Batch, Delivered)):
            raise _unfit(one)
        for lease, ranges in _leased(one):
            for first, end in ranges:
                found.setdefault(lease, OffsetRanges()).add(first, end)
    return [(lease, offsets.ranges()) for lease, offsets in found.items()]


def _unfit(given: object) -> RequestInvalid:
    return RequestInvalid(
        f"{type(given).__name__} cannot be acknowledged", hint="pass a batch of a consumer, or messages of one"
    )


def _to_wire(ack: LeaseAck, ranges: list[Range]) -> JsonObject:
    leased = ack.lease.held.leased
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
