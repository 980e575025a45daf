"""Ids of producers: reserved in the catalog a block at a time, and given out once.

What must stay true: no other directory and no restored copy of this one gives out the same ids. So a block is drawn at
random, every start takes new blocks, and an id leaves only when its block is on the device.
"""

from collections.abc import Callable

from goqueue.broker.catalog import Catalog, Record
from goqueue.broker.journal import Journal
from goqueue.broker.producers import never_given
from goqueue.broker.work import Promise, Told
from goqueue.errors import GoQueueError
from goqueue.limits import PRODUCER_BLOCK_IDS
from goqueue.storage.chunk import Acknowledge


class ProducerIds:
    """The ids of one data directory."""

    def __init__(self, catalog: Catalog, journal: Journal[Record], chance: Callable[[int], int]) -> None:
        """`chance` gives a number of so many bits that cannot be guessed."""
        self._catalog = catalog
        self._journal = journal
        self._chance = chance
        self._free = iter(range(0))
        self._waiting: list[Told[int]] = []
        self._blocks_of_start: set[int] = set()
        self.on_wait: Callable[[Promise[None]], None] = lambda promise: promise(None)
        """Called with what is to be kept in a moment, never at once: then it is looked again whether something was
        synced."""

    def give(self, told: Told[int]) -> None:
        """Give an id that no other producer has had, or will have."""
        if not self._waiting and (given := next(self._free, None)) is not None:
            told(given)
            return
        self._waiting.append(told)
        if len(self._waiting) == 1:
            self._reserve()

    def has_given(self, producer: int) -> bool:
        """Whether a producer may have this id."""
        return self._catalog.has_given(producer)

    def is_of_start(self, producer: int) -> bool:
        """Whether this id was given out since the start: what is restored later cannot know of it."""
        return producer // PRODUCER_BLOCK_IDS in self._blocks_of_start

    def refuse_unless_given(self, producer: int) -> None:
        if not self._catalog.has_given(producer):
            raise never_given(producer)

    def _reserve(self) -> None:
        reserved = self._catalog.reserve_producer_ids(self._chance)

        def durable(error: GoQueueError | None) -> None:
            waiting, self._waiting = self._waiting, []
            if error is None:
                self._free = iter(reserved.ids)
                self._blocks_of_start.add(reserved.block)
            for told in waiting:
                try:
                    told(error) if error else self.give(told)
                except GoQueueError as refusal:
                    told(refusal)

        def settled(error: GoQueueError | None) -> None:
            durable(error) if error else self._when_synced(self._journal.log.readable_end, durable)

        try:
            self._journal.record([reserved], settled)
        except GoQueueError:
            self._waiting.clear()
            raise

    def _when_synced(self, end: int, told: Acknowledge) -> None:
        """Under `flush: interval` as well: an id that is not on the device may be given out again after a crash."""
        log = self._journal.log
        if log.durable_end >= end:
            told(None)
            return
        try:
            log.refuse_unless_open()
        except GoQueueError as error:
            told(error)
            return
        log.sync_soon()
        moment: Promise[None] = Promise()
        moment.then(lambda _: self._when_synced(end, told))
        self.on_wait(moment)

    def __repr__(self) -> str:
        return f"<ProducerIds {len(self._blocks_of_start)} blocks since the start>"
