"""A follower of one partition in one leader epoch: it brings its log to that of the leader, and then takes what comes.

    idle ──connected──> opening ──ReplicaOpened──> streaming
                          │  ^                       │
          ReplicaDiverged │  │ cut_done              │ disconnected, ReplicaFenced of this epoch
                          v  │                       v
                        cutting                    idle, opening

What must stay true:

* Only what the leader does not have is cut off, and nothing below the high watermark, unless the leader was elected
  without being in sync. Another log is an error that an operator has to see: `problem`.
* A log is cut only when all of it is durable. An answer that does not fit the log as it is now changes nothing.
* What is confirmed is durable here and the same as in the leader's log.

The shell calls with what happens, in its order, and then does the `effects`: `AskLeader` something; `CutBack` the log,
or `EmptyLog`, then call `cut_done`, and `connected` if there still is a connection. It appends data only if `takes`
says so, and calls `appended`. It confirms `confirmed_end` after each flush, and lets readers see what is below
`high_watermark`. A replica of another epoch takes the place of this one only when no cut is under way.
"""

from dataclasses import dataclass, field
from enum import Enum

from goqueue.cluster.epoch_index import EpochIndex, EpochRow
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import (
    DataHeader,
    OpenReplica,
    ReplicaDiverged,
    ReplicaFenced,
    ReplicaOpened,
    ReplicaReset,
)
from goqueue.limits import OFFSET_MAX


class FollowerStage(Enum):
    """The stages of a follower."""

    IDLE = "idle"
    """There is no connection with the leader, or a cut has failed."""
    OPENING = "opening"
    CUTTING = "cutting"
    STREAMING = "streaming"


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Send a request to the node of the leader."""

    message: OpenReplica


@dataclass(frozen=True, slots=True)
class CutBack:
    """Cut the log back to this offset, durably, with everything that follows from it; then call `cut_done`."""

    end: int


@dataclass(frozen=True, slots=True)
class EmptyLog:
    """Remove all that the log holds, durably, so that it goes on at this offset; then call `cut_done`."""

    start: int
    rows: tuple[EpochRow, ...]
    """The epoch that continues there."""


@dataclass(slots=True)
class FollowerReplica:
    """A partition that another node leads."""

    log: PartitionId
    leader: str
    epoch: int
    index: EpochIndex
    high_watermark: int
    broker_epoch: int = 0
    """The registration of the process here."""
    unclean_epoch: int = 0
    """The last epoch whose leader was elected without being in sync. Replicas of older ones may lose committed data."""
    sound_end: int = OFFSET_MAX
    """What is here below this offset is known to be sound. It confirms no more, so that it is not in sync meanwhile."""
    lacks_beginning: bool = False
    """The first messages are gone here, and retention has not removed them: this replica begins anew."""
    effects: list[AskLeader | CutBack | EmptyLog] = field(default_factory=list)
    stage: FollowerStage = field(init=False, default=FollowerStage.IDLE)
    problem: str = field(init=False, default="")
    """Why this replica cannot follow, where that needs an operator."""
    log_start: int = field(init=False)
    """Where the leader's log begins: retention may remove what is below."""
    common_end: int = field(init=False, default=0)
    """All replicas have everything below: compaction stays below."""
    partition_epoch: int = 0
    """The record about the partition that this node knew when it asked last; see `joins`."""
    _session: int = field(init=False, default=0)
    _answer: ReplicaDiverged | ReplicaReset | None = field(init=False, default=None)
    """An answer that waits until the log is durable."""
    _told: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.log_start = self.index.start

    # --- the connection ---

    def connected(self) -> None:
        """There is a connection with the leader."""
        if self.stage is FollowerStage.IDLE:
            self._ask()

    def disconnected(self) -> None:
        self._answer = None
        if self.stage is not FollowerStage.CUTTING:
            self.stage = FollowerStage.IDLE

    def joins(self, partition_epoch: int) -> None:
        """A record has this replica as one that comes: it may have been removed before. The leader has to know its log.

        Called for each such record, since a node may learn of several at once.
        """
        self.partition_epoch = partition_epoch
        if self.stage is FollowerStage.STREAMING or (self.stage is FollowerStage.OPENING and self._answer is None):
            self._ask()

    def _ask(self) -> None:
        self.stage, self._answer = FollowerStage.OPENING, None
        self._session += 1
        index = self.index
        asked = OpenReplica(
            *(self.log, self.epoch, self._session, self.broker_epoch, index.end, self._sound_end, index.last_epoch),
            self.partition_epoch,
        )
        self.effects.append(AskLeader(asked))

    # --- answers ---

    def opened(self, answer: ReplicaOpened) -> None:
        """The leader has what this log has: data follows."""
        if self._expects(answer) and self.lacks_beginning and answer.log_start < self.index.start:
            self.stage = FollowerStage.CUTTING
            self.effects.append(EmptyLog(0, ()))
        elif self._expects(answer):
            self.stage = FollowerStage.STREAMING
            self._hear(answer.high_watermark, answer.log_start)

    def diverged(self, answer: ReplicaDiverged | ReplicaReset) -> None:
        """This log has something that the leader does not have."""
        if self._expects(answer):
            self._answer = answer
            self._cut()

    def fenced(self, answer: ReplicaFenced) -> None:
        """The leader sends nothing: it has removed what comes next, or has got to know of this replica just now."""
        is_waiting = self.stage is FollowerStage.OPENING and self._answer is None
        if answer.leader_epoch == self.epoch and (is_waiting or self.stage is FollowerStage.STREAMING):
            self._ask()

    def _expects(self, answer: ReplicaOpened | ReplicaDiverged | ReplicaReset) -> bool:
        is_current = (answer.leader_epoch, answer.session) == (self.epoch, self._session)
        return is_current and self.stage is FollowerStage.OPENING and self._answer is None

    def _cut(self) -> None:
        """Do what the answer asks for, once everything is durable."""
        answer, index = self._answer, self.index
        if answer is None or index.durable_end < index.end:
            return
        self._answer = None
        effect: EmptyLog | CutBack
        if isinstance(answer, ReplicaReset):
            end, effect = answer.base, EmptyLog(answer.base, answer.rows)
        else:
            end = max(min(answer.end, index.end_of(answer.epoch)[1]), index.start)
            effect = CutBack(end)
        if end < self.high_watermark and self.lacks_beginning:  # and its first epochs with them
            effect = EmptyLog(0, ())
        elif end < self.high_watermark and self.sound_end < self.high_watermark:  # an epoch began in what is damaged
            effect = CutBack(max(min(end, self.sound_end), index.start))
        elif end < self.high_watermark and index.last_epoch >= self.unclean_epoch:
            self.stage = FollowerStage.IDLE
            self.problem = (
                f"the log of leader {self.leader} in epoch {self.epoch} ends or differs at offset {end}, and everything"
                f" below {self.high_watermark} is committed here"
            )
            return
        self.stage = FollowerStage.CUTTING
        self.effects.append(effect)

    def cut_done(self, start: int, end: int, rows: tuple[EpochRow, ...] | None = None) -> None:
        """The log holds these offsets now, all durable. `rows` if it was emptied."""
        if rows is None:
            self.index.cut(end)
        else:
            self.index.reset(start, rows)
            self.lacks_beginning = False
        self.high_watermark = min(self.high_watermark, end)
        self.stage = FollowerStage.IDLE

    # --- the log ---

    def takes(self, data: DataHeader) -> bool:
        """Return whether this data follows what is here."""
        return (
            self.stage is FollowerStage.STREAMING
            and data.leader_epoch == self.epoch
            and data.base == self.index.end < data.end
        )

    def appended(self, data: DataHeader, rows: tuple[EpochRow, ...] = ()) -> None:
        """The data was appended; `rows` are the epochs that begin in it."""
        self.index.extend(data.end, rows)
        self._hear(data.high_watermark, data.log_start, data.common_end)

    def durable(self, end: int) -> None:
        """Everything below this offset is stored here."""
        self.index.durable_end = end
        self._cut()

    @property
    def confirmed_end(self) -> int | None:
        """Up to where this replica has the leader's log durably; None while that is not known."""
        return self._sound_end if self.stage is FollowerStage.STREAMING else None

    @property
    def _sound_end(self) -> int:
        return min(self.index.durable_end, self.sound_end)

    def is_sound_below(self, end: int) -> None:
        """Messages from this offset on are damaged here, or it was repaired up to there."""
        is_less, self.sound_end = end < self._sound_end, end
        if is_less and self.stage is FollowerStage.STREAMING:
            self._ask()  # it has confirmed more

    def hear(self, epoch: int, high_watermark: int, log_start: int, common_end: int = 0) -> None:
        """The leader tells its high watermark without data."""
        if epoch == self.epoch and self.stage is FollowerStage.STREAMING:
            self._hear(high_watermark, log_start, common_end)

    def _hear(self, high_watermark: int, log_start: int, common_end: int = 0) -> None:
        self.common_end = max(self.common_end, common_end)
        self._told = max(self._told, high_watermark)
        self.log_start = max(self.log_start, log_start)
        self.high_watermark = max(self.high_watermark, min(self._told, self.index.end))

    def forget_below(self, start: int) -> None:
        """Retention has removed what was below this offset."""
        self.index.forget_below(start)

    def __repr__(self) -> str:
        where = f"{self.high_watermark}..{self.index.end}"
        return f"<FollowerReplica {self.log} of {self.leader} in epoch {self.epoch}, {self.stage.value}, {where}>"
