"""The base of all traffic in a simulated world."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.broker.broker import Broker
from goqueue.storage.store import Store
from goqueue.testing.disk import FaultyDisk

if TYPE_CHECKING:
    from tests.simulation.world import World

Actions = dict[Callable[[], None], float]
"""What may happen next, with its weight."""


class Traffic:
    """Clients of one kind: what they may do next, what they were told, and what must hold of it."""

    topics: frozenset[str] = frozenset()
    """Topics that belong to this traffic alone."""
    caches: tuple[str, ...] = ()
    """Ends of paths that may be deleted between two lives."""
    expected_codes: tuple[str, ...] = ()
    """Errors that a sound disk may lead to as well."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.random = world.random
        self.clock = world.clock
        self.counts = world.counts
        self.tell, self.attempt, self.refused = world.tell, world.attempt, world.refused

    @property
    def broker(self) -> Broker:
        return self.world.broker

    @property
    def store(self) -> Store:
        return self.world.store

    @property
    def disk(self) -> FaultyDisk:
        return self.world.disk

    @property
    def lives(self) -> int:
        return self.world.lives

    @property
    def tick(self) -> int:
        return self.world.tick

    @property
    def is_faulty(self) -> bool:
        return self.world.is_faulty

    def actions(self) -> Actions:
        """Return what these clients may do next."""
        return {}

    def begin(self) -> None:
        """Give the first steps something to do."""

    def opened(self) -> None:
        """The broker has recovered: create what has to be there."""

    def recovered(self) -> None:
        """Check what a start found."""

    def before_step(self) -> None:
        """Let a little time pass, where that matters."""

    def observe(self) -> None:
        """Check after each step what can be checked quickly."""

    def commit(self) -> None:
        """Commit what `World.commit` does not know of."""

    def flushed(self) -> None:
        """The disk has written, and callers were answered."""

    def time_passed(self) -> None:
        """The clock has moved on."""

    def check(self) -> None:
        """Compare everything with the model."""

    def before_stop(self) -> None:
        """End what a clean stop waits for."""

    def stopped(self) -> None:
        """Check what must hold after a clean stop."""

    def died(self, *, may_lose_answers: bool) -> None:
        """The process has ended: forget what was on its way."""

    def rest(self) -> None:
        """On a sound disk, let everything owed arrive, and check that it did."""

    def after_rest(self) -> None:
        """Check once more after the last clean stop."""
