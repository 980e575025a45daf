"""Shares of nodes in the rates of a tenant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.clock import NANOSECONDS
from goqueue.cluster.tenant_shares import FLOOR, ShareBook, TenantShare, TenantUseReport

NODES = ("n1", "n2", "n3")
RATE = "publish_rate_limit"


class Nodes:
    """Nodes that report to one book, and put in force what it answers, unless the answer is lost."""

    def __init__(self) -> None:
        self.shares = dict.fromkeys(NODES, 1 / len(NODES))
        self.demands = dict.fromkeys(NODES, 0.0)
        self.members: tuple[str, ...] = NODES
        self.now_ns = 0
        self.lead()

    def lead(self) -> None:
        """Have a new leader, which knows nothing."""
        self.book = ShareBook(self.now_ns)

    def report(self, node: str, *, is_lost: bool = False, connections: float = 0) -> TenantShare | None:
        self.now_ns += NANOSECONDS // 3
        row = TenantUseReport("team-a", {RATE: self.shares[node]}, {RATE: self.demands[node]}, {"c": connections})
        self.book.report(node, [row])
        answer = next(iter(self.book.answer(node, self.members, self.now_ns)), None)
        if answer is not None and not is_lost and RATE in answer.shares:
            self.shares[node] = answer.shares[RATE]
        return answer

    def rounds(self, count: int) -> None:
        for _ in range(count):
            for node in self.members:
                self.report(node)


def test_node_with_all_the_demand_gets_nearly_all() -> None:
    nodes = Nodes()
    nodes.demands["n2"] = 500.0
    nodes.rounds(4)
    assert nodes.shares["n2"] > 1 - 2 * FLOOR - 0.02
    assert min(nodes.shares.values()) >= FLOOR - 0.01
    nodes.demands |= {"n1": 500.0, "n3": 500.0}
    nodes.rounds(6)
    assert all(abs(share - 1 / 3) < 0.02 for share in nodes.shares.values())


def test_share_of_a_silent_node_is_given_to_others_only_when_it_is_no_member_any_more() -> None:
    nodes = Nodes()
    nodes.demands["n1"] = 9.0
    for _ in range(20):
        nodes.report("n1")
        nodes.report("n2")
    assert nodes.shares["n1"] <= 1 - 1 / 3 - FLOOR + 0.01
    nodes.members = ("n1", "n2")
    nodes.rounds(4)
    assert nodes.shares["n1"] > 1 - 2 * FLOOR


def test_new_leader_gives_nothing_out_before_it_has_heard_of_all() -> None:
    nodes = Nodes()
    nodes.demands["n1"] = 9.0
    nodes.rounds(4)
    nodes.lead()
    nodes.demands = {"n1": 0.0, "n2": 9.0, "n3": 0.0}
    before = nodes.shares["n2"]
    nodes.report("n2")
    assert nodes.shares["n2"] <= before


def test_amounts_of_the_others_are_told() -> None:
    nodes = Nodes()
    nodes.report("n1", connections=3)
    nodes.report("n2", connections=4)
    answer = nodes.report("n3", connections=5)
    assert answer is not None
    assert answer.elsewhere == {"c": 7}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(NODES), st.sampled_from((0.0, 1.0, 40.0, 1e6)), st.sampled_from("....lL")),
        max_size=40,
    )
)
def test_shares_in_force_are_never_more_than_the_whole(steps: list[tuple[str, float, str]]) -> None:
    nodes = Nodes()
    for node, demand, event in steps:
        nodes.demands[node] = demand
        if event == "L":
            nodes.lead()
        nodes.report(node, is_lost=event == "l")
        assert sum(nodes.shares.values()) <= 1 + 1e-9
        assert min(nodes.shares.values()) > 0
