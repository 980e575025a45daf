"""The life of a simulated cluster with topics: chaos, then peace, in which everything must come to work."""

from functools import partial

from tests.simulation.cluster.plan import settle
from tests.simulation.cluster.universe import ELECTION, MS, SECOND
from tests.simulation.replication.data_node import DataNode
from tests.simulation.replication.data_universe import PARTITIONS, DataUniverse

_FORMATION_NS = 10 * SECOND
_CHAOS_NS = 7 * SECOND
_STEP_NS = 250 * MS
STOP_NS = 300 * MS
"""Between the request to stop and the end of the process."""


def live(universe: DataUniverse) -> None:
    """Run one seed. Raises `Violated` if a property does not hold."""
    universe.start()
    form(universe)
    cause_chaos(universe)
    recover(universe)


def form(universe: DataUniverse) -> None:
    """Wait until the topic is there."""

    def has_topic() -> bool:
        return all(universe.partition(node, 0) is not None for node in universe.data_nodes)

    universe.oracles.require(universe.run(_FORMATION_NS, until=has_topic), "the topic is not created")


def cause_chaos(universe: DataUniverse) -> None:
    random, end = universe.random, universe.now + _CHAOS_NS
    universe.loss = random.choice((0, 0.02, 0.2))
    universe.late = random.choice((0, 0.03))
    universe.is_ordered = random.random() < 0.7
    universe.delay_ns = random.choice((1, 5, 50)) * MS
    universe.sync_ns = random.choice((1, 5, 50)) * MS
    while universe.now < end:
        universe.run(round(random.expovariate(1) * _STEP_NS), until=partial(_has_joiner, universe))
        if _has_joiner(universe):
            harm_joiner(universe)
        _cause_fault(universe, _target(universe))


def _has_joiner(universe: DataUniverse) -> bool:
    """Return whether a moment has come to harm the disk of a node that is about to enter an ISR."""
    if universe.joiner_fault is None or universe.now < universe.next_joiner_ns:
        return False
    return not (universe.joiner_fault == "lose" and universe.lost_nodes) and bool(_joiners(universe))


def _target(universe: DataUniverse) -> DataNode:
    """Prefer a node that leads something."""
    leading = [node for node in universe.data_nodes if node.leaders]
    return universe.random.choice(leading if leading and universe.random.random() < 0.6 else universe.data_nodes)


def _cause_fault(universe: DataUniverse, node: DataNode) -> None:
    (fault,) = universe.random.choices(list(_FAULTS), list(_FAULTS.values()))
    fault(universe, node)


# --- faults ---


def cut_some(universe: DataUniverse, _: DataNode) -> None:
    names = [one.name for one in universe.data_nodes]
    universe.cut |= {(pair[0], pair[1]) for pair in (universe.random.sample(names, 2) for _ in names)}


def restore(universe: DataUniverse, _: DataNode) -> None:
    universe.cut.clear()


def crash(_: DataUniverse, node: DataNode) -> None:
    if node.raft is not None:
        node.crash()


def crash_all(universe: DataUniverse, _: DataNode) -> None:
    for one in universe.data_nodes:
        crash(universe, one)


def start(universe: DataUniverse, _: DataNode) -> None:
    for one in universe.data_nodes:
        if one.raft is None and universe.random.random() < 0.7:
            one.start()
    universe.introduce_observers()


def pause(universe: DataUniverse, node: DataNode) -> None:
    node.paused_until = universe.now + round(universe.random.uniform(0.05, 3) * SECOND)


def stall(universe: DataUniverse, node: DataNode) -> None:
    node.stalled_until = universe.now + round(universe.random.uniform(0.1, 2) * SECOND)


def reset(universe: DataUniverse, _: DataNode) -> None:
    universe.break_connections()


def fail_disk(_: DataUniverse, node: DataNode) -> None:
    node.has_failing_disk = True


def stop(universe: DataUniverse, node: DataNode) -> None:
    life = node.life

    def end() -> None:
        if node.life == life:
            node.crash()

    if node.raft is not None:
        node.stop()
        universe.at(universe.now + STOP_NS, end)


def reboot_stalled(universe: DataUniverse, node: DataNode) -> None:
    """Let the disk of a node fall behind, and end its process then."""
    if node.raft is not None:
        node.stalled_until = universe.now + SECOND
        universe.run(round(universe.random.uniform(0.01, 0.3) * SECOND))
        reboot(universe, node)


def lose(universe: DataUniverse, node: DataNode) -> None:
    if universe.joiner_fault != "lose":
        lose_disk(universe, node)


def reboot(universe: DataUniverse, node: DataNode) -> None:
    """End the process and start it again at once: the others may not have missed it."""
    if node.raft is not None:
        node.crash()
        node.paused_until = node.stalled_until = 0
        node.start()
        universe.introduce_observers()


def harm_joiner(universe: DataUniverse) -> None:
    """Take or stall the disk of a node that a leader has asked the controller to let into the ISR.

    The request comes late: the connections of the leader end.
    """
    universe.next_joiner_ns = universe.now + SECOND
    for leader, node in _joiners(universe)[:1]:
        for link in universe.connections_of(leader.name):
            link.end()
        if universe.joiner_fault == "stall":
            node.stalled_until = universe.now + SECOND
            continue
        lose_disk(universe, node)
        if node.raft is None:
            node.start()
            universe.introduce_observers()


def _joiners(universe: DataUniverse) -> list[tuple[DataNode, DataNode]]:
    """Return nodes that may enter an ISR soon, each with the leader that has asked for it."""
    return [
        (leader, universe.node(name))
        for leader in universe.data_nodes
        for core in leader.leaders.values()
        if core._asked is not None
        for name, _ in core._asked.isr
        if name not in core.state.isr
    ]


def isolate(universe: DataUniverse, node: DataNode) -> None:
    """Cut all links of a node in one direction or both."""
    sends, hears = universe.random.choice(((False, False), (False, True), (True, False)))
    for other in universe.data_nodes:
        universe.cut |= set() if sends else {(node.name, other.name)}
        universe.cut |= set() if hears else {(other.name, node.name)}


def lose_disk(universe: DataUniverse, node: DataNode) -> None:
    """Take the whole disk of a node, or the end of one of its logs: only one disk of the cluster is ever harmed so."""
    random = universe.random
    if universe.lost_nodes or node.raft is None:
        return
    universe.lost_nodes.add(node.name)
    if random.random() < 0.5:
        node.wipe()
        return
    node.crash()
    for disk in node.logs.values():
        disk.lose(random.randint(disk.start, disk.end))
        disk.is_damaged = True


def recover(universe: DataUniverse) -> None:
    """Let everything work again: all replicas must come to have the same, and every client its answer."""
    universe.cut.clear()
    universe.is_quiet = False
    universe.run(STOP_NS)
    for node in universe.data_nodes:
        if node.raft is not None and any(disk.is_fenced for disk in node.logs.values()):
            node.crash()  # as an operator does: a fenced log needs a new process
        node.has_failing_disk = False
    settle(universe)
    acknowledged = universe.data_oracles.acknowledged
    universe.run(4 * ELECTION)
    if universe.recreates_topics:
        universe.recreates_topics = False
    works = universe.run(8 * SECOND, until=lambda: universe.data_oracles.acknowledged > acknowledged + PARTITIONS)
    universe.oracles.require(works, "nothing is acknowledged although all is well")
    universe.is_quiet = True
    agrees = universe.run(12 * SECOND, until=lambda: _agrees(universe))
    universe.oracles.require(agrees, f"replicas do not agree although all is well: {_first_state(universe)}")


def _first_state(universe: DataUniverse) -> str:
    return str({tuple(log): state for log, state in universe.data_nodes[0].state.partitions.items()})


def _agrees(universe: DataUniverse) -> bool:
    if any(client.is_waiting for client in universe.clients):
        return False
    oracles = universe.data_oracles
    for number in range(PARTITIONS):
        found = universe.partition(universe.data_nodes[0], number)
        if found is None:
            return False
        log, _ = found
        state = universe.data_nodes[0].state.partitions[log]
        end = len(oracles.committed.get(log, ()))
        if state.isr != state.replicas or state.is_moving or not end:
            return False
        for name in state.replicas:
            disk = universe.node(name).logs.get(log)
            if disk is None or not end == disk.end == disk.index.durable_end == disk.high_watermark:
                return False
    return True


_FAULTS = {
    cut_some: 1,
    isolate: 3,
    restore: 4,
    crash: 3,
    crash_all: 0.5,
    start: 5,
    pause: 1.5,
    stall: 1.5,
    reset: 1.5,
    fail_disk: 0.7,
    stop: 0.7,
    reboot_stalled: 1.5,
    lose: 0.5,
}
"""With their weights."""
