"""Shards: the coordinators of one internal topic, one for each of its partitions.

A shard has the names (groups, transactional ids) that hash to its partition, and follows from the log of that
partition alone. So each is opened and closed while the others go on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work
from goqueue.errors import GoQueueError, LogClosed
from goqueue.events import Signal
from goqueue.partitioner import hash_function, partition_of

_hash = hash_function("murmur3")


class Shard(Protocol):
    """A coordinator over one log."""

    @property
    def journal(self) -> Journal[Any]: ...

    def open(self) -> None:
        """Rebuild the state from the log, and continue what was running."""
        ...

    def close(self, error: GoQueueError) -> Promise[None]:
        """Answer all who wait with this error, and decide nothing more.

        The promise is kept when nothing of it is being written any more.
        """
        ...


S = TypeVar("S", bound=Shard)


class Shards(Generic[S]):
    """The shards of one topic. `make` returns the coordinator of a partition; it is dropped when it is closed."""

    def __init__(self, partitions: Sequence[Partition], make: Callable[[Partition], S]) -> None:
        self.partitions = partitions
        self._make = make
        self._open: list[S | None] = [None] * len(partitions)
        self.is_started = False
        """Whether all were open since the start of the broker: what other logs have is then known in memory."""
        self._refusals: dict[int, GoQueueError | None] = {}
        """Shards that were open before, and why they are closed if it is not to open them again."""
        self._settled: dict[int, Promise[None]] = {}
        """Of closed shards: kept when nothing of them is being written any more."""
        self.on_opened: Signal[[S]] = Signal()
        self.on_closed: Signal[[S]] = Signal()
        """Emitted when all who waited for a shard have their answer."""

    def __iter__(self) -> Iterator[S]:
        """Iterate over the open shards."""
        return (shard for shard in self._open if shard is not None)

    def number(self, name: str) -> int:
        return partition_of(name.encode(), len(self._open), _hash)

    def of(self, name: str) -> S:
        """Return the shard of a name; raise a retryable error while it is closed."""
        return self.at(self.number(name))

    def at(self, number: int) -> S:
        shard = self._open[number]
        if shard is None:
            raise self._refusals.get(number) or self._closed(number)
        return shard

    def refuse_unless_all_open(self) -> None:
        """Raise when a name that is not known here may be known in a closed shard."""
        for number in self._refusals:
            self.at(number)

    def open_all(self) -> None:
        for number in range(len(self._open)):
            self.open(number)
        self.is_started = True

    def open(self, number: int) -> S:
        """Open a shard from its log, after all that was written to it is settled."""
        settled = self._settled.pop(number, None)
        assert settled is None or settled.is_kept, "records of the closed shard are still being written"
        shard = self._open[number] = self._make(self.partitions[number])
        shard.open()
        self._refusals.pop(number, None)
        self.on_opened.emit(shard)
        return shard

    def close(self, number: int, error: GoQueueError | None = None) -> Promise[None]:
        """Close a shard: all who wait for it get the error, and so do requests until it is opened again."""
        shard = self.at(number)
        self._open[number], self._refusals[number] = None, error
        settled = self._settled[number] = shard.close(error or self._closed(number))
        self.on_closed.emit(shard)
        return settled

    def close_all(self, error: GoQueueError) -> None:
        for number, shard in enumerate(self._open):
            if shard is not None:
                self.close(number, error)

    def reopen(self, number: int) -> Work[None]:
        """Close a shard, and open it again from its log."""
        yield self.close(number)
        self.open(number)

    def _closed(self, number: int) -> GoQueueError:
        name, leadership = self.partitions[number].log.name, self.partitions[number].leadership
        if leadership is not None:
            return leadership.other_coordinator()
        return LogClosed(f"log {name} is closed and will be opened again", hint="retry in a moment", retry_after=1)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {sum(1 for _ in self)} of {len(self._open)} open>"
