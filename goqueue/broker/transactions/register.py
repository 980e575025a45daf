"""All transactional ids: the state that their records make."""

from collections.abc import Iterator

from goqueue.broker.transactions.records import Forgotten, Record, Registered
from goqueue.broker.transactions.states import OPEN


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

    def __len__(self) -> int:
        return len(self.by_id)

    def of_producer(self, producer: int) -> Registered | None:
        """Whose producer, or whose transaction's member, this is or was."""
        name = self.by_producer.get(producer)
        return None if name is None else self.by_id[name]

    def open_ones(self) -> Iterator[Registered]:
        return (self.by_id[name] for name in list(self.opened))

    def closed_ones(self) -> Iterator[Registered]:
        """Those of which nothing is open, the one that has changed last first; nothing may change meanwhile."""
        return (record for record in reversed(self.by_id.values()) if record.id not in self.opened)

    def apply(self, record: Record) -> None:
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
