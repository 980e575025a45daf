"""Random nodes, replicas and decisions: a replica that is elected has all that was ever committed.

A replica is the list of its messages, each the number that was given to it. The followers have a prefix of what the
leader has, or cut back to it, and the high watermark moves as in `partitions.py`. A crash of a node loses nothing of
what it has, as long as its log is intact: it confirms only what it has durably.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.broker.core.topic import TopicSettings
from goqueue.cluster import controller, elections
from goqueue.cluster.controller import Controller, ControllerSettings, Records
from goqueue.cluster.controller_requests import AlterTopic, ControllerRequest, CreateTopic, ElectLeader, StopNode
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.metadata import ClusterCreated, ClusterState, NodeRegistered
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import IsrChange, ResignLeadership
from goqueue.errors import GoQueueError

NODES = ("n1", "n2", "n3", "n4")
STEPS = 150


def same(one: list[int], other: list[int]) -> int:
    """Return how many messages are the same at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


class Life:
    """One partition, and the nodes of its replicas."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.state = ClusterState()
        self.controller = Controller(self.state, ControllerSettings(3, 2))
        self.offset = 0
        self.apply([ClusterCreated("c", tuple(NodeIdentity(node, "d") for node in NODES[:3]), 0)])
        self.logs: dict[str, list[int]] = {node: [] for node in NODES}
        self.running = set(NODES)
        for node in NODES:
            self.register(node)
        factor, least = random.choice([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (4, 3)])
        settings = TopicSettings(replication_factor=factor, min_isr=least)
        self.apply(self.controller.decide(CreateTopic("t", 1, settings), 1))
        (self.partition,) = self.state.partitions
        self.committed: list[int] = []
        self.leaders = {(1, self.now.leader)}
        self.count = 0

    @property
    def now(self) -> PartitionState:
        return self.state.partitions[self.partition]

    def apply(self, records: Records) -> None:
        """Apply records one by one, and look at each state."""
        for record in records:
            before = self.state.partitions.get(getattr(self, "partition", PartitionId(0, 0)))
            self.state.apply(record, self.offset)
            self.offset += 1
            if before is not None and self.now is not before:
                self.check(before)

    def check(self, before: PartitionState) -> None:
        now = self.now
        assert now.partition_epoch == before.partition_epoch + 1
        assert now.leader_epoch >= before.leader_epoch
        assert (now.leader == before.leader) or now.leader_epoch > before.leader_epoch
        assert set(now.isr) | set(now.elr) <= set(now.replicas)
        assert not set(now.isr) & set(now.elr)
        assert now.leader in now.isr or (not now.leader and not now.isr)
        assert not now.elr or len(now.isr) < now.min_isr
        if now.leader_epoch > before.leader_epoch and now.leader:
            assert all(epoch < now.leader_epoch for epoch, _ in self.leaders), "two leaders in one epoch"
            self.leaders.add((now.leader_epoch, now.leader))
            log = self.logs[now.leader]
            if len(now.replicas) == 1:
                self.committed = log[: len(self.committed)]
            assert log[: len(self.committed)] == self.committed, f"{now.leader} lacks what is committed"

    # --- events ---

    def register(self, node: str, **verdict: object) -> None:
        record = NodeRegistered(node, "d", "p", "a", "b", "1", 0, "", 1)
        self.apply(self.controller.register(record, **{"damaged": (), "is_whole": True, **verdict}))  # type: ignore[arg-type]

    def publish(self) -> None:
        leader = self.now.leader
        if leader in self.running:
            self.count += 1
            self.logs[leader].append(self.count)

    def replicate(self) -> None:
        """A follower cuts its log back to that of the leader, and takes some of what it lacks."""
        leader, node = self.now.leader, self.random.choice(self.now.replicas)
        if leader in self.running and node in self.running and node != leader:
            theirs = self.logs[leader]
            shared = same(theirs, self.logs[node])
            self.logs[node] = theirs[: max(shared, self.random.randint(shared, len(theirs)))]

    def commit(self) -> None:
        """The leader moves the high watermark by its view, which is the latest."""
        state = self.now
        if state.leader not in self.running or len(state.isr) < state.min_isr:
            return
        log = self.logs[state.leader]
        for node in state.isr:
            log = log[: same(log, self.logs[node])]
        if len(log) > len(self.committed):
            assert log[: len(self.committed)] == self.committed
            self.committed = log

    def change_isr(self) -> None:
        """The leader asks for an ISR; replicas come in only with all that is committed."""
        state = self.now
        if state.leader not in self.running:
            return
        wanted = {node for node in state.replicas if self.random.random() < 0.6} | {state.leader}
        wanted = {
            node for node in wanted if node in state.isr or self.logs[node][: len(self.committed)] == self.committed
        }
        isr = tuple((node, self.state.nodes[node][1]) for node in state.ordered(wanted))
        self.ask(IsrChange(self.partition, state.leader, state.leader_epoch, state.partition_epoch, isr, "test"))

    def ask(self, request: ControllerRequest) -> None:
        try:
            records = self.controller.decide(request, 1)
        except GoQueueError:
            return
        self.apply(records)

    def stop(self) -> None:
        node = self.random.choice(NODES)
        how = self.random.choice(["crash", "crash and fence", "fence", "clean"])
        if how == "clean":
            self.ask(StopNode(node, self.state.nodes[node][1]))
        if how != "fence":
            self.running.discard(node)
        if "fence" in how:
            self.apply(self.controller.fence(node))

    def start(self) -> None:
        node = self.random.choice(NODES)
        if node in self.running:
            self.apply(self.controller.unfence(node))
            return
        self.running.add(node)
        match self.random.choice(["intact", "intact", "intact", "damaged", "missing"]):
            case "intact":
                self.register(node)
            case "damaged":
                self.logs[node] = self.logs[node][: self.random.randint(0, len(self.logs[node]))]
                self.register(node, damaged=(self.partition,))
            case _:
                self.logs[node] = []
                self.register(node, is_whole=False)

    def decide(self) -> None:
        state = self.now
        kind = self.random.choice(["resign", "return", "elect", "min_isr", "complete"])
        if kind == "resign":
            self.ask(ResignLeadership(self.partition, state.leader, state.leader_epoch, "test"))
        elif kind == "return":
            self.apply(self.controller.return_leaders(lambda _: True, 1))
        elif kind == "elect":
            self.ask(ElectLeader(self.partition, self.random.choice(state.replicas)))
        elif kind == "min_isr":
            self.ask(AlterTopic("t", {"min_isr": self.random.randint(1, len(state.replicas))}))
        else:
            self.apply(self.controller.complete(1))

    def step(self) -> None:
        events = [self.publish, self.replicate, self.commit, self.change_isr, self.stop, self.start, self.decide]
        self.random.choices(events, [6, 8, 6, 3, 1, 2, 1])[0]()


@pytest.mark.parametrize("seed", range(150))
def test_elected_replica_has_all_that_is_committed(seed: int) -> None:
    life = Life(Random(seed))
    for _ in range(STEPS):
        life.step()


@pytest.mark.parametrize("seed", range(20))
def test_leader_is_found_when_all_nodes_are_back_with_whole_logs(seed: int) -> None:
    life = Life(Random(seed))
    for _ in range(STEPS):
        life.random.choice([life.publish, life.replicate, life.commit, life.change_isr, life.stop])()
    for node in NODES:
        life.register(node)
    assert life.now.leader


def _forget_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = elections.restart_replica

    def wrong(state: PartitionState, node: str, _: object, is_up: Callable[[str], bool]) -> PartitionState | None:
        return judge(state, node, "intact", is_up)

    monkeypatch.setattr(controller, "restart_replica", wrong)


def _keep_eligible(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = PartitionState.next

    def wrong(self: PartitionState, **fields: Any) -> PartitionState:
        following = follow(self, **fields)
        return replace(following, elr=self.ordered({*self.isr, *self.elr} - {*following.isr}))

    monkeypatch.setattr(PartitionState, "next", wrong)


def _elect_any(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = elections.settle
    monkeypatch.setattr(
        elections,
        "settle",
        lambda state, isr, elr, is_up, **how: settle(state, isr, {*elr, *state.replicas}, is_up, **how),
    )


@pytest.mark.parametrize("defect", [_forget_damage, _keep_eligible, _elect_any], ids=lambda defect: defect.__name__)
def test_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None]) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        _try_seeds()


def _try_seeds() -> None:
    for seed in range(150):
        test_elected_replica_has_all_that_is_committed(seed)
