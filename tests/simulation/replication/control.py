"""The part of a simulated node that registers it, and that decides while it is the controller."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from goqueue.cluster.controller import Controller, Records
from goqueue.cluster.controller_requests import ControllerRequest, StopNode
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.metadata import ClusterState, NodeRegistered
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import IsrChange
from goqueue.errors import GoQueueError, IsrChangeRefused
from tests.simulation.cluster.universe import MS, SimulatedNode
from tests.simulation.replication.disk_log import Asked, DiskLog, Refused, Registration
from tests.simulation.replication.links import Connection

if TYPE_CHECKING:
    from tests.simulation.replication.data_universe import DataUniverse

_SESSION_NS = 1500 * MS
"""A node that is silent for so long is fenced."""


class ControllingNode(SimulatedNode, ABC):
    """A node that may become the controller."""

    universe: "DataUniverse"

    def __init__(self, universe: "DataUniverse", name: str) -> None:
        super().__init__(universe, name)
        self.name = name
        self.logs: dict[PartitionId, DiskLog] = {}
        self.incarnation = ""
        self._reset()

    def _reset(self) -> None:
        self.state = ClusterState()
        self.applied = 0
        self.controller: Controller | None = None
        self.links: dict[str, Connection] = {}
        """Connections that stand, by node."""
        self._grace_until = 0

    def start(self) -> None:
        self._reset()
        super().start()
        self.incarnation = f"{self.me.directory}.{self.life}"

    @property
    def is_registered(self) -> bool:
        found = self.state.nodes.get(self.name)
        return found is not None and found[0].incarnation == self.incarnation

    @property
    def broker_epoch(self) -> int:
        return self.state.nodes[self.name][1]

    @abstractmethod
    def _send(self, node: str, message: object) -> None:
        """Send a message to another node."""

    def _registration(self) -> Registration:
        damaged = tuple(
            log for log, disk in self.logs.items() if disk.is_damaged or disk.end < disk.saved_high_watermark
        )
        return Registration(self.name, self.me.directory, self.incarnation, damaged)

    def _ask_controller(self, request: ControllerRequest | Registration | Asked) -> None:
        raft = self.raft
        if raft is None or raft.leader is None:
            return
        if raft.leader == self.me:
            self._decide(self.name, request)
        elif (link := self.links.get(raft.leader.node)) is not None:
            link.send(self.name, request)

    def _control(self) -> None:
        """Begin or end to be the controller; fence silent nodes."""
        raft, now = self.raft, self.universe.now
        if raft is None or not raft.is_controller:
            self.controller = None
            return
        if self.controller is None:
            self.controller = Controller(self.state.copy(), self.universe.controller_settings)
            self._grace_until = now + _SESSION_NS
            self._record(self.controller.complete(self.clock()))
        heard = {source.node: at for source, at in self.heard.items()} | {self.name: now}
        for node in list(self.controller.state.nodes):
            silence = now - heard.get(node, 0)
            if silence > _SESSION_NS and now > self._grace_until:
                self._record(self.controller.fence(node))
            elif silence < _SESSION_NS / 4:
                self._record(self.controller.unfence(node))
        self._record(self._next_moves())

    def _next_moves(self) -> Records:
        return [] if self.controller is None else self.controller.moves.advance(self.clock())

    def _decide(self, source: str, request: ControllerRequest | Registration | Asked) -> None:
        self._control()
        controller = self.controller
        if controller is None:
            return
        try:
            if isinstance(request, Registration):
                self._register(controller, request)
            else:
                change = request.request if isinstance(request, Asked) else request
                records = controller.decide(change, self.clock())
                if records and isinstance(change, IsrChange):
                    self._check_admission(controller, change)
                self._record(records)
        except IsrChangeRefused as error:
            if isinstance(request, Asked):
                is_final = error.details.get("reason") not in ("leader_epoch", "partition_epoch")
                self._send(source, Refused(*request, is_final))
        except GoQueueError:
            pass

    def _check_admission(self, controller: Controller, change: IsrChange) -> None:
        """Look at each process that is let in, if it is the one that the controller knows."""
        for name, _ in change.isr:
            node = self.universe.node(name)
            if node.raft is not None and node.incarnation == controller.state.nodes[name][0].incarnation:
                self.universe.data_oracles.admits(change.log, name)

    def _register(self, controller: Controller, request: Registration) -> None:
        node, directory, incarnation, damaged = request
        known = controller.state.nodes.get(node)
        if known is not None and known[0].incarnation == incarnation:
            return
        record = NodeRegistered(node, directory, incarnation, "", "", "", 0, "", FEATURE_LEVEL)
        self._record(controller.register(record, damaged, is_whole=True))

    def _record(self, records: Records) -> None:
        controller = self.controller
        for record in records:
            if controller is None or self.raft is None or not self.raft.is_controller:
                self.controller = None
                return
            controller.state.apply(record, len(self.entries))
            self.propose(record)

    # --- operators ---

    def ask(self, request: ControllerRequest) -> None:
        self._ask_controller(request)

    def stop(self) -> None:
        """Ask the controller to take everything from here."""
        if self.is_registered:
            self._ask_controller(StopNode(self.name, self.broker_epoch))
