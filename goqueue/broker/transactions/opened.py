"""The transactions that are open in one partition: from the first message of each to the marker that ends it.

What must stay true: they are in the order of their first offsets, so the oldest is found at once however many there
are; nothing that was appended for one of them is missing in its ranges.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from goqueue.storage.marker import Marker, Range


@dataclass(frozen=True, slots=True)
class End:
    """How a transaction ends, or the part of it that one producer has written."""

    producer: int
    epoch: int
    is_commit: bool


@dataclass(slots=True)
class Opened:
    """What one producer has written here since it began."""

    epoch: int
    ranges: list[Range] = field(default_factory=list)

    @property
    def first_offset(self) -> int:
        return self.ranges[0][0]

    def add(self, first: int, end: int) -> None:
        if self.ranges and self.ranges[-1][1] == first:
            first = self.ranges.pop()[0]
        self.ranges.append((first, end))

    def cut(self, offset: int) -> None:
        """Nothing from this offset on was stored."""
        while self.ranges and self.ranges[-1][1] > offset:
            first, _ = self.ranges.pop()
            if first < offset:
                self.ranges.append((first, offset))

    def pass_over(self, offset: int) -> None:
        """Everything below is decided."""
        self.ranges = [(first, end) for first, end in self.ranges if first >= offset]


class OpenTransactions:
    """Of one partition, by the producers that write them."""

    def __init__(self) -> None:
        self._by_producer: OrderedDict[int, Opened] = OrderedDict()  # whose first one is at hand whatever has gone
        self.held: Range | None = None
        """After a start: offsets in which some may be open that have not been found yet."""

    def __len__(self) -> int:
        return len(self._by_producer)

    def __iter__(self) -> Iterator[tuple[int, Opened]]:
        return iter(self._by_producer.items())

    @property
    def first_offset(self) -> int | None:
        """Where the oldest begins."""
        if self.held is not None:
            return self.held[0]
        for opened in self._by_producer.values():
            return opened.first_offset
        return None

    def of(self, producer: int, epoch: int) -> Opened | None:
        opened = self._by_producer.get(producer)
        return opened if opened is not None and opened.epoch == epoch else None

    def among(self, epochs: Mapping[int, int]) -> list[tuple[int, Opened]]:
        """Of these producers, what is open of these epochs. Many may be open here, or be asked for: the fewer are gone
        through."""
        both = self._by_producer.keys() & epochs.keys()
        found = ((producer, self.of(producer, epochs[producer])) for producer in sorted(both))
        return [(producer, opened) for producer, opened in found if opened is not None]

    def add(self, producer: int, epoch: int, first: int, end: int) -> None:
        opened = self._by_producer.get(producer)
        if opened is None:
            self._by_producer[producer] = Opened(epoch, [(first, end)])
            return
        assert opened.epoch == epoch, "a transaction ends everywhere before the next one of its producer begins"
        opened.add(first, end)

    def take_back(self, producer: int, first: int) -> None:
        """The disk has refused what was appended from this offset on."""
        opened = self._by_producer.get(producer)
        if opened is not None:
            opened.cut(first)
            if not opened.ranges:
                del self._by_producer[producer]

    def markers(self, ends: Sequence[End]) -> list[Marker]:
        """What has to be written for those that have something open here."""
        is_commit = {end.producer: end.is_commit for end in ends}
        found = self.among({end.producer: end.epoch for end in ends})
        return [Marker(one, opened.epoch, is_commit[one], tuple(opened.ranges)) for one, opened in found]

    def close(self, producer: int) -> None:
        """Its marker stands."""
        self._by_producer.pop(producer, None)

    # --- after a start ---

    def hold(self, since: int, end: int) -> None:
        """Let nobody read from here on until it is known what is open below `end`."""
        first, behind = self.held or (since, end)
        self.held = (min(first, since), max(behind, end))

    def restore(self, found: dict[int, Opened]) -> None:
        """What is open of that time."""
        older = dict(sorted(found.items(), key=lambda item: item[1].first_offset))
        self._by_producer = OrderedDict(older | self._by_producer)
        self.held = None

    def __repr__(self) -> str:
        return f"<OpenTransactions {len(self)} from {self.first_offset}>"
