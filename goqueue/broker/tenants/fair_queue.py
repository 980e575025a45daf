"""Deficit round robin: work that waits is served in turns, so that each tenant gets the same share.

A tenant whose turn it is gets a quantum, and is served while it has some of it left. Each piece of work is charged when
it is done, because its cost is not known before: so a tenant may get into debt by one piece, and waits until its
further quanta have paid for that. What a tenant does not use is forgotten when it has no more work; a debt is kept
until it is paid, or until no tenant has any work.

What must stay true: while two tenants have work all the time, what they got differs by at most two quanta and the most
expensive piece of work. A tenant that is alone never waits.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class TenantQueue(Generic[T]):
    """The work of one tenant that waits."""

    __slots__ = ("begun", "charged", "deficit", "is_in_ring", "new")

    def __init__(self) -> None:
        self.begun: deque[T] = deque()
        """Continues before new work begins: its requests hold memory."""
        self.new: deque[T] = deque()
        self.deficit = 0
        """The rest of the quanta; negative while it is in debt."""
        self.is_in_ring = False
        self.charged = 0
        """The cost of all that was done."""

    def __len__(self) -> int:
        return len(self.begun) + len(self.new)

    def take(self) -> T:
        """Remove and return the next piece of work."""
        return self.begun.popleft() if self.begun else self.new.popleft()

    def charge(self, cost: int) -> None:
        """Charge work that was done."""
        self.deficit -= cost
        self.charged += cost


class FairQueue(Generic[T]):
    """The queues of all tenants with work. `next` says whose turn it is; the caller takes, does and charges."""

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._ring: deque[TenantQueue[T]] = deque()
        """Tenants with work, or with a debt; the first one has its turn."""

    def add(self, queue: TenantQueue[T]) -> None:
        """Let a tenant take part that has got work. It comes last."""
        if not queue.is_in_ring:
            queue.is_in_ring = True
            if not self._ring:
                queue.deficit = self._quantum
            self._ring.append(queue)

    def is_alone(self, queue: TenantQueue[T]) -> bool:
        """Return whether no other tenant takes part."""
        return not self._ring or (len(self._ring) == 1 and queue.is_in_ring)

    def next(self) -> TenantQueue[T] | None:
        """Return the tenant whose turn it is, which has work; None if no tenant has any."""
        ring, passed = self._ring, 0
        while ring:
            queue = ring[0]
            if queue.deficit <= 0:
                ring.rotate(-1)
                passed += 1
                if passed > len(ring):  # in debt, all of them
                    if not any(ring):
                        self._forget()
                        return None
                    self._pass_rounds()
                    passed = 0
            elif queue.begun or queue.new:
                return queue
            else:
                self._leave(ring.popleft())
            if ring:
                ring[0].deficit += self._quantum
        return None

    def _pass_rounds(self) -> None:
        """Give all quanta at once until the first tenant with work has paid its debt."""
        rounds = min(-queue.deficit // self._quantum for queue in self._ring if queue)
        for queue in self._ring:
            queue.deficit += max(0, rounds) * self._quantum

    def _forget(self) -> None:
        """Forget all debts: no tenant has work that another one's could have delayed."""
        while self._ring:
            self._leave(self._ring.popleft())

    @staticmethod
    def _leave(queue: TenantQueue[T]) -> None:
        queue.is_in_ring = False
        queue.deficit = 0
