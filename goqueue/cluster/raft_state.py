"""The state of one node's part in Raft, and the small steps that change it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.messages import (
    Committed,
    Effect,
    NodeIdentity,
    RaftMessage,
    Role,
    RoleChanged,
    SaveVote,
    Send,
    Vote,
)
from goqueue.cluster.voters import VoterHistory, VoterRow

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Times of elections."""

    election_ns: int = 1000 * _MS
    """The least election timeout; the one in effect is random, up to twice as long."""
    heartbeat_ns: int = 100 * _MS
    short_ns: tuple[int, int] = 2 * _MS, 17 * _MS
    """The election timeout after the leader's process is known to be gone, of the voter that comes first by name."""
    turn_ns: int = 25 * _MS
    """Each further voter waits so much longer then: two at a time would split the votes."""
    stall_ns: int = 1000 * _MS
    """A leader whose disk completes nothing for so long hands over."""
    resignation_ns: int = 600_000 * _MS
    """The least time between two such resignations."""
    batch_records: int = 1000
    """The most records in one message."""


class FollowerProgress:
    """The progress of a follower, as its leader knows it."""

    __slots__ = ("heard_ns", "is_streaming", "match", "next", "resent_ns")

    def __init__(self, next_offset: int, now_ns: int) -> None:
        self.match = 0
        """It has everything below this offset durably."""
        self.next = next_offset
        """The next record to send."""
        self.heard_ns = now_ns
        """When the newest message was sent that it has answered, by the leader's clock."""
        self.resent_ns = -1
        """When it was sent again what did not arrive."""
        self.is_streaming = False
        """Whether its log fits, so records are sent without waiting for answers."""


class RaftState:
    """The state of a node, and its knowledge of the others."""

    def __init__(
        self,
        settings: RaftSettings,
        me: NodeIdentity,
        voters: VoterHistory,
        vote: Vote,
        log: EpochIndex,
        chance: Callable[[], float],
        now_ns: int,
    ) -> None:
        """`chance` returns a random number from 0 to 1."""
        self.settings = settings
        self.me = me
        self.history = voters
        self.voters = voters.now
        self.others = tuple(sorted(self.voters - {me}))
        self.observers: set[NodeIdentity] = set()
        self.vote = vote
        self.log = log
        self.commit = min(log.start + 1, log.end) if log.start else 0
        """A log that begins later begins with a record that is committed: it says who votes."""
        self.verified_end = self.commit
        """The log up to here is known to be that of the leader of this term."""
        self.role: Role = self._resting_role
        self.leader: NodeIdentity | None = None
        self.progress: dict[NodeIdentity, FollowerProgress] = {}
        self.effects: list[Effect] = []
        self._chance = chance
        self._saved = vote
        self._held: list[Send] = []
        """Messages that wait until the vote is saved."""
        self._grants: set[NodeIdentity] = set()
        self._heard_ns = now_ns
        """When a leader was heard. A voter may have confirmed a lease just before it started."""
        self._timeout_ns = self._random_timeout()
        self._deadline_ns = now_ns + self._timeout_ns
        self._fast_until_ns = 0
        self._gone: NodeIdentity | None = None
        """The leader whose process is gone, while the next one is elected fast."""
        self._fast_attempts = 0
        """Of this voter since then; each must leave the others more time to save and answer."""
        self._leader_sent_ns = 0
        self._acked_end = 0
        self._elected_ns = 0
        self.epoch_start = 0
        """Where the term of this leader begins in its log."""
        self._heartbeat_ns = 0
        self._unsynced_ns: int | None = None
        """Since when the disk completes nothing, while something waits for it."""
        self._resigned_ns = -settings.resignation_ns
        self._successor: tuple[NodeIdentity, int] | None = None
        """Who takes over, and until when that is waited for."""
        self._has_offered = False
        """Whether a successor was asked to take over in this term, which it may do at any time."""

    @property
    def term(self) -> int:
        return self.vote.term

    @property
    def is_leader(self) -> bool:
        return self.role == "leader"

    @property
    def is_controller(self) -> bool:
        """Return whether it may append records: it leads, and all records of former leaders are committed."""
        return self.is_leader and self.commit > self.epoch_start and self._successor is None

    def has_lease(self, now_ns: int) -> bool:
        """Return whether no later leader can have been elected until now. To be asked when an answer leaves.

        Voters that were `refused` by this node's address may elect earlier, although its process runs: a network that
        resets connections looks like that.
        """
        if not self.is_leader or self._has_offered:
            return False
        return now_ns - self._quorum_heard_ns(now_ns) < self.settings.election_ns * 4 // 5

    def deadline(self) -> int:
        """Return when `tick` is due."""
        return self._heartbeat_ns if self.is_leader else self._deadline_ns

    @property
    def _resting_role(self) -> Role:
        """A voter that is taken out elects and leads until that is committed: only it may have the record.

        One that has passed over records elects no node before it has the next one, which says who votes.
        """
        if self.log.start and self.log.end == self.log.start:
            return "observer"
        is_voter = self.me in self.voters or self.me in self.history.at(self.commit)
        return "follower" if is_voter else "observer"

    def _has_majority(self, nodes: set[NodeIdentity]) -> bool:
        return len(nodes & self.voters) > len(self.voters) // 2

    def _quorum_heard_ns(self, now_ns: int) -> int:
        """Return when the newest messages were sent that a majority has answered."""
        own = (now_ns,) if self.me in self.voters else ()
        return majority_value((*own, *(self.progress[one].heard_ns for one in self.others)), len(self.voters))

    @property
    def _confirmed(self) -> int:
        return min(self.log.durable_end, self.verified_end)

    def _is_of_own_term(self, end: int) -> bool:
        return self.log.epoch_before(end) == self.term

    # --- steps ---

    def _random_timeout(self) -> int:
        return round(self.settings.election_ns * (1 + self._chance()))

    def _restart_timeout(self, now_ns: int) -> None:
        if now_ns < self._fast_until_ns:
            least, most = self.settings.short_ns
            turn_ns = self.settings.turn_ns * sum(one < self.me for one in self.others if one != self._gone)
            attempts = self._fast_attempts
            wait_ns = least + round((most - least) * self._chance()) << (attempts + 2 if attempts else 0)
            self._deadline_ns = now_ns + turn_ns + min(wait_ns, self.settings.election_ns)
        else:
            self._timeout_ns = self._random_timeout()
            self._deadline_ns = now_ns + self._timeout_ns

    def _is_stalled(self, now_ns: int) -> bool:
        return self._unsynced_ns is not None and now_ns - self._unsynced_ns > self.settings.stall_ns

    def _set_vote(self, vote: Vote) -> None:
        self.vote = vote
        self.effects.append(SaveVote(vote))

    def _begin_term(self, vote: Vote) -> None:
        self._set_vote(vote)
        self.verified_end = self._acked_end = 0
        self._leader_sent_ns = 0

    def _send(self, to: NodeIdentity, message: RaftMessage) -> None:
        effects: list[Effect] | list[Send] = self.effects if self._saved == self.vote else self._held
        effects.append(Send(to, message))

    def _extend(
        self, end: int, rows: tuple[tuple[int, int], ...], now_ns: int, voter_rows: tuple[VoterRow, ...] = ()
    ) -> None:
        if self._unsynced_ns is None:
            self._unsynced_ns = now_ns
        self.log.extend(end, rows)
        if voter_rows:
            self.history.extend(voter_rows)
            self._follow_history(now_ns)

    def _follow_history(self, now_ns: int) -> None:
        """Let the voters be those of the log as it is now."""
        voters = self.history.now
        if voters == self.voters:
            self._rest(now_ns)
            return
        self.observers = (self.observers | self.voters) - voters - {self.me}
        self.voters = voters
        self.others = tuple(sorted(voters - {self.me}))
        if self.is_leader:
            for peer in self.others:
                self.progress.setdefault(peer, FollowerProgress(self.log.end, 0))
        elif self.role != self._resting_role:
            self._rest(now_ns, or_ends=True)

    def _rest(self, now_ns: int, *, or_ends: bool = False) -> None:
        """Follow with or without a vote. A candidacy goes on unless it `or_ends`."""
        if self.role != self._resting_role and (or_ends or self.role in ("follower", "observer")):
            self.role = self._resting_role
            self._restart_timeout(now_ns)
            self._announce()

    def _commit_to(self, end: int) -> None:
        if end > self.commit:
            is_voter, self.commit = self._resting_role == "follower", end
            self.effects.append(Committed(end))
            if is_voter and self._resting_role == "observer":
                self.role, self.leader, self.progress = "observer", None if self.is_leader else self.leader, {}
                self._announce()

    def forget_below(self, start: int) -> None:
        """The state was rewritten from this offset on, and all of that is committed: the log begins there."""
        self.log.forget_below(start)
        for progress in self.progress.values():
            if progress.next < start:
                progress.next, progress.is_streaming = start, False

    def _set_leader(self, leader: NodeIdentity | None) -> None:
        if self.leader != leader:
            self.leader = leader
            self._announce()

    def _announce(self) -> None:
        self.effects.append(RoleChanged(self.role, self.term, self.leader))


def majority_value(values: Iterable[int], count: int) -> int:
    """Return the greatest value that a majority of `count` voters has reached. Voters without a value have none."""
    ordered = sorted(values, reverse=True)
    majority = count // 2
    return ordered[majority] if majority < len(ordered) else 0
