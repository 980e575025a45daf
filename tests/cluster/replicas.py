"""Replicas of one partition whose messages arrive when a test says so: the production cores over lists of records."""

from dataclasses import dataclass, field

from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.follower_replica import AskLeader, CutBack, FollowerReplica
from goqueue.cluster.leader_replica import AskController, LeaderReplica, ReplicaSettings, Tell
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.replication_messages import (
    DataHeader,
    IsrChange,
    RaiseEpoch,
    ReplicaDiverged,
    ReplicaFenced,
    ReplicaOpened,
    ReplicaReset,
    ResignLeadership,
)

LOG = PartitionId(1, 0)
SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3")


def state(
    leader: str, epoch: int, isr: tuple[str, ...] = NODES, *, version: int = 1, min_isr: int = 2
) -> PartitionState:
    return PartitionState(NODES, leader, epoch, version, isr, min_isr)


@dataclass
class Replica:
    """One node's log: an epoch for each record. Everything appended is durable when `sync` is called."""

    node: str
    records: list[tuple[int, str]] = field(default_factory=list)
    high_watermark: int = 0
    durable_end: int = 0
    start: int = 0
    leader: LeaderReplica | None = None
    follower: FollowerReplica | None = None
    asked: list[IsrChange | ResignLeadership | RaiseEpoch] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def index(self) -> EpochIndex:
        rows: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(self.records, self.start):
            if epoch != (rows[-1][0] if rows else 0):
                rows.append((epoch, offset))
        index = EpochIndex(rows, self.end, self.start)
        index.durable_end = self.durable_end
        return index

    def lead(self, with_state: PartitionState, settings: ReplicaSettings | None = None) -> LeaderReplica:
        self.keep_high_watermark()
        self.follower = None
        self.leader = LeaderReplica(
            LOG, self.node, with_state, self.index(), self.high_watermark, settings=settings or ReplicaSettings()
        )
        self._append(with_state.leader_epoch, f"epoch {with_state.leader_epoch}")
        self.leader.appended(self.end, ((with_state.leader_epoch, self.end - 1),))
        return self.leader

    def follow(self, leader: str, epoch: int, *, unclean_epoch: int = 0) -> FollowerReplica:
        self.keep_high_watermark()
        self.leader = None
        self.follower = FollowerReplica(
            LOG, leader, epoch, self.index(), self.high_watermark, unclean_epoch=unclean_epoch
        )
        return self.follower

    def keep_high_watermark(self) -> None:
        core = self.leader or self.follower
        if core is not None:
            self.high_watermark = core.high_watermark

    def restart(self, *, loses: int = 0) -> None:
        self.keep_high_watermark()
        self.leader = self.follower = None
        del self.records[len(self.records) - loses :]
        self.durable_end = self.end

    def publish(self, *values: str) -> None:
        assert self.leader is not None
        for value in values:
            self._append(self.leader.epoch, value)
        self.leader.appended(self.end)

    def _append(self, epoch: int, value: str) -> None:
        self.records.append((epoch, value))

    def sync(self) -> None:
        self.durable_end = self.end
        for core in (self.leader, self.follower):
            if core is not None:
                core.durable(self.end)

    def values(self) -> list[str]:
        return [value for _, value in self.records]


def exchange(leader: Replica, follower: Replica, *, sync: bool = True, confirm: bool = True) -> None:
    """Connect both and deliver messages until none is left."""
    core, other = leader.leader, follower.follower
    assert core is not None
    assert other is not None
    other.connected()
    for _ in range(20):
        _do_follower(leader, follower)
        _do_leader(leader, follower)
        while (wanted := core.pending(follower.node)) is not None:
            base, end = wanted
            header = DataHeader(LOG, core.epoch, base, end, core.high_watermark, leader.start)
            assert other.takes(header)
            content = leader.records[base - leader.start : end - leader.start]
            epochs = [one[0] for one in leader.records]
            rows = tuple(
                (epochs[number], leader.start + number)
                for number in range(base - leader.start, end - leader.start)
                if leader.records[number][1].startswith("epoch ")
            )
            follower.records += content
            other.appended(header, rows)
            core.sent(follower.node, end)
        if sync:
            follower.sync()
        if confirm and other.confirmed_end is not None:
            core.confirmed(follower.node, other.epoch, other.confirmed_end)
            other.hear(core.epoch, core.high_watermark, leader.start)


def _do_follower(leader: Replica, follower: Replica) -> None:
    core, other = leader.leader, follower.follower
    assert core is not None
    assert other is not None
    effects, other.effects[:] = list(other.effects), []
    for effect in effects:
        if isinstance(effect, AskLeader):
            core.open(follower.node, effect.message)
        elif isinstance(effect, CutBack):
            del follower.records[effect.end - follower.start :]
            follower.durable_end = effect.end
            other.cut_done(follower.start, effect.end)
            other.connected()
        else:
            follower.records.clear()
            follower.start = follower.durable_end = effect.start
            other.cut_done(effect.start, effect.start, effect.rows)
            other.connected()


def _do_leader(leader: Replica, follower: Replica) -> None:
    core, other = leader.leader, follower.follower
    assert core is not None
    assert other is not None
    effects, core.effects[:] = list(core.effects), []
    for effect in effects:
        if isinstance(effect, AskController):
            leader.asked.append(effect.request)
            continue
        assert isinstance(effect, Tell)
        if effect.node != follower.node:
            continue
        if isinstance(effect.message, ReplicaOpened):
            other.opened(effect.message)
        elif isinstance(effect.message, ReplicaDiverged | ReplicaReset):
            other.diverged(effect.message)
        elif isinstance(effect.message, ReplicaFenced):
            other.fenced(effect.message)
