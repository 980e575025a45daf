"""The leader of one partition in one leader epoch: what its followers have, and what is committed.

    high watermark = the least durable end of all replicas in sync, once it has passed the first frame of this epoch

What must stay true:

* It moves only while the committed ISR has `min_isr` replicas. A replica that the controller was asked to take out
  counts until that is committed; one that it was asked to take in counts from the moment of asking.
* A replica gets into the ISR only with all below the high watermark, and by the process that has shown it.
* A failure of the leader's own disk ends its leadership: followers may have what it could not store, so the same offset
  is never given out again in this epoch.

The shell calls with what happens, in its order, and then

* does the `effects`: `Tell` a node something, or `AskController` for something;
* sends each follower what `pending` names, and says so with `sent`;
* commits up to `replicated_end` what its own log has stored; tells followers the high watermark where it has changed.

A delayed log has the leader, the epoch, the replicas and the ISR of its partition: `delayed` of the leader of the
partition leads it. Only the leader of the partition asks for another ISR, for both: a replica that lags in one of the
logs leaves, and one returns when it keeps up in both. While a delayed log is there that is not led here yet, none
returns (`has_unled_delayed`).

It appends the epoch frame before anything else. `tick` looks at replicas that lag or have caught up: call it some times
a second while `is_uneven`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from goqueue.cluster.epoch_index import EpochIndex, EpochRow
from goqueue.cluster.partitions import PartitionId, PartitionState, partition_of
from goqueue.cluster.replication_messages import (
    IsrChange,
    OpenReplica,
    RaiseEpoch,
    ReplicaDiverged,
    ReplicaFenced,
    ReplicaOpened,
    ReplicaReset,
    ReplicationMessage,
    ResignLeadership,
)
from goqueue.limits import OFFSET_MAX

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """When replicas leave the ISR and return."""

    lag_ns: int = _SECOND
    """A replica whose oldest unconfirmed record waits for longer leaves the ISR; after half of it where all others in
    sync have the record."""
    steady_ns: int = _SECOND
    """A replica that has kept up for so long returns; twice as long each time that it soon lags again."""
    steady_ns_max: int = 60 * _SECOND
    repeat_ns: int = _SECOND
    """A request to the controller is sent again after this time without an answer."""
    catch_up_rate: int = 0
    """Bytes of a second that are sent to all replicas that are not in sync; 0: no limit."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the replica of a node."""

    node: str
    message: ReplicationMessage


@dataclass(frozen=True, slots=True)
class AskController:
    """Send a request to the controller."""

    request: IsrChange | ResignLeadership | RaiseEpoch
    attempt: int = 1


@dataclass(slots=True)
class FollowerCursor:
    """The progress of one follower, as its leader knows it."""

    match: int = -1
    """Everything below is durable there; -1: not known in this epoch."""
    next: int = 0
    """The first offset that was not sent."""
    is_open: bool = False
    """Whether data is sent to it."""
    broker_epoch: int = 0
    seen_end: int = 0
    """The leader's end at an earlier tick..."""
    seen_ns: int = -1
    """...when that was; -1: at no tick so far."""
    steady_since_ns: int = -1
    """Since when it keeps up; -1: it does not."""
    steady_ns: int = 0
    """For how long it has to keep up before it returns."""
    returned_ns: int = -1
    """When it last came back into the ISR."""
    added_epoch: int = 0
    """The partition epoch that it must know: a replica that was removed and added again has another log than before."""


@dataclass(slots=True)
class LeaderReplica:
    """A partition that is led here."""

    log: PartitionId
    me: str
    state: PartitionState
    index: EpochIndex
    high_watermark: int
    broker_epoch: int = 0
    """The registration of the process here."""
    settings: ReplicaSettings = field(default_factory=ReplicaSettings)
    partition: "LeaderReplica | None" = None
    """The leader of the partition whose delayed log this is."""
    delayed: "LeaderReplica | None" = None
    """The leader of the delayed log, if there is one."""
    has_unled_delayed: bool = False
    effects: list[Tell | AskController] = field(default_factory=list)
    followers: dict[str, FollowerCursor] = field(default_factory=dict)
    epoch: int = field(init=False)
    epoch_start: int = field(init=False, default=OFFSET_MAX)
    """The offset of the first frame of this epoch; at first none is there."""
    replicated_end: int = field(init=False)
    """Committed as far as the log here has stored it."""
    has_resigned: bool = field(init=False, default=False)
    _asked: IsrChange | None = field(init=False, default=None)
    _asked_ns: int = field(init=False, default=0)
    _attempts: int = field(init=False, default=0)
    _was_refused: bool = field(init=False, default=False)
    """Whether the last request was refused: the next one waits a while."""

    def __post_init__(self) -> None:
        self.epoch = self.state.leader_epoch
        self.high_watermark = self.replicated_end = min(self.high_watermark, self.index.end)
        self._meet_replicas(self.state.adding)

    def _meet_replicas(self, fresh: Iterable[str]) -> None:
        """Follow the replicas of the state. The `fresh` ones may have been removed, and lost what they had."""
        known, me, epoch = self.followers, self.me, self.state.partition_epoch
        self.followers = {node: known.get(node) or FollowerCursor() for node in self.state.replicas if node != me}
        self.followers |= {node: FollowerCursor(added_epoch=epoch) for node in fresh if node != me}

    # --- the log here ---

    def appended(self, end: int, rows: tuple[EpochRow, ...] = ()) -> None:
        """The leader's log goes up to this offset. `rows` has the epoch that its first frame began."""
        self.index.extend(end, rows)
        if rows:
            self.epoch_start = rows[-1][1]

    def durable(self, end: int) -> None:
        """Everything below this offset is stored here."""
        self.index.durable_end = end
        self._advance()

    def failed(self, reason: str) -> None:
        """The disk here has refused something that followers may have."""
        if not self.has_resigned:
            self.has_resigned = True
            self.effects.append(AskController(ResignLeadership(partition_of(self.log), self.me, self.epoch, reason)))
            self._advance()

    def forget_below(self, start: int) -> None:
        """Retention has removed what was below this offset. Followers that lack it ask again."""
        self.index.forget_below(start)
        for node, follower in self.followers.items():
            if follower.is_open and follower.next < start:
                follower.is_open = False
                self.effects.append(Tell(node, ReplicaFenced(self.log, self.epoch)))

    # --- followers ---

    def pending(self, node: str, base: int | None = None) -> tuple[int, int] | None:
        """Return the range of offsets that this follower lacks and was not sent; None if it is not from `base` on."""
        follower = self.followers.get(node)
        if follower is None or not follower.is_open or follower.next >= self.index.end:
            return None
        if base not in (None, follower.next):
            return None
        return follower.next, self.index.end

    def sent(self, node: str, end: int) -> None:
        """Everything below this offset was sent to the follower."""
        self.followers[node].next = end

    def open(self, node: str, asked: OpenReplica) -> None:
        """Answer a follower that says where its log ends."""
        follower = self.followers.get(node)
        if asked.leader_epoch < self.epoch:
            self.effects.append(Tell(node, ReplicaFenced(self.log, self.epoch)))
        if asked.leader_epoch != self.epoch or follower is None or self.has_resigned:
            return
        if asked.partition_epoch < follower.added_epoch:
            return  # it asks again when it knows that it was added
        follower.is_open, index = False, self.index
        common = index.common_end(asked.last_epoch)
        if asked.end == index.start and asked.last_epoch == index.epoch_before(index.start):
            self._open(node, asked)  # nothing of what the leader holds is there
        elif common is None or asked.end < index.start:
            rows = ((index.epoch_before(index.start), index.start - 1),) if index.start else ()
            self.effects.append(Tell(node, ReplicaReset(self.log, self.epoch, asked.session, index.start, rows)))
        elif common[0] == asked.last_epoch and asked.end <= common[1]:
            self._open(node, asked)
        else:
            self.effects.append(Tell(node, ReplicaDiverged(self.log, self.epoch, asked.session, *common)))

    def _open(self, node: str, asked: OpenReplica) -> None:
        follower = self.followers[node]
        follower.is_open, follower.next, follower.broker_epoch = True, asked.end, asked.broker_epoch
        follower.match, follower.steady_since_ns = asked.durable_end, -1
        opened = ReplicaOpened(self.log, self.epoch, asked.session, self.high_watermark, self.index.start)
        self.effects.append(Tell(node, opened))
        self._advance()

    def confirmed(self, node: str, epoch: int, end: int) -> None:
        """The follower has everything below this offset durably."""
        follower = self.followers.get(node)
        if follower is not None and follower.is_open and epoch == self.epoch and end > follower.match:
            follower.match = min(end, self.index.end)
            self._advance()

    def disconnected(self, node: str) -> None:
        """The connection with the node has ended. What it has confirmed, it has."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.is_open, follower.steady_since_ns = False, -1

    def ask_again(self, node: str) -> None:
        """Have a follower ask for the log again, to which nothing is sent any more."""
        follower = self.followers.get(node)
        if follower is not None and not follower.is_open:
            self.effects.append(Tell(node, ReplicaFenced(self.log, self.epoch)))

    # --- the high watermark ---

    @property
    def has_enough(self) -> bool:
        """Return whether the ISR has `min_isr` replicas, so that something can be committed."""
        return len(self.state.isr) >= self.state.min_isr

    @property
    def common_end(self) -> int:
        """All replicas have everything below, also those that are not in sync."""
        return max(0, min([self.high_watermark, *(follower.match for follower in self.followers.values())]))

    @property
    def _counted(self) -> list[str]:
        """The others in sync, and those that the controller was asked to take in."""
        change = self._asked if self.partition is None else self.partition._asked
        asked = () if change is None else tuple(node for node, _ in change.isr)
        return [node for node in self.followers if node in self.state.isr or node in asked]

    def _advance(self) -> None:
        self.replicated_end = self.high_watermark
        if not self.has_enough or self.has_resigned:
            return
        others = min((self.followers[node].match for node in self._counted), default=OFFSET_MAX)
        if (end := min(others, self.index.durable_end)) > self.epoch_start:
            self.high_watermark = max(self.high_watermark, end)
            self.replicated_end = max(self.high_watermark, others)

    # --- the ISR ---

    def changed(self, state: PartitionState) -> None:
        """The cluster's log has another state of this partition, with the same leader and epoch."""
        before, known = self.state, self.followers
        is_next = state.partition_epoch <= before.partition_epoch + 1
        fresh = [node for node in state.adding if not is_next or node not in before.adding]
        self.state, self._asked, self._was_refused = state, None, False
        self._meet_replicas(fresh)
        for node in self.followers.keys() - (known.keys() - set(fresh)):  # they may have asked before
            self.effects.append(Tell(node, ReplicaFenced(self.log, self.epoch)))
        self._advance()

    def refused(self, attempt: int, *, is_final: bool) -> None:
        """The controller has refused an attempt to change the ISR.

        It is not final if the state has changed since: an earlier attempt may have been accepted. Only the latest
        attempt tells: another controller may have accepted it when the refusal of an earlier one arrives.
        """
        if is_final and attempt == self._attempts:
            self._asked, self._was_refused = None, True
            self._advance()

    @property
    def is_uneven(self) -> bool:
        """Return whether `tick` may have something to do."""
        return (
            self._asked is not None
            or len(self.state.isr) < len(self.state.replicas)
            or any(follower.match < self.index.end for follower in self.followers.values())
            or (self.delayed is not None and self.delayed.is_uneven)
        )

    def tick(self, now_ns: int) -> None:
        """Look at who lags and who has caught up."""
        self.look(now_ns)
        if self.delayed is not None:
            self.delayed.look(now_ns)
        if self.has_resigned:
            return
        if self._asked is not None:
            if now_ns - self._asked_ns >= self.settings.repeat_ns:
                self._ask(self._asked, now_ns)
            return
        isr = [node for node in self.state.replicas if self._belongs(node, now_ns)]
        is_time = not self._was_refused or now_ns - self._asked_ns >= self.settings.repeat_ns
        if tuple(isr) != self.state.isr and is_time:
            self._ask_for(isr, now_ns)

    def look(self, now_ns: int) -> None:
        """Note since when each follower keeps up: at each look it has what the leader had at the one before."""
        for node, follower in self.followers.items():
            if follower.seen_ns < 0 or follower.match >= follower.seen_end:
                follower.seen_end, follower.seen_ns = self.index.end, now_ns
            if not self._keeps_up(node) or now_ns - follower.seen_ns > self.settings.lag_ns:
                follower.steady_since_ns = -1
            elif follower.steady_since_ns < 0:
                follower.steady_since_ns = now_ns
        self._advance()

    def _keeps_up(self, node: str) -> bool:
        """Return whether a follower has all that is committed."""
        follower = self.followers[node]
        return follower.is_open and follower.match >= self.high_watermark and follower.match > self.epoch_start

    def _lags(self, node: str, now_ns: int) -> bool:
        follower = self.followers[node]
        late_ns = now_ns - follower.seen_ns if follower.match < self.index.end else 0
        is_late = late_ns >= self.settings.lag_ns
        is_late_alone = late_ns >= self.settings.lag_ns // 2 and self._holds_up_others(node)
        return is_late or is_late_alone or self._is_damaged(follower)

    def _holds_up_others(self, node: str) -> bool:
        """Return whether all others in sync have what this follower lacks, and are enough without it."""
        wanted, isr = self.followers[node].seen_end, self.state.isr
        others = [self.followers[one].match for one in isr if one not in (self.me, node)]
        return len(isr) > self.state.min_isr and min([self.index.durable_end, *others]) >= wanted

    def _belongs(self, node: str, now_ns: int) -> bool:
        """Return whether a replica should be in sync."""
        if node == self.me:
            return True
        follower = self.followers[node]
        if node in self.state.isr:
            lags = self._lags(node, now_ns) or (self.delayed is not None and self.delayed._lags(node, now_ns))
            if lags:
                self._let_wait(follower, now_ns)
            return not lags
        if follower.steady_since_ns < 0 or self.has_unled_delayed:
            return False
        if self.delayed is not None and not self.delayed._keeps_up(node):
            return False
        returns = not self.has_enough or now_ns - follower.steady_since_ns >= follower.steady_ns
        if returns:
            follower.returned_ns = now_ns
        return returns

    def _is_damaged(self, follower: FollowerCursor) -> bool:
        """Return whether a member of the ISR says that it lacks what it has confirmed before."""
        return follower.is_open and follower.match < self.high_watermark

    def _let_wait(self, follower: FollowerCursor, now_ns: int) -> None:
        """Have a follower that lags again soon after its return keep up for longer next time."""
        least, most = self.settings.steady_ns, self.settings.steady_ns_max
        came_back = follower.returned_ns >= 0 and now_ns - follower.returned_ns < most
        follower.steady_ns = min(max(least, 2 * follower.steady_ns), most) if came_back else least
        follower.steady_since_ns = -1

    def _ask_for(self, isr: list[str], now_ns: int) -> None:
        gone = [node for node in self.state.isr if node not in isr]
        come = [node for node in isr if node not in self.state.isr]
        reasons = [f"{node} lags" for node in gone] + [f"{node} has caught up" for node in come]
        epochs = {self.me: self.broker_epoch}
        epochs |= {node: follower.broker_epoch for node, follower in self.followers.items()}
        rows = tuple((node, epochs[node]) for node in isr)
        damaged = tuple(node for node in gone if self._is_damaged(self.followers[node]))
        partition_epoch, reason = self.state.partition_epoch, ", ".join(reasons)
        change = IsrChange(self.log, self.me, self.epoch, partition_epoch, rows, reason, damaged)
        self._asked, self._attempts = change, 0
        self._ask(change, now_ns)
        self._advance()

    def _ask(self, change: IsrChange, now_ns: int) -> None:
        self._asked_ns = now_ns
        self._attempts += 1
        self.effects.append(AskController(change, self._attempts))

    def __repr__(self) -> str:
        ends = ", ".join(f"{node} {follower.match}" for node, follower in self.followers.items())
        return f"<LeaderReplica {self.log} epoch {self.epoch}, {self.high_watermark}..{self.index.end}, {ends}>"
