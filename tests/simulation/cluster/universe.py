"""A whole cluster in one seed: the production core over simulated disks, network and clocks.

Faults: messages are lost, delayed, reordered and sent twice; links are cut in one direction or both; processes crash
and lose any part of what is not synced, or stand still; clocks have an offset and a rate of their own; disks stall; a
disk is replaced by an empty one, on a minority of the nodes.
"""

import heapq
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.messages import (
    Append,
    BeginEpoch,
    Committed,
    NodeIdentity,
    RaftMessage,
    RoleChanged,
    SaveVote,
    Send,
    SkipTo,
    Store,
    Truncate,
    Vote,
)
from goqueue.cluster.raft import Raft
from goqueue.cluster.raft_state import RaftSettings
from goqueue.cluster.voters import VoterHistory
from tests.simulation.cluster.oracles import GAP, Entry, Oracles, Told

MS = 1_000_000
SECOND = 1000 * MS
_NEVER = 1 << 62
ELECTION = RaftSettings().election_ns


class SimulatedNode:
    """A node with its disk. `raft` is None while its process is down."""

    def __init__(self, universe: "Universe", name: str) -> None:
        self.universe = universe
        self.me = NodeIdentity(name, f"{name}-1")
        self.entries: list[Entry] = []
        self.durable_end = 0
        self.saved = Vote(0)
        self.raft: Raft | None = None
        self.life = 0
        self.paused_until = 0
        self.started_ns = 0
        self.offset = universe.random.randrange(1000 * SECOND)
        self.rate = universe.random.uniform(0.95, 1.05)
        self.heard: dict[NodeIdentity, int] = {}
        self.has_wiped_disk = False
        self.begins = 0
        """The log begins here: what is before was rewritten."""
        self._passed_over: tuple[int, int] | None = None
        """Where the log ended and began before its last gap, as long as nothing is behind it."""
        self.disks = 1
        self.stalled_until = 0
        self._armed = _NEVER
        self._is_syncing = False
        self._votes: list[Vote] = []
        """Votes that are being written."""

    # --- process ---

    def start(self) -> None:
        universe = self.universe
        self.life += 1
        self.heard = {}
        self.started_ns = universe.now
        self._is_syncing, self._votes, self._armed = False, [], _NEVER
        rows: list[tuple[int, int]] = []
        for offset, entry in enumerate(self.entries):
            if entry.epoch != (rows[-1][0] if rows else 0):
                rows.append((entry.epoch, offset))
        self.durable_end = len(self.entries)
        index = EpochIndex(rows, self.durable_end)
        index.forget_below(self.begins)
        own = enumerate(self.entries[self.begins :], self.begins)
        changes = [(offset, entry.voters) for offset, entry in own if entry.voters]
        voters = VoterHistory(universe.voters, changes)
        self.raft = Raft(universe.settings, self.me, voters, self.saved, index, universe.random.random, self.clock())
        self._arm()

    def crash(self) -> None:
        self.raft = None
        self.life += 1
        random = self.universe.random
        del self.entries[random.randint(self.durable_end, len(self.entries)) :]
        if self._passed_over is not None and len(self.entries) == self.begins:
            end, self.begins = self._passed_over
            del self.entries[end:]
            self.durable_end = end
        self._passed_over = None
        if self._votes and random.random() < 0.5:
            self.saved = self._votes[0]

    def wipe(self) -> None:
        self.crash()
        self.has_wiped_disk = True
        self.entries, self.durable_end, self.saved, self.begins = [], 0, Vote(0), 0
        if not self.universe.keeps_identity_of_wiped:
            self.disks += 1
            self.me = NodeIdentity(self.me.node, f"{self.me.node}-{self.disks}")

    def clock(self) -> int:
        return self.offset + round(self.universe.now * self.rate)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the core, and do what it asks for."""
        function(*arguments, self.clock())
        self.work()
        self._arm()

    def later(self, delay: int, function: Callable[..., None], *arguments: Any) -> None:
        """Run it unless the process has ended; after its pause if it stands still."""
        self.universe.at(self.universe.now + delay, self._run, self.life, function, arguments)

    def _run(self, life: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if life != self.life:
            return
        if self.universe.now < self.paused_until:
            self.universe.at(self.paused_until, self._run, life, function, arguments)
        else:
            function(*arguments)

    def _arm(self) -> None:
        """Wake up at the deadline of the core, which may be earlier than before."""
        assert self.raft is not None
        if (deadline := self.raft.deadline()) < self._armed:
            self._armed = deadline
            self.later(max(0, round((deadline - self.clock()) / self.rate)) + 1000, self._tick, deadline)

    def _tick(self, armed: int) -> None:
        assert self.raft is not None
        if armed == self._armed:
            self._armed = _NEVER
            if self.clock() >= self.raft.deadline():
                self.call(self.raft.tick)
                self.universe.oracles.ticked(self)
            self._arm()

    # --- effects ---

    def work(self) -> None:
        raft, oracles = self.raft, self.universe.oracles
        assert raft is not None
        effects, raft.effects = raft.effects, []
        for effect in effects:
            match effect:
                case Send():
                    oracles.sends(self, effect.message)
                    self.universe.send(self, effect.to, effect.message)
                case Store():
                    self._append(effect.append.content)  # type: ignore[arg-type]
                case SaveVote():
                    self._save(effect.vote)
                case BeginEpoch():
                    self._append((Entry(effect.epoch, 0),))
                case Truncate():
                    oracles.truncates(self, effect.end)
                    del self.entries[effect.end :]
                    self.durable_end = effect.end
                case SkipTo():
                    self._passed_over = len(self.entries), self.begins
                    self.entries += [Entry(effect.epoch, GAP)] * (effect.start - len(self.entries))
                    self.durable_end = self.begins = effect.start
                    self.universe.skips += 1
                case Committed():
                    oracles.commits(self, effect.end)
                    self._forget(effect.end)
                    self.committed(effect.end)
                case RoleChanged():
                    oracles.changes_role(self, effect)

    def _forget(self, end: int) -> None:
        """Begin the log where the state was rewritten."""
        assert self.raft is not None
        told = [one.value.start for one in self.entries[self.begins : end] if isinstance(one.value, Told)]
        if told and told[-1] > self.begins:
            self.begins = told[-1]
            self._passed_over = None
            self.raft.forget_below(self.begins)

    def tell(self) -> None:
        """Tell the state again."""
        assert self.raft is not None
        if self.raft.history.changed_at < self.raft.commit:
            start = len(self.entries)
            self._append((Entry(self.raft.term, 0, tuple(sorted(self.raft.voters))),))
            self.call(partial(self.raft.appended, voters=self.raft.voters), 1)
            self.propose(Told(start))

    def committed(self, end: int) -> None:
        """Use what is committed up to this offset."""

    def propose(self, value: object) -> None:
        assert self.raft is not None
        self._append((Entry(self.raft.term, value),))
        self.call(self.raft.appended, 1)

    def change_voters(self, voters: frozenset[NodeIdentity]) -> bool:
        """Change the voters if the core allows it."""
        assert self.raft is not None
        if self.raft.refuse_voters(voters) is not None:
            return False
        self._append((Entry(self.raft.term, 0, tuple(sorted(voters))),))
        self.call(partial(self.raft.appended, voters=voters), 1)
        return True

    def _append(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            self.universe.oracles.appends(self, entry)
            self.entries.append(entry)
        self._sync()

    def _sync(self) -> None:
        if not self._is_syncing and self.durable_end < len(self.entries):
            self._is_syncing = True
            self.later(self._disk_delay(), self._synced, len(self.entries))

    def _synced(self, end: int) -> None:
        assert self.raft is not None
        self._is_syncing = False
        self.durable_end = end
        self.call(self.raft.durable, end)
        self._sync()

    def _save(self, vote: Vote) -> None:
        assert self.raft is not None
        if self.universe.forgets_votes:
            self.later(0, self._confirm_vote, vote)
            return
        self._votes.append(vote)
        if len(self._votes) == 1:
            self.later(self._disk_delay(), self._saved)

    def _saved(self) -> None:
        self.saved = self._votes.pop(0)
        self.universe.oracles.saves(self)
        if self._votes:
            self.later(self._disk_delay(), self._saved)
        self._confirm_vote(self.saved)

    def _confirm_vote(self, vote: Vote) -> None:
        assert self.raft is not None
        self.call(self.raft.vote_saved, vote)

    def _disk_delay(self) -> int:
        random = self.universe.random
        stall = max(0, self.stalled_until - self.universe.now)
        return stall + round(random.expovariate(1) * self.universe.sync_ns)

    def receive(self, source: NodeIdentity, message: RaftMessage) -> None:
        assert self.raft is not None
        self.heard[source] = self.universe.now
        self.call(self.raft.receive, source, message)

    def __repr__(self) -> str:
        return f"<{self.me.node} {self.raft or 'down'}, on disk {self.saved}, {self.durable_end}/{len(self.entries)}>"


class Universe:
    """A cluster of some nodes, and the order of all that happens."""

    node_type: type[SimulatedNode] = SimulatedNode

    def __init__(self, seed: int, count: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.settings = RaftSettings(heartbeat_ns=200 * MS, batch_records=self.random.choice((1, 3, 1000)))
        self.now = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self.forgets_votes = self.keeps_identity_of_wiped = False
        """Planted defects."""
        self.has_late_copies = False
        """Many messages come late or twice."""
        self.has_brief_leaders = False
        """Leaders are cut off and crash soon, and syncs are slow."""
        self.loss = self.doubling = 0.0
        self.late = 0.0
        """The share of messages that come very late."""
        self.is_ordered = False
        """Messages of a link arrive in their order, as on a connection."""
        self._arrivals: dict[tuple[str, str], int] = {}
        self.is_quiet = False
        """Nothing is proposed."""
        self.is_peaceful = False
        """No operator makes mistakes any more."""
        self.tells = False
        """Leaders tell the state again, so that the beginning of the log goes."""
        self.skips = 0
        """How often a node passed over what was gone."""
        self.replaces_voters = False
        """Voters whose disks were lost are replaced, and others are taken out and added again."""
        self.delay_ns = 2 * MS
        self.sync_ns = 1 * MS
        self.cut: set[tuple[str, str]] = set()
        """Links on which nothing arrives, by sender and receiver."""
        self.nodes = [self.node_type(self, f"n{number}") for number in range(1, count + 1)]
        self.voters = frozenset(node.me for node in self.nodes)
        """Those of the formation."""
        self.oracles = Oracles(self)
        self._value = 0

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.at(0, self._propose)
        if self.replaces_voters:
            self.at(0, self.replace_voters)

    def at(self, when: int, function: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, function, arguments))

    def run(self, nanoseconds: int, *, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether the condition was reached."""
        end, events = self.now + nanoseconds, self._events
        while events and events[0][0] <= end:
            self.now, _, function, arguments = heapq.heappop(events)
            function(*arguments)
            if until is not None and until():
                return True
        self.now = end
        return False

    def send(self, sender: SimulatedNode, to: NodeIdentity, message: RaftMessage) -> None:
        if isinstance(message, Append) and message.end > message.base:
            content = tuple(sender.entries[message.base : message.end])
            has_all = message.base >= sender.begins and all(one.value != GAP for one in content)
            self.oracles.require(has_all, f"{sender.me.node} sends what it has not")
            message = Append(
                message.term, message.prev_epoch, message.base, message.end, message.epochs, message.commit,
                message.sent_ns, content, message.voters,  # type: ignore[arg-type]
            )  # fmt: skip
        random = self.random
        if (sender.me.node, to.node) in self.cut or random.random() < self.loss:
            return
        copies = 2 if random.random() < self.doubling else 1
        for _ in range(copies):
            delay = round(random.expovariate(1) * self.delay_ns) + 1
            if random.random() < self.late:
                delay += round(random.random() * 3 * SECOND)
            when = self.now + delay
            if self.is_ordered:
                link = sender.me.node, to.node
                when = self._arrivals[link] = max(when, self._arrivals.get(link, 0) + 1)
            self.at(when, self._deliver, sender.me, to, message)

    def _deliver(self, source: NodeIdentity, to: NodeIdentity, message: RaftMessage) -> None:
        for node in self.nodes:
            if node.me == to and node.raft is not None and (source.node, to.node) not in self.cut:
                node.later(0, node.receive, source, message)

    def _propose(self) -> None:
        for node in () if self.is_quiet else self.up:
            if node.raft is not None and node.raft.is_controller and self.now >= node.paused_until:
                if self.tells and self.random.random() < 0.2:
                    node.tell()
                    continue
                self._value += 1
                node.propose(self._value)
        self.at(self.now + round(self.random.expovariate(1) * 200 * MS), self._propose)

    def replace_voters(self) -> None:
        """Take a voter out, at best one whose disk was lost, or add a node that has no vote."""
        for node in self.up if self.replaces_voters else ():
            if node.raft is not None and node.raft.is_controller and self.now >= node.paused_until:
                voters, present = node.raft.voters, {one.me for one in self.nodes}
                gone, new = sorted(voters - present), sorted(present - voters)
                if not self.is_peaceful and len(voters) > 1 and (not new or self.random.random() < 0.4):
                    gone = gone or [self.random.choice(sorted(voters - {node.me}))]
                if gone:
                    node.change_voters(voters - {gone[0]})
                elif new:
                    node.change_voters(voters | {new[0]})
        self.introduce_observers()
        self.at(self.now + round(self.random.expovariate(1) * 300 * MS), self.replace_voters)

    @property
    def up(self) -> list[SimulatedNode]:
        return [node for node in self.nodes if node.raft is not None]

    def leaders(self) -> list[SimulatedNode]:
        return [node for node in self.up if node.raft is not None and node.raft.is_leader]

    def introduce_observers(self) -> None:
        """Let leaders know the nodes without a vote that are there, as their connections do."""
        for node in self.nodes:
            for other in self.up:
                if other is not node and other.raft is not None and node.me not in other.raft.voters:
                    other.call(other.raft.add_observer, node.me)
