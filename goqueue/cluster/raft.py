"""Raft: the core by which nodes elect a leader and replicate its log. Without input/output, clock and randomness.

    follower ── timeout ──> pre-candidate ── a majority would vote ──> candidate ── a majority votes ──> leader
       ^                                                                                                   │
       └──────────── a later term, or no majority has answered within the election timeout ────────────────┘

What must stay true:

* A vote is on the device before anything that follows from it is sent. A voter votes once in a term.
* A follower confirms what it has durably and knows to be the same as in the leader's log. The leader counts itself by
  its own durable end, and sends before its own sync.
* Only a majority of all voters commits, and only together with a record of the leader's own term.
* A voter is a node on its directory. Without its directory it follows as an observer.
* Who votes is known from the own log, up to its end. A candidate counts by its own; others answer it whatever theirs
  says, because they may not have the record that made it a voter.
* Only followers cut their logs, where the leader's differs, and never what is committed.
* A voter that hears its leader grants no votes (stickiness); a leader that no majority answers resigns (check quorum);
  a term begins only if a majority would vote (pre-vote). So a node that is cut off, in one direction or both, neither
  leads nor disturbs.
"""

from goqueue.cluster.messages import (
    Ack,
    Append,
    BeginEpoch,
    Conflict,
    Diverged,
    LogStart,
    NodeIdentity,
    RaftMessage,
    SkipTo,
    StaleTerm,
    Store,
    TimeoutNow,
    Truncate,
    Vote,
    VoteAnswer,
    VoteRequest,
)
from goqueue.cluster.raft_state import FollowerProgress, RaftState, majority_value
from goqueue.cluster.voters import is_one_step

_WINDOW_RECORDS = 10_000


class Raft(RaftState):
    """One node's part. The owner executes `effects` in their order after each call, before the next one, and:

    * calls `tick` at `deadline()` or a little later, `vote_saved` and `durable` when the device has it;
    * appends to its log only what `BeginEpoch` and `Store` ask for, and records while `is_controller`, of which it
      tells `appended`;
    * passes on messages with the identity of the sender that its connection has proved.
    """

    # --- time ---

    def tick(self, now_ns: int) -> None:
        if self.is_leader:
            self._tick_leader(now_ns)
        elif now_ns >= self._deadline_ns:
            if self.role == "observer":
                self._deadline_ns = now_ns + self.settings.election_ns
                self._set_leader(None)
            else:
                self._campaign(now_ns)

    def _tick_leader(self, now_ns: int) -> None:
        if now_ns - max(self._quorum_heard_ns(now_ns), self._elected_ns) > self.settings.election_ns:
            self._follow(self.term, None, now_ns)  # check quorum
            return
        if self._is_stalled(now_ns) and now_ns - self._resigned_ns >= self.settings.resignation_ns:
            self._resign_for_stall(now_ns)
            return
        if self._successor is not None and now_ns > self._successor[1]:
            self._successor = None
        if now_ns >= self._heartbeat_ns:
            self._broadcast(now_ns)

    def refused(self, node: str, now_ns: int) -> None:
        """The node's process is gone: its connection ended, and a new one is refused."""
        if self.leader is not None and self.leader.node == node and self.leader != self.me:
            self._gone, self._fast_attempts = self.leader, 0
            self._set_leader(None)
            self._heard_ns, self._fast_until_ns = now_ns - self.settings.election_ns, now_ns + self.settings.election_ns
            self._restart_timeout(now_ns)

    # --- disk ---

    def vote_saved(self, vote: Vote, now_ns: int) -> None:
        self._saved = vote
        if vote != self.vote:  # a later one is being written
            return
        self.effects += self._held
        self._held.clear()
        if self.role == "candidate":
            self._grants.add(self.me)
            self._lead_with_majority(now_ns)

    def durable(self, end: int, now_ns: int) -> None:
        """Everything below this offset of the log is on the device."""
        log = self.log
        if end <= log.durable_end:
            return
        log.durable_end = end
        self._unsynced_ns = now_ns if end < log.end else None
        if self.is_leader:
            self._commit_majority(now_ns)
            if self.history.changed_at >= self.commit:  # it was held back
                for peer in tuple(self.progress):
                    self._push(peer, now_ns)
        elif self.leader is not None and self.leader != self.me and (confirmed := self._confirmed) > self._acked_end:
            self._acked_end = confirmed
            self._send(self.leader, Ack(self.term, confirmed, self._leader_sent_ns))

    # --- elections ---

    def _campaign(self, now_ns: int) -> None:
        self._fast_attempts += 1
        self._restart_timeout(now_ns)
        if self._saved != self.vote or self._is_stalled(now_ns):  # a stalled disk can neither vote nor lead
            self._set_leader(None)
            return
        self.role, self.leader, self._grants = "pre_candidate", None, {self.me}
        self._announce()
        self._ask_for_votes(VoteRequest(self.term + 1, self.log.last_epoch, self.log.end, pre_vote=True))
        self._elect_with_majority(now_ns)

    def _elect_with_majority(self, now_ns: int, *, transfer: bool = False) -> None:
        if not transfer and not self._has_majority(self._grants):
            return
        self._restart_timeout(now_ns)
        self.role, self.leader, self._grants = "candidate", None, set()
        self._begin_term(Vote(self.term + 1, self.me))
        self._announce()
        self._ask_for_votes(VoteRequest(self.term, self.log.last_epoch, self.log.end, transfer=transfer))

    def _ask_for_votes(self, request: VoteRequest) -> None:
        for voter in self.others:
            self._send(voter, request)

    def _on_vote_request(self, source: NodeIdentity, asked: VoteRequest, now_ns: int) -> None:
        if not asked.transfer and self._defends_leader(now_ns):
            self._send(source, VoteAnswer(self.term, granted=False, pre_vote=asked.pre_vote))
            return
        if asked.pre_vote:
            granted = asked.term > self.term and self._is_up_to_date(asked)
        else:
            if asked.term > self.term:
                self._follow(asked.term, None, now_ns)
            granted = asked.term == self.term and self._may_vote(source) and self._is_up_to_date(asked)
            if granted and self.vote.candidate is None:
                self._set_vote(Vote(self.term, source))
                self._restart_timeout(now_ns)
        term = asked.term if granted else self.term
        self._send(source, VoteAnswer(term, granted, asked.pre_vote))

    def _defends_leader(self, now_ns: int) -> bool:
        return self.is_leader or now_ns - self._heard_ns < self.settings.election_ns

    def _may_vote(self, candidate: NodeIdentity) -> bool:
        return self.vote.candidate in (None, candidate)

    def _is_up_to_date(self, asked: VoteRequest) -> bool:
        return (asked.last_epoch, asked.end) >= (self.log.last_epoch, self.log.end)

    def _on_vote_answer(self, source: NodeIdentity, answer: VoteAnswer, now_ns: int) -> None:
        if not answer.granted:
            if answer.term > self.term:
                self._follow(answer.term, None, now_ns)
        elif answer.pre_vote and self.role == "pre_candidate" and answer.term == self.term + 1:
            self._grants.add(source)
            self._elect_with_majority(now_ns)
        elif not answer.pre_vote and self.role == "candidate" and answer.term == self.term:
            self._grants.add(source)
            self._lead_with_majority(now_ns)

    def _lead_with_majority(self, now_ns: int) -> None:
        if not self._has_majority(self._grants):
            return
        self.role, self.leader, self._elected_ns = "leader", self.me, now_ns
        self._successor, self._has_offered = None, False
        self._fast_until_ns = 0
        self.progress = {peer: FollowerProgress(self.log.end, 0) for peer in (*self.others, *sorted(self.observers))}
        self.epoch_start = self.log.end
        self._announce()
        self.effects.append(BeginEpoch(self.term))
        self._extend(self.log.end + 1, ((self.term, self.log.end),), now_ns)
        self._broadcast(now_ns)

    def _follow(self, term: int, leader: NodeIdentity | None, now_ns: int) -> None:
        """Follow the leader of a term, or wait for one."""
        if term > self.term:
            self._begin_term(Vote(term))
        self.role, self.leader = self._resting_role, leader
        self.progress = {}
        self._successor = None
        self._restart_timeout(now_ns)
        self._announce()

    # --- handing over ---

    def transfer(self, now_ns: int, to: str = "") -> NodeIdentity | None:
        """Hand over to a voter, or to the one that is the furthest, once it has everything; return who that is."""
        if not self.is_leader or not self.others:
            return None
        alive = now_ns - self.settings.election_ns
        heard = [one for one in self.others if self.progress[one].heard_ns >= alive and to in ("", one.node)]
        target = max(heard, key=lambda one: self.progress[one].match, default=None)
        if target is not None:
            self._successor = target, now_ns + self.settings.election_ns
            self._hand_over(target)
        return target

    def _hand_over(self, follower: NodeIdentity) -> None:
        is_successor = self._successor is not None and self._successor[0] == follower
        if is_successor and self.progress[follower].match == self.log.end:
            self._offer(follower)

    def _offer(self, follower: NodeIdentity) -> None:
        self._has_offered = True
        self._send(follower, TimeoutNow(self.term))

    def _resign_for_stall(self, now_ns: int) -> None:
        self._resigned_ns = now_ns
        target = self.transfer(now_ns)
        if target is not None:
            self._offer(target)
            self._follow(self.term, None, now_ns)

    def _on_timeout_now(self, source: NodeIdentity, message: TimeoutNow, now_ns: int) -> None:
        if message.term == self.term and source == self.leader and self.role == "follower" and self._saved == self.vote:
            self._elect_with_majority(now_ns, transfer=True)

    # --- replication: the leader ---

    def refuse_voters(self, voters: frozenset[NodeIdentity]) -> str | None:
        """Return why the controller must not change the voters so now, or None."""
        if not self.is_controller:
            return f"node {self.me.node} is not the controller"
        if self.history.changed_at >= self.commit:
            return "the change before this one is not committed yet"
        if not is_one_step(self.voters, voters) or self.me not in voters:
            return "a change adds one voter or takes one out, and not the controller"
        for new in voters - self.voters:
            progress = self.progress.get(new)
            if progress is None or progress.match < self.commit:
                has = 0 if progress is None else progress.match
                return f"node {new.node} has {has:,} of {self.commit:,} records of the cluster, and needs all first"
        return None

    def appended(self, count: int, now_ns: int, voters: frozenset[NodeIdentity] | None = None) -> None:
        """The controller has appended so many records to its log, in one append.

        With `voters` it is one record, which changes them; `refuse_voters` has allowed it.
        """
        rows = () if voters is None else ((self.log.end, tuple(sorted(voters))),)
        self._extend(self.log.end + count, (), now_ns, rows)
        for peer in tuple(self.progress):
            self._push(peer, now_ns)

    def add_observer(self, observer: NodeIdentity, now_ns: int) -> None:
        """A node that has no vote is connected and follows the log."""
        if observer in self.voters:
            return
        self.observers.add(observer)
        if self.is_leader and observer not in self.progress:
            self.progress[observer] = FollowerProgress(self.log.end, 0)
            self._push(observer, now_ns, beat=True)

    def drop_observer(self, observer: NodeIdentity) -> None:
        self.observers.discard(observer)
        if observer not in self.voters:
            self.progress.pop(observer, None)

    def _broadcast(self, now_ns: int) -> None:
        self._heartbeat_ns = now_ns + self.settings.heartbeat_ns
        for peer in self.progress:
            self._push(peer, now_ns, beat=True)

    @property
    def _sendable_end(self) -> int:
        """Return up to where records may be sent: the leader keeps a change of the voters before others can have it.

        Without it, a leader that has lost its unsynced end needs the vote of a node that knows that it has none.
        """
        changed = self.history.changed_at
        return changed if changed >= self.log.durable_end else self.log.end

    def _push(self, peer: NodeIdentity, now_ns: int, *, beat: bool = False) -> None:
        """Send what the follower lacks, or at least a heartbeat if `beat`."""
        progress, log = self.progress[peer], self.log
        while True:
            base = end = progress.next
            if progress.is_streaming and base - progress.match < _WINDOW_RECORDS:
                end = max(base, min(self._sendable_end, base + self.settings.batch_records))
            if end == base and not beat:
                return
            rows, voters = log.rows_between(base, end), self.history.between(base, end)
            before = log.epoch_before(base)
            self._send(peer, Append(self.term, before, base, end, rows, self.commit, now_ns, b"", voters))
            progress.next, beat = end, False

    def _on_ack(self, source: NodeIdentity, ack: Ack, now_ns: int) -> None:
        progress = self._heard_from(source, ack.term, ack.sent_ns)
        if progress is None:
            return
        progress.is_streaming = True
        if ack.end > progress.match:
            progress.match = ack.end
            progress.next = max(progress.next, ack.end)
            self._commit_majority(now_ns)
            self._hand_over(source)
        if source in self.progress:
            self._push(source, now_ns)

    def _on_conflict(self, source: NodeIdentity, conflict: Conflict, now_ns: int) -> None:
        progress = self._heard_from(source, conflict.term, conflict.sent_ns)
        if progress is None:
            return
        log = self.log
        if conflict.end < log.start or conflict.last_epoch < log.epoch_before(log.start):
            before = log.epoch_before(log.start)
            self._send(source, LogStart(self.term, conflict.last_epoch, conflict.end, log.start, before))
            return
        epoch, end = log.end_of(conflict.last_epoch)
        if epoch == conflict.last_epoch and conflict.end <= end:
            if conflict.sent_ns <= progress.resent_ns:  # it is about messages that have been sent again already
                return
            progress.resent_ns = now_ns
            progress.next, progress.is_streaming = max(conflict.end, progress.match), True
            self._push(source, now_ns)
        else:
            progress.is_streaming = False
            self._send(source, Diverged(self.term, conflict.last_epoch, conflict.end, epoch, end))

    def _heard_from(self, source: NodeIdentity, term: int, sent_ns: int) -> FollowerProgress | None:
        if not self.is_leader or term != self.term:
            return None
        progress = self.progress.get(source)
        if progress is not None:
            progress.heard_ns = max(progress.heard_ns, sent_ns)
        return progress

    def _on_stale_term(self, source: NodeIdentity, message: StaleTerm, now_ns: int) -> None:
        if message.term > self.term and source in self.voters:
            self._follow(message.term, None, now_ns)

    def _commit_majority(self, now_ns: int) -> None:
        own = (self.log.durable_end,) if self.me in self.voters else ()
        ends = (*own, *(self.progress[one].match for one in self.others))
        end = majority_value(ends, len(self.voters))
        if end > self.commit and self._is_of_own_term(end):
            self._commit_to(end)
            self._broadcast(now_ns)

    # --- replication: the follower ---

    def _on_append(self, source: NodeIdentity, append: Append, now_ns: int) -> None:
        if append.term < self.term:
            self._send(source, StaleTerm(self.term))
            return
        if self.is_leader and append.term == self.term:
            return
        if append.term > self.term or self.leader != source or self.role not in ("follower", "observer"):
            self._follow(append.term, source, now_ns)
        self._heard_ns, self._deadline_ns = now_ns, now_ns + self._timeout_ns
        self._leader_sent_ns = max(self._leader_sent_ns, append.sent_ns)
        reached = self._take(append, now_ns)
        if reached is None:
            self._send(source, Conflict(self.term, self.log.last_epoch, self.log.end, append.sent_ns))
            return
        self.verified_end = max(self.verified_end, reached)
        self._commit_to(min(append.commit, self.verified_end))
        self._acked_end = max(self._acked_end, self._confirmed)
        self._send(source, Ack(self.term, self._confirmed, append.sent_ns))

    def _take(self, append: Append, now_ns: int) -> int | None:
        """Store the records if they follow; return up to where the logs agree, or None if they do not."""
        log = self.log
        if append.base > log.end or log.epoch_before(append.base) != append.prev_epoch:
            return None
        if append.base == log.end:
            if append.end > append.base:
                self.effects.append(Store(append))
                self._extend(append.end, append.epochs, now_ns, append.voters)
            return append.end
        reached = min(append.end, log.end)
        rows = tuple(row for row in append.epochs if row[1] < reached)
        return reached if log.rows_between(append.base, reached) == rows else None

    def _on_diverged(self, source: NodeIdentity, answer: Diverged, now_ns: int) -> None:
        log = self.log
        if answer.term != self.term or source != self.leader:
            return
        if (answer.asked_epoch, answer.asked_end) != (log.last_epoch, log.end) or log.durable_end < log.end:
            return  # late, or too early: the next heartbeat asks again
        end = min(answer.end, log.end_of(answer.epoch)[1])
        if self.commit <= end < log.end:
            log.cut(end)
            self.history.cut(end)
            self._acked_end = min(self._acked_end, end)
            self.effects.append(Truncate(end))
            self._follow_history(now_ns)
            self._send(source, Conflict(self.term, log.last_epoch, log.end, self._leader_sent_ns))

    def _on_log_start(self, source: NodeIdentity, answer: LogStart, now_ns: int) -> None:
        """Go on where the leader's log begins. What is before it is committed, and rewritten behind it."""
        log = self.log
        if answer.term != self.term or source != self.leader or answer.start <= self.commit:
            return
        if (answer.asked_epoch, answer.asked_end) != (log.last_epoch, log.end) or log.durable_end < log.end:
            return  # late, or too early: the next heartbeat asks again
        end = min(log.end_of(answer.epoch)[1], answer.start - 1)  # what is behind it is not committed
        if end < log.end:
            self.history.cut(end)
            self.effects.append(Truncate(end))
            self._follow_history(now_ns)
        log.reset(answer.start, ((answer.epoch, answer.start - 1),))
        self.commit = self.verified_end = self._acked_end = answer.start
        self.effects.append(SkipTo(answer.start, answer.epoch))
        self._rest(now_ns)
        self._send(source, Conflict(self.term, log.last_epoch, log.end, self._leader_sent_ns))

    # --- messages ---

    def receive(self, source: NodeIdentity, message: RaftMessage, now_ns: int) -> None:
        """Take a message of another node."""
        match message:
            case Append():
                self._on_append(source, message, now_ns)
            case Ack():
                self._on_ack(source, message, now_ns)
            case Conflict():
                self._on_conflict(source, message, now_ns)
            case Diverged():
                self._on_diverged(source, message, now_ns)
            case LogStart():
                self._on_log_start(source, message, now_ns)
            case StaleTerm():
                self._on_stale_term(source, message, now_ns)
            case VoteRequest():
                self._on_vote_request(source, message, now_ns)
            case VoteAnswer() if source in self.voters:
                self._on_vote_answer(source, message, now_ns)
            case TimeoutNow():
                self._on_timeout_now(source, message, now_ns)

    def __repr__(self) -> str:
        log = f"{self.commit}..{self.log.durable_end}..{self.log.end}"
        return f"<Raft {self.me.node} {self.role} in term {self.term}, log {log}>"
