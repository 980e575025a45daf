"""Connections between simulated nodes: messages arrive in their order and none is lost, until the connection ends."""

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.replication.data_node import DataNode
    from tests.simulation.replication.data_universe import DataUniverse

_MS = 1_000_000
_HELD_NS = 20 * _MS


class Connection:
    """The connection of two nodes. While a direction is cut, its messages wait; a long cut ends the connection."""

    def __init__(self, universe: "DataUniverse", one: "DataNode", other: "DataNode") -> None:
        self.universe = universe
        self.nodes = {one.name: one, other.name: other}
        self.is_up = False
        self._life = 0
        self._last: dict[str, int] = {}
        """When the latest message to each node arrives."""
        self._held: dict[str, deque[Any]] = {}
        """Messages that wait at a cut, by receiver."""

    def other(self, name: str) -> "DataNode":
        return next(node for own, node in self.nodes.items() if own != name)

    @property
    def is_cut(self) -> bool:
        one, other = self.nodes
        cut = self.universe.cut
        return (one, other) in cut or (other, one) in cut

    def connect(self) -> None:
        self.is_up, self._life = True, self._life + 1
        self._last, self._held = {}, {name: deque() for name in self.nodes}
        for node in self.nodes.values():
            node.later(0, node.connected, self, self._life)

    def end(self) -> None:
        """Lose all messages on the way; both sides see it soon."""
        if not self.is_up:
            return
        self.is_up, self._life = False, self._life + 1
        for node in self.nodes.values():
            if node.raft is not None:
                node.later(round(self.universe.random.random() * 5 * _MS), node.disconnected, self, self._life)

    def is_current(self, life: int) -> bool:
        return self._life == life

    def send(self, sender: str, message: object) -> None:
        if not self.is_up:
            return
        universe, to = self.universe, self.other(sender)
        when = universe.now + round(universe.random.expovariate(1) * universe.delay_ns) + 1
        when = self._last[to.name] = max(when, self._last.get(to.name, 0) + 1)
        universe.at(when, self._arrive, self._life, sender, to, message)

    def _arrive(self, life: int, sender: str, to: "DataNode", message: object) -> None:
        if life != self._life:
            return
        held = self._held[to.name]
        if held or (sender, to.name) in self.universe.cut:
            if not held:
                self.universe.at(self.universe.now + _HELD_NS, self._try_again, life, sender, to)
            held.append(message)
        else:
            to.later(0, to.receive_data, sender, message)

    def _try_again(self, life: int, sender: str, to: "DataNode") -> None:
        if life != self._life:
            return
        if (sender, to.name) in self.universe.cut:
            self.universe.at(self.universe.now + _HELD_NS, self._try_again, life, sender, to)
            return
        held = self._held[to.name]
        for message in held:
            to.later(0, to.receive_data, sender, message)
        held.clear()
