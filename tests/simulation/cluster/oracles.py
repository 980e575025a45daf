"""Oracles: the properties that a simulated cluster must have after each step."""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from goqueue.cluster.messages import Ack, NodeIdentity, RaftMessage, RoleChanged, VoteAnswer

if TYPE_CHECKING:
    from tests.simulation.cluster.universe import SimulatedNode, Universe


class Entry(NamedTuple):
    epoch: int
    value: object
    voters: tuple[NodeIdentity, ...] = ()
    """Those from here on, if it changes them."""


class Told(NamedTuple):
    """The value of an entry that tells the state again; the log may begin at `start` once it is committed."""

    start: int


GAP = "gap"
"""The value of an entry that a node has never had: it has passed over it."""


class Violated(AssertionError):
    """A property of the cluster does not hold."""


class Oracles:
    """The history of a universe, and the properties that it must have."""

    def __init__(self, universe: "Universe") -> None:
        self.universe = universe
        self.leaders: dict[int, NodeIdentity] = {}
        """By term."""
        self.committed: list[Entry] = []
        self.committed_in: list[int] = []
        """The term in which each was committed."""
        self.confirmed: dict[tuple[NodeIdentity, int], int] = {}
        """The ends that followers have confirmed to the leader of a term."""
        self.contents: dict[tuple[int, int], tuple[object, int]] = {}
        """The value and the epoch before it, by offset and epoch: nowhere are there ever two."""
        self.saved: dict[tuple[NodeIdentity, int], NodeIdentity | None] = {}
        """The votes that were on disk at some time."""
        self.terms: dict[NodeIdentity, int] = {}
        self.cuts = 0
        """How often a log was cut back."""
        self.commits_of: dict[tuple[NodeIdentity, int], int] = {}

    def require(self, is_true: bool, sentence: str) -> None:
        if not is_true:
            universe = self.universe
            nodes = "\n  ".join(map(repr, universe.nodes))
            raise Violated(f"seed {universe.seed} at {universe.now / 1e9:.3f} s: {sentence}\n  {nodes}")

    @property
    def voters(self) -> frozenset[NodeIdentity]:
        """Return the voters by what is committed."""
        return voters_in(self.universe, self.committed)

    def possible_voters(self) -> set[frozenset[NodeIdentity]]:
        """Return the voters by what is committed, and by what may be."""
        known = len(self.committed)
        rows = (one.voters for node in self.universe.nodes for one in node.entries[known:])
        return {self.voters, *(frozenset(voters) for voters in rows if voters)}

    # --- elections ---

    def changes_role(self, node: "SimulatedNode", change: RoleChanged) -> None:
        self._saw_term(node, change.term)
        if change.role != "leader":
            return
        first = self.leaders.setdefault(change.term, node.me)
        self.require(first == node.me, f"term {change.term} has two leaders, {first.node} and {node.me.node}")
        voters = voters_in(self.universe, node.entries)
        assert node.raft is not None
        had_vote = node.me in voters_in(self.universe, node.entries[: node.raft.commit])
        self.require(node.me in voters or had_vote, f"{node.me} leads and has no vote")
        electors = sum(self.saved.get((one, change.term)) == node.me for one in voters)
        self.require(electors > len(voters) // 2, f"{node.me.node} leads term {change.term} without saved votes")
        for other in self.universe.up:
            is_earlier = other.raft is not None and other.raft.term < change.term
            has_lease = is_earlier and other.raft is not None and other.raft.has_lease(other.clock())
            self.require(not has_lease, f"{other.me.node} has a lease when {node.me.node} is elected")
        count = bisect_right(self.committed_in, change.term)
        complete = len(node.entries) >= count and (not count or node.entries[count - 1] == self.committed[count - 1])
        self.require(complete, f"{node.me.node} leads term {change.term} and lacks what is committed")

    def saves(self, node: "SimulatedNode") -> None:
        vote, key = node.saved, (node.me, node.saved.term)
        first = self.saved.get(key)
        twice = first is not None and first != vote.candidate
        self.require(not twice, f"{node.me.node} votes twice in term {vote.term}: for {first} and {vote.candidate}")
        self.saved[key] = vote.candidate
        self._saw_term(node, node.saved.term)

    def _saw_term(self, node: "SimulatedNode", term: int) -> None:
        key = node.me
        before = self.terms.get(key, 0)
        self.require(node.saved.term <= max(before, term), "a term on disk was never begun")
        self.terms[key] = max(before, term)
        if node.raft is not None:
            self.require(node.raft.term >= node.saved.term, f"{key.node} is behind the term on its disk")

    def sends(self, node: "SimulatedNode", message: RaftMessage) -> None:
        if isinstance(message, VoteAnswer) and message.granted and not message.pre_vote:
            is_saved = self.universe.forgets_votes or (node.me, message.term) in self.saved
            self.require(is_saved, f"{node.me.node} grants a vote that is not on its disk")
        elif isinstance(message, Ack):
            key = node.me, message.term
            self.confirmed[key] = max(self.confirmed.get(key, 0), message.end)

    # --- logs ---

    def appends(self, node: "SimulatedNode", entry: Entry) -> None:
        offset = len(node.entries)
        before = node.entries[-1].epoch if node.entries else 0
        first = self.contents.setdefault((offset, entry.epoch), (entry.value, before))
        same = first == (entry.value, before)
        self.require(
            same, f"offset {offset} has two contents in epoch {entry.epoch}: {first} and {entry.value, before}"
        )
        self.require(entry.epoch >= before, f"epochs fall at offset {offset} of {node.me.node}")

    def truncates(self, node: "SimulatedNode", end: int) -> None:
        assert node.raft is not None
        self.cuts += 1
        commit = self.commits_of.get((node.me, node.life), 0)
        self.require(end >= commit, f"{node.me.node} cuts off what it knows to be committed")
        confirmed = self.confirmed.get((node.me, node.raft.term), 0)
        self.require(end >= confirmed, f"{node.me.node} cuts off what it has confirmed to its leader")

    def commits(self, node: "SimulatedNode", end: int) -> None:
        key = node.me, node.life
        before = self.commits_of.get(key, 0)
        self.require(end > before, f"the commit of {node.me.node} falls")
        self.require(end <= len(node.entries), f"{node.me.node} commits what it does not have")
        self.commits_of[key] = end
        known = self.committed
        for offset in range(max(before, node.begins), min(end, len(known))):
            self.require(
                node.entries[offset] == known[offset], f"{node.me.node} commits something else at offset {offset}"
            )
        if end > len(known):
            assert node.raft is not None
            self.committed_in += [node.raft.term] * (end - len(known))
            self.require(len(known) >= node.begins, f"{node.me.node} commits what it never had")
            known += node.entries[len(known) : end]
            self._check_durable(end, voters_in(self.universe, node.entries))

    def _check_durable(self, end: int, voters: frozenset[NodeIdentity]) -> None:
        """Check that what was committed just now is on a majority, and that all who can be elected have it."""
        universe = self.universe
        last = self.committed[end - 1]
        having = {one.me for one in universe.nodes if one.durable_end >= end and one.entries[end - 1] == last}
        wiped = voters - {one.me for one in universe.nodes}  # they may have had it, and have no vote any more
        count = len(having & voters) + len(wiped)
        self.require(count > len(voters) // 2, f"offset {end - 1} is committed and not on a majority")
        for node in universe.nodes:
            own = voters_in(universe, node.entries[: node.durable_end])
            may_ask = node.durable_end > node.begins or not node.begins  # who votes is in the record where it begins
            if node.me in own and node.me not in having and may_ask:
                position = _position(node)
                electors = sum(one.me in own and position >= _position(one) for one in universe.nodes)
                self.require(
                    electors <= len(own) // 2,
                    f"{node.me.node} lacks offset {end - 1} and can be elected after its commit",
                )

    # --- leadership ---

    def ticked(self, node: "SimulatedNode") -> None:
        """A leader has heard a majority lately."""
        from tests.simulation.cluster.universe import ELECTION  # noqa: PLC0415 - it imports this module

        raft, universe = node.raft, self.universe
        if raft is None or not raft.is_leader:
            return
        since = universe.now - ELECTION * 5 // 2
        if node.paused_until > since or node.started_ns > since:
            return
        if raft.history.changed_at >= raft.commit:
            return  # others than those that elected it
        heard = sum(one != node.me and node.heard.get(one, 0) > since for one in raft.voters)
        self.require(
            heard + 1 > len(raft.voters) // 2, f"{node.me.node} leads and has heard no majority for 2.5 timeouts"
        )


def voters_in(universe: "Universe", entries: list[Entry]) -> frozenset[NodeIdentity]:
    """Return the voters at the end of a log."""
    found = next((one.voters for one in reversed(entries) if one.voters), None)
    return universe.voters if found is None else frozenset(found)


def _position(node: "SimulatedNode") -> tuple[int, int]:
    end = node.durable_end
    return (node.entries[end - 1].epoch if end else 0), end
