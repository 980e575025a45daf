"""The state of all transactional ids."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

from msgspec.structs import replace

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.transactions.records import (
    OPEN,
    EndedTransaction,
    TransactionalIdForgotten,
    TransactionMetadata,
    TransactionRecord,
)
from goqueue.broker.transactions.refusals import ASKED, REASONS
from goqueue.clock import NANOSECONDS
from goqueue.limits import EPOCH_MAX, TRANSACTIONAL_IDS_DELETED_AT_ONCE


class TransactionRegistry:
    """All transactional ids, changed by records only."""

    def __init__(self, by_producer: dict[int, str] | None = None) -> None:
        """`by_producer` is an index that several registries share."""
        self.by_producer = {} if by_producer is None else by_producer
        """Ids by their producers, former producers, and members of open transactions."""
        self.by_id: dict[str, TransactionMetadata] = {}
        """In order of their last change."""
        self.clear()

    def clear(self) -> None:
        self.release()
        self.by_id = {}
        self.opened: dict[str, None] = {}
        """Ids with an open transaction, oldest first."""
        self.doubtful: set[str] = set()
        """Ids whose latest record may be lost."""
        self.lost = 0
        """Maximum number of lost records."""

    def release(self) -> None:
        """Remove the producers from the shared index: they are not found here any more."""
        for known in self.by_id.values():
            for producer in _producers(known):
                self.by_producer.pop(producer, None)

    def __len__(self) -> int:
        return len(self.by_id)

    def of_producer(self, producer: int) -> TransactionMetadata | None:
        """Return the id to which this producer belongs or belonged, as its own or as a member."""
        name = self.by_producer.get(producer)
        return None if name is None else self.by_id.get(name)

    def is_open(self, whose: TransactionId) -> bool:
        known = self.of_producer(whose.producer)
        return known is not None and known.whose == whose and known.state in OPEN

    def was_committed(self, whose: TransactionId) -> bool:
        """Return whether this is the last transaction of its id and was committed."""
        known = self.of_producer(whose.producer)
        last = known.last if known is not None else None
        return last is not None and last.whose == whose and last.state == "complete_commit"

    def with_epochs_raised(self, names: Iterable[str], by: int) -> list[TransactionRecord]:
        """Return records that raise the epochs of the closed ids among these. An id at the largest epoch is removed and
        gets a new producer.
        """
        closed = [known for known in map(self.by_id.__getitem__, names) if known.state not in OPEN]
        used_up = [known.id for known in closed if known.epoch + by > EPOCH_MAX]
        raised = [replace(known, epoch=known.epoch + by, former=None) for known in closed if known.id not in used_up]
        return [*raised, *map(TransactionalIdForgotten, used_up)]

    def forget_unused(self, before_ns: int) -> list[TransactionRecord]:
        """Return records that remove some of the ids not used since then."""
        old = takewhile(lambda one: one.changed_ns < before_ns, self.by_id.values())
        unused = islice((one for one in old if one.state not in OPEN), TRANSACTIONAL_IDS_DELETED_AT_ONCE)
        return [TransactionalIdForgotten(one.id) for one in unused]

    def open_ones(self) -> Iterator[TransactionMetadata]:
        return (self.by_id[name] for name in list(self.opened))

    def closed_ones(self) -> Iterator[TransactionMetadata]:
        """Yield the ids without an open transaction, the one changed last first. Nothing may change meanwhile."""
        return (record for record in reversed(self.by_id.values()) if record.id not in self.opened)

    def note_loss(self, count: int) -> None:
        """The latest record of each id may be lost."""
        self.lost += count
        self.doubtful.update(self.by_id)

    def apply(self, record: TransactionRecord) -> None:
        self.doubtful.discard(record.id)
        former = self.by_id.pop(record.id, None)
        if former is not None:
            for producer in _producers(former):
                self.by_producer.pop(producer, None)
        if isinstance(record, TransactionalIdForgotten):
            self.opened.pop(record.id, None)
            return
        self.by_id[record.id] = record
        for producer in _producers(record):
            self.by_producer[producer] = record.id
        if record.state in OPEN:
            self.opened[record.id] = None
        else:
            self.opened.pop(record.id, None)

    def records(self) -> Iterator[TransactionRecord]:
        yield from self.by_id.values()


def _producers(record: TransactionMetadata) -> tuple[int, ...]:
    return (*record.earlier, record.producer, *record.members)


@dataclass(slots=True)
class TransactionCounts:
    """Counts since the broker started."""

    committed: int = 0
    aborted: dict[str, int] = field(default_factory=dict)
    """By reason; a reason given by a client counts as `asked`."""
    seconds: float = 0.0
    """Total duration of ended transactions."""

    def note(self, ended: EndedTransaction) -> None:
        self.seconds += duration_seconds(ended)
        if ended.state == "complete_commit":
            self.committed += 1
        else:
            reason = ended.reason if ended.reason in REASONS else ASKED
            self.aborted[reason] = self.aborted.get(reason, 0) + 1


def duration_seconds(ended: EndedTransaction) -> float:
    return max(0, ended.ended_ns - ended.began_ns) / NANOSECONDS
