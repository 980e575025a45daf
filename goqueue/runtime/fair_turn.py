"""Shares the event loop between tenants: their handlers run in turns, for a bounded time in each turn of the loop.

A request waits in the queue of its tenant from the moment at which its rights are known. A turn runs handlers for at
most `SLICE_NS`, in the order of `FairQueue`; then the loop reads what has come from clients. So a request of another
tenant waits for one slice and the turns of others, and not for everything that came before it. A connection has one
request in a queue at a time, so its answers keep their order, and a flood is parsed no faster than its turns allow.
"""

import asyncio
import time
from collections.abc import Callable, Container
from typing import Final, Protocol

from goqueue.broker.tenants.fair_queue import FairQueue, TenantQueue
from goqueue.runtime.deferred import Deferred, Turn

QUANTUM_NS: Final = 500_000
"""For a tenant whose turn it is: some ten requests, so that the processor's caches stay warm."""
SLICE_NS: Final = 1_000_000
"""For handlers in one turn of the loop, and for what is read before them and written after them."""
LONG_SLICE_NS: Final = 4_000_000
"""While one tenant is alone: larger turns cost less."""
SHARED_NS: Final = 1_000_000_000
"""For which the loop counts as shared after another tenant had work."""
REQUEST_NS: Final = 30_000
"""Charged for each request besides the time of its handler: it is read, checked and answered outside of it."""
CHEAP_NS: Final = 60_000
"""While handlers of a tenant that is alone take less, several of them run between two looks at the clock."""
STEP: Final = 8
TASK_NS: Final = 200_000
"""Charged for a handler that runs in a task, whose time is not measured."""


class TurnMember(Protocol):
    """Work that waits for its turn."""

    def advance(self) -> None: ...


class _TaskStart(Deferred[None]):
    """The place of a task in the queue of its tenant."""

    __slots__ = ("_queue",)

    def __init__(self, queue: "TenantQueue[TurnMember]") -> None:
        super().__init__()
        self._queue = queue

    def advance(self) -> None:
        self._queue.charge(TASK_NS)
        self.resolve(None)


class TenantTurn:
    """The part of one tenant in the turns of the loop."""

    __slots__ = ("_fair", "ended", "loop", "queue")

    def __init__(self, fair: "FairTurn") -> None:
        self._fair = fair
        self.loop = fair.loop
        self.ended = fair.ended
        self.queue: TenantQueue[TurnMember] = TenantQueue()

    def add(self, run: TurnMember) -> None:
        """Run this when it is the tenant's turn."""
        queue = self.queue
        queue.new.append(run)
        if not queue.is_in_ring:
            self._fair.take_part(queue)

    def resume(self, run: TurnMember) -> None:
        """Continue what has begun, before other work of the tenant begins."""
        queue = self.queue
        queue.begun.append(run)
        if not queue.is_in_ring:
            self._fair.take_part(queue)

    def is_alone(self) -> bool:
        """Return whether no other tenant has work, or a debt."""
        return self._fair.is_alone(self.queue)

    async def wait(self) -> None:
        """Wait until it is the tenant's turn: a task may begin."""
        place = _TaskStart(self.queue)
        self.add(place)
        await place


class FairTurn(Turn):
    """The turns of a broker with tenants. Handlers outside of all tenants take part as if they were one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__(loop)
        self._clock = clock
        self._queues: FairQueue[TurnMember] = FairQueue(QUANTUM_NS)
        self._tenants: dict[str, TenantTurn] = {}
        self._has_work = False
        self._latest: TenantQueue[TurnMember] | None = None
        """The last tenant that has got work while it had none."""
        self._shared_until_ns = 0
        self._step = 1
        """How many handlers run between two looks at the clock, while a tenant is alone."""
        outside = TenantTurn(self)
        self.add = outside.add  # type: ignore[method-assign]
        self.resume = outside.resume  # type: ignore[method-assign]

    def of(self, tenant: str) -> TenantTurn:
        """Return the part of a tenant."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantTurn(self)
        return found

    def keep(self, tenants: Container[str]) -> None:
        """Drop the parts of other tenants: they were deleted. What they have begun goes on."""
        for tenant in [one for one in self._tenants if one not in tenants]:
            del self._tenants[tenant]

    def busy_ns(self, tenant: str) -> int:
        """Return what a tenant was charged since the broker started."""
        found = self._tenants.get(tenant)
        return 0 if found is None else found.queue.charged

    def is_alone(self, queue: TenantQueue[TurnMember]) -> bool:
        """Return whether no tenant but this one has work, or a debt."""
        return self._queues.is_alone(queue)

    def take_part(self, queue: TenantQueue[TurnMember]) -> None:
        """Let a tenant take part whose queue has got work."""
        self._queues.add(queue)
        if queue is not self._latest:
            self._latest, self._shared_until_ns = queue, self._clock() + SHARED_NS
        self._has_work = True
        if not self._is_scheduled:
            self._schedule()

    def _run(self) -> None:
        super()._run()
        if self._has_work and not self._is_scheduled:
            self._schedule()  # the loop reads from clients before it calls

    def _run_ready(self) -> None:
        queues, clock = self._queues, self._clock
        now = clock()
        left = SLICE_NS if now < self._shared_until_ns else LONG_SLICE_NS
        while (queue := queues.next()) is not None and left > 0:
            if queues.is_alone(queue):
                left -= self._run_alone(queue, left)
                now = clock()
                continue
            begun, new, spent, credit = queue.begun, queue.new, 0, min(queue.deficit, left)
            while spent < credit and (begun or new):
                if begun:
                    begun.popleft().advance()
                else:
                    new.popleft().advance()
                    spent += REQUEST_NS
                then = clock()
                spent += then - now
                now = then
            queue.charge(spent)
            left -= spent
        self._has_work = queue is not None

    def _run_alone(self, queue: TenantQueue[TurnMember], left: int) -> int:
        """Run handlers of the only tenant with work, which owes nothing for it, and return what they cost."""
        begun, new, clock, is_alone, spent = queue.begun, queue.new, self._clock, self._queues.is_alone, 0
        now = clock()
        while spent < left and (work := begun or new) and is_alone(queue):
            count = min(self._step, len(work))
            for _ in range(count):
                work.popleft().advance()
            then = clock()
            took, now = then - now, then
            self._step = STEP if took < count * CHEAP_NS else 1
            spent += took + (count * REQUEST_NS if work is new else 0)
        queue.charged += spent
        return spent
