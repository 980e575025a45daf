"""Deficit round robin: what each tenant gets while others have work, and in which order its own work is done."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.tenants.fair_queue import FairQueue, TenantQueue

QUANTUM = 10
COSTS = st.lists(st.integers(1, 100), min_size=1, max_size=20)
"""Costs of the pieces of work of a tenant, repeated."""


class Tenants:
    """Tenants whose work is done one piece after the other."""

    def __init__(self, costs: list[list[int]]) -> None:
        self.costs = costs
        self.fair: FairQueue[int] = FairQueue(QUANTUM)
        self.queues: list[TenantQueue[int]] = [TenantQueue() for _ in costs]
        self.done: list[tuple[int, int]] = []
        """Tenant and piece."""
        self._added = [0] * len(costs)

    def add(self, tenant: int) -> None:
        self.queues[tenant].new.append(self._added[tenant])
        self._added[tenant] += 1
        self.fair.add(self.queues[tenant])

    def serve(self) -> int | None:
        """Do one piece of work; return its tenant."""
        queue = self.fair.next()
        if queue is None:
            return None
        tenant, piece = self.queues.index(queue), queue.take()
        queue.charge(self.costs[tenant][piece % len(self.costs[tenant])])
        self.done.append((tenant, piece))
        return tenant


@given(st.lists(COSTS, min_size=2, max_size=5), st.integers(1, 300))
def test_tenants_that_always_have_work_get_the_same_within_two_quanta_and_a_piece(
    costs: list[list[int]], steps: int
) -> None:
    tenants = Tenants(costs)
    for tenant in range(len(costs)):
        tenants.add(tenant)
    for _ in range(steps):
        served = tenants.serve()
        assert served is not None, "there is work"
        tenants.add(served)
        charged = [queue.charged for queue in tenants.queues]
        assert max(charged) - min(charged) <= 2 * QUANTUM + max(map(max, costs))


@given(
    st.lists(COSTS, min_size=1, max_size=4),
    st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=200),
)
def test_all_work_is_done_in_the_order_of_its_tenant_however_it_comes(
    costs: list[list[int]], steps: list[int | None]
) -> None:
    tenants = Tenants(costs)
    for step in steps:
        if step is None:
            waits = sum(map(len, tenants.queues))
            assert (tenants.serve() is not None) is (waits > 0), "work waits while there is none to be done before it"
        else:
            tenants.add(step % len(costs))
    while tenants.serve() is not None:
        pass
    assert not any(tenants.queues)
    for tenant in range(len(costs)):
        pieces = [piece for served, piece in tenants.done if served == tenant]
        assert pieces == sorted(pieces)


@given(st.integers(1, 100), st.integers(0, 100), st.integers(1, 6))
def test_neighbor_waits_for_a_turn_of_each_flooding_tenant_however_much_work_they_have(
    cost: int, before: int, flooding: int
) -> None:
    tenants = Tenants([[cost]] * flooding + [[1]])
    for tenant in range(flooding):
        for _ in range(before + QUANTUM):
            tenants.add(tenant)
    for _ in range(before):
        tenants.serve()
    tenants.add(flooding)
    waited = 0
    while tenants.serve() != flooding:
        waited += 1
    assert waited <= flooding * (QUANTUM // cost + 1)


def test_debt_is_kept_while_others_have_work_and_forgotten_when_none_has() -> None:
    tenants = Tenants([[100], [1]])
    for _ in range(200):
        tenants.add(1)
    for _ in range(2):  # a heavy piece as soon as the last one is done, as from one client
        tenants.add(0)
        while tenants.serve() != 0:
            pass
    light = [tenant for tenant, _ in tenants.done].count(1)
    assert 90 <= light <= 120, "the second heavy piece has waited until the neighbor got as much as the first one cost"
    while tenants.serve() is not None:
        pass
    tenants.add(1)
    tenants.add(0)
    tenants.add(0)
    order = [tenants.serve() for _ in range(2)]
    assert order == [1, 0]


def test_begun_work_continues_before_new_work_of_the_same_tenant() -> None:
    fair: FairQueue[str] = FairQueue(QUANTUM)
    queue: TenantQueue[str] = TenantQueue()
    queue.new.append("new")
    queue.begun.append("begun")
    fair.add(queue)
    assert fair.next() is queue
    assert [queue.take(), queue.take()] == ["begun", "new"]
    assert fair.next() is None
    assert not queue.is_in_ring
