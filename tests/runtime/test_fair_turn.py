"""Turns that tenants share: a flood of one delays another by few handlers. Time is counted, not measured."""

import asyncio
from itertools import pairwise

from goqueue.runtime.deferred import Deferred, HandlerRun
from goqueue.runtime.fair_turn import (
    LONG_SLICE_NS,
    QUANTUM_NS,
    REQUEST_NS,
    SHARED_NS,
    SLICE_NS,
    STEP,
    FairTurn,
)
from tests.runtime.test_deferred import ended, on_a_loop

COST_NS = 50_000
"""The time of each handler."""


class Broker:
    """Handlers of tenants on one loop, each of which takes its time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.turn = FairTurn(asyncio.get_running_loop(), lambda: self.now_ns)
        self.order: list[str] = []

    def ask(self, tenant: str, waits: Deferred[None] | None = None, cost_ns: int = COST_NS) -> HandlerRun[None]:
        """Begin a request of a tenant."""

        async def handler() -> None:
            self.now_ns += cost_ns
            self.order.append(tenant)
            if waits is not None:
                await waits
                self.order.append(f"{tenant} continues")

        return HandlerRun(handler(), self.turn.of(tenant))


@on_a_loop
async def test_flood_of_a_tenant_delays_a_neighbor_by_a_slice_and_a_quantum() -> None:
    broker, loop = Broker(), asyncio.get_running_loop()
    flood = [broker.ask("noisy") for _ in range(2_000)]
    came_after: list[int] = []

    def again(_: Deferred[None]) -> None:
        loop.call_soon(arrive)

    def arrive() -> None:  # as the loop reads requests of others between two turns
        came_after.append(len(broker.order))
        run = broker.ask("quiet")
        if len(came_after) < 20:
            run.then(again)

    loop.call_soon(arrive)
    await asyncio.gather(*map(ended, flood))
    answered_after = [place for place, tenant in enumerate(broker.order) if tenant == "quiet"]
    assert len(answered_after) == 20, "the neighbor was answered while the flood went on"
    delays = [after - before for before, after in zip(came_after, answered_after, strict=True)]
    most = (SLICE_NS + QUANTUM_NS) // (COST_NS + REQUEST_NS) + 2
    assert max(delays) <= most, delays


@on_a_loop
async def test_turn_of_a_tenant_that_is_alone_ends_soon_although_its_handlers_begin_to_take_long() -> None:
    broker, loop = Broker(), asyncio.get_running_loop()
    broker.now_ns = 2 * SHARED_NS
    runs = [broker.ask("a") for _ in range(20)] + [broker.ask("a", cost_ns=LONG_SLICE_NS) for _ in range(30)]
    turns = [0]

    def next_turn() -> None:
        turns.append(len(broker.order))
        if turns[-1] < len(runs):
            loop.call_soon(next_turn)

    loop.call_soon(next_turn)
    await asyncio.gather(*map(ended, runs))
    handlers = [after - before for before, after in pairwise(turns)]
    assert max(handlers) > STEP, "cheap ones go together"
    assert max(handlers[3:]) == 1, "each costly one has a turn of its own"


@on_a_loop
async def test_handlers_and_tasks_of_tenants_and_of_none_are_all_run() -> None:
    broker, begun = Broker(), Deferred[None]()

    async def operator() -> None:
        broker.order.append("operator")

    runs = [broker.ask("a", begun), broker.ask("b"), broker.ask("a"), HandlerRun(operator(), broker.turn)]
    await asyncio.gather(broker.turn.of("a").wait(), broker.turn.of("c").wait(), *map(ended, runs[1:]))
    assert sorted(broker.order) == ["a", "a", "b", "operator"]
    begun.resolve(None)
    await ended(runs[0])
    assert broker.order[-1] == "a continues"
    assert broker.turn.busy_ns("a") > broker.turn.busy_ns("b") > 0
    assert broker.turn.busy_ns("c") > 0, "a task is charged as well"
    broker.turn.keep({"b"})
    assert broker.turn.busy_ns("a") == 0


@on_a_loop
async def test_cancelled_handler_that_has_not_had_its_turn_is_never_begun() -> None:
    broker = Broker()
    run = broker.ask("a")
    run.cancel()
    await ended(run)
    assert broker.order == []
