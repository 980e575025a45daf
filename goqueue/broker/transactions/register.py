"""All transactional ids: the state that their records make."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from goqueue.broker.transactions.records import Forgotten, Record, Registered
from goqueue.broker.transactions.states import OPEN
from goqueue.broker.transactions.whose import Whose
from goqueue.limits import EPOCH_MAX


class Register:
    """Whoever holds it persists what is decided before it tells anybody."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.by_id: dict[str, Registered] = {}
        """In the order in which they have changed."""
        self.by_producer: dict[int, str] = {}
        """The producers of all ids, those that had them before, and the members of transactions that are open."""
        self.opened: dict[str, None] = {}
        """The ids whose transactions hold something back, the oldest first."""
        self.doubtful: set[str] = set()
        """Ids that may have changed in lost records, and of which no record has been read since."""
        self.lost = 0
        """How many records are lost at most."""

    def __len__(self) -> int:
        return len(self.by_id)

    def of_producer(self, producer: int) -> Registered | None:
        """Whose producer, or whose transaction's member, this is or was."""
        name = self.by_producer.get(producer)
        return None if name is None else self.by_id[name]

    def is_open(self, whose: Whose) -> bool:
        known = self.of_producer(whose.producer)
        return known is not None and known.whose == whose and known.state in OPEN

    def was_committed(self, whose: Whose) -> bool:
        """Whether it is the last one of its id, and was committed."""
        known = self.of_producer(whose.producer)
        last = known.last if known is not None else None
        return last is not None and last.whose == whose and last.state == "complete_commit"

    def with_epochs_raised(self, names: Iterable[str], by: int) -> list[Record]:
        """Records that give those of these ids that have nothing open an epoch that nobody had; an open one gets it
        when it has ended. With the largest epoch an id is forgotten, and gets another producer."""
        closed = [known for known in map(self.by_id.__getitem__, names) if known.state not in OPEN]
        used_up = [known.id for known in closed if known.epoch + by > EPOCH_MAX]
        raised = [replace(known, epoch=known.epoch + by, former=None) for known in closed if known.id not in used_up]
        return [*raised, *map(Forgotten, used_up)]

    def open_ones(self) -> Iterator[Registered]:
        return (self.by_id[name] for name in list(self.opened))

    def closed_ones(self) -> Iterator[Registered]:
        """Those of which nothing is open, the one that has changed last first; nothing may change meanwhile."""
        return (record for record in reversed(self.by_id.values()) if record.id not in self.opened)

    def note_loss(self, count: int) -> None:
        """The latest record of each id may be among those that are lost."""
        self.lost += count
        self.doubtful.update(self.by_id)

    def apply(self, record: Record) -> None:
        self.doubtful.discard(record.id)
        former = self.by_id.pop(record.id, None)
        if former is not None:
            for producer in (former.producer, *former.earlier, *former.members):
                self.by_producer.pop(producer, None)
        if isinstance(record, Forgotten):
            self.opened.pop(record.id, None)
            return
        self.by_id[record.id] = record
        for producer in (*record.earlier, record.producer, *record.members):
            self.by_producer[producer] = record.id
        if record.state in OPEN:
            self.opened[record.id] = None
        else:
            self.opened.pop(record.id, None)

    def records(self) -> Iterator[Record]:
        """Records that make this state from none."""
        yield from self.by_id.values()
