"""The life of a simulated cluster: chaos, then broken links that stay the same, then peace."""

from itertools import combinations

from tests.simulation.cluster.universe import ELECTION, MS, SECOND, SimulatedNode, Universe

_CHAOS_NS = 9 * SECOND
_STEP_NS = 350 * MS
_FAULTS = ("cut", "isolate", "restore", "crash", "start", "pause", "stall", "wipe")
_WEIGHTS = (1, 2, 4, 2, 4, 1, 1, 0.7)
_WEIGHTS_BRIEF = (0, 3, 4, 2, 4, 0, 0, 0)


def live(universe: Universe) -> None:
    """Run one seed. Raises `Violated` if a property does not hold."""
    universe.start()
    cause_chaos(universe)
    settle(universe)
    if universe.random.random() < 0.5:
        stand_broken_links(universe)
    restore_links(universe)
    agree(universe)


def cause_chaos(universe: Universe) -> None:
    random, end = universe.random, universe.now + _CHAOS_NS
    universe.loss, universe.doubling = random.choice(((0, 0), (0.02, 0.02), (0.2, 0.1)))
    universe.late = random.choice((0, 0.03))
    universe.is_ordered = random.random() < 0.5
    universe.delay_ns = random.choice((1, 5, 100)) * MS
    universe.sync_ns = random.choice((1, 5, 100)) * MS
    if universe.has_brief_leaders:
        universe.sync_ns = 100 * MS
    if universe.has_late_copies:
        universe.doubling, universe.late, universe.is_ordered = 0.9, 0.1, False
        universe.sync_ns = 5 * MS
    while universe.now < end:
        universe.run(round(random.expovariate(1) * _STEP_NS))
        leaders = universe.leaders()
        is_for_leader = leaders and (universe.has_brief_leaders or random.random() < 0.5)
        _cause_fault(universe, random.choice(leaders if is_for_leader else universe.nodes))


def _cause_fault(universe: Universe, node: SimulatedNode) -> None:
    random = universe.random
    fault = random.choices(_FAULTS, _WEIGHTS_BRIEF if universe.has_brief_leaders else _WEIGHTS)[0]
    if fault in ("cut", "isolate"):
        _cut(universe, node, everything=fault == "isolate")
    elif fault == "restore":
        universe.cut.clear()
    elif fault == "crash" and node.raft is not None:
        node.crash()
    elif fault == "start":
        for one in universe.nodes:
            if one.raft is None and random.random() < 0.7:
                one.start()
        universe.introduce_observers()
    elif fault == "pause":
        node.paused_until = universe.now + round(random.uniform(0.05, 3) * SECOND)
    elif fault == "stall":
        node.stalled_until = universe.now + round(random.uniform(0.1, 3) * SECOND)
    elif fault == "wipe" and _may_wipe(universe, node) and random.random() < 0.5:
        node.wipe()


def _cut(universe: Universe, node: SimulatedNode, *, everything: bool) -> None:
    """Cut some links, or all of a node in one direction or both."""
    random, names = universe.random, [one.me.node for one in universe.nodes]
    if not everything:
        universe.cut |= {(pair[0], pair[1]) for pair in (random.sample(names, 2) for _ in names)}
        return
    sends, hears = random.choice(((False, False), (False, True), (True, False)))
    for name in names:
        universe.cut |= set() if sends else {(node.me.node, name)}
        universe.cut |= set() if hears else {(name, node.me.node)}


def _may_wipe(universe: Universe, node: SimulatedNode) -> bool:
    """Return whether all that is committed is left: voters that were replaced count as whole again."""
    for one in universe.nodes:
        one.has_wiped_disk &= one.me not in universe.oracles.voters
    wiped = sum(one.has_wiped_disk for one in universe.nodes)
    if node.has_wiped_disk or wiped >= (len(universe.nodes) - 1) // 2:
        return False
    left = {one.me for one in universe.nodes if one is not node}
    return all(len(voters & left) > len(voters) // 2 for voters in universe.oracles.possible_voters())


def settle(universe: Universe) -> None:
    """Let everything work again but the links that are cut."""
    universe.is_peaceful = True
    universe.loss = universe.doubling = universe.late = 0.0
    universe.delay_ns = universe.sync_ns = 1 * MS
    for node in universe.nodes:
        if node.raft is None:
            node.start()
    universe.introduce_observers()
    universe.run(max(0, *(max(one.paused_until, one.stalled_until) - universe.now for one in universe.nodes)))


def stand_broken_links(universe: Universe) -> None:
    """Some links are cut, and a majority of voters is connected: it has one leader, who also stays after that."""
    random = universe.random
    names = [node.me.node for node in universe.nodes]
    universe.cut.clear()
    if universe.replaces_voters:
        settle_voters(universe)
    universe.replaces_voters = False
    voters = [node.me.node for node in universe.nodes if node.me in universe.oracles.voters]
    universe.is_quiet = random.random() < 0.5
    if universe.is_quiet:
        universe.run(5 * ELECTION)  # all logs are the same, so that anyone could be elected
    connected = set(random.choice(list(combinations(voters, len(universe.oracles.voters) // 2 + 1))))
    for sender in names:
        for receiver in names:
            if sender != receiver and not {sender, receiver} <= connected and random.random() < 0.6:
                universe.cut.add((sender, receiver))
    universe.run(8 * ELECTION)
    leaders = universe.leaders()
    universe.oracles.require(len(leaders) == 1, f"{len(leaders)} leaders while a majority is connected")
    (leader,) = leaders
    assert leader.raft is not None
    term = leader.raft.term
    is_latest = all(one.raft is not None and one.raft.term <= term for one in universe.nodes)
    universe.run(4 * ELECTION)
    _require_same_leader(universe, leader, term, "under the same broken links")
    if is_latest:
        universe.cut.clear()
        universe.run(3 * ELECTION)
        _require_same_leader(universe, leader, term, "by nodes that came back")


def settle_voters(universe: Universe) -> None:
    """Each node has a vote again, and all logs say so."""

    def has_settled() -> bool:
        voters = frozenset(node.me for node in universe.nodes)
        return universe.oracles.voters == voters and all(
            node.raft is not None and node.raft.voters == voters for node in universe.nodes
        )

    universe.oracles.require(universe.run(30 * ELECTION, until=has_settled), "a lost voter is not replaced")


def _require_same_leader(universe: Universe, leader: SimulatedNode, term: int, where: str) -> None:
    stays = leader.raft is not None and leader.raft.is_leader and leader.raft.term == term
    universe.oracles.require(stays, f"{leader.me.node}, leader of term {term}, was deposed {where}")


def restore_links(universe: Universe) -> None:
    universe.is_quiet = False
    universe.cut.clear()
    universe.introduce_observers()
    count = len(universe.oracles.committed)

    def has_agreed() -> bool:
        return len(universe.oracles.committed) > count and len(universe.leaders()) == 1

    universe.oracles.require(universe.run(12 * ELECTION, until=has_agreed), "nothing is committed although all is well")


def agree(universe: Universe) -> None:
    """All nodes have everything that is committed."""
    committed = list(universe.oracles.committed)

    def has_all() -> bool:
        return all(node.durable_end >= len(committed) == agreed(node) for node in universe.nodes)

    def agreed(node: SimulatedNode) -> int:
        known = enumerate(committed[node.begins :], node.begins)
        return next((n for n, one in known if node.entries[n] != one), len(committed))

    universe.oracles.require(universe.run(8 * ELECTION, until=has_all), "a node does not get what is committed")
