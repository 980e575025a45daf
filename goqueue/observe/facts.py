"""What is known of a broker when it is examined, as values: no finding needs to look anywhere else."""

from dataclasses import dataclass, field
from typing import Literal

Role = Literal["topic", "topics", "groups", "transactions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """The file system that holds the data directory."""

    path: str
    total_bytes: int
    free_bytes: int
    """For whoever is not root."""
    growth: float = 0.0
    """Bytes a second by which what is used has grown, all through the last minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutLog:
    """A log that takes no messages."""

    log: str
    reason: str
    hint: str | None = None
    is_open: bool = True
    """Whether it can be read still: one that could not be opened cannot."""
    role: Role = "topic"
    """What it holds: messages, or what the broker knows of topics, of groups or of transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    """Offsets whose messages cannot be read."""

    log: str
    path: str
    position: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEnd:
    """What recovery removed from the end of a log: a write that was never answered."""

    log: str
    size: int
    kept_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedLog:
    """A log of which damaged ranges were written back from its copy."""

    log: str
    ranges: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLoss:
    """Records of an internal log that the start could not read."""

    log: str
    count: int
    names: tuple[str, ...] = ()
    """What they may have been about."""
    role: Role = "topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """What the start has found."""

    surveyed: int = 0
    """Logs that were surveyed, since the last stop was not clean."""
    cuts: tuple[CutEnd, ...] = ()
    unclaimed: tuple[str, ...] = ()
    """Logs that no topic knows."""
    healed: tuple[HealedLog, ...] = ()
    lost: tuple[RecordLoss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDoubt:
    """A jump of the clock that retention does not believe yet."""

    ahead_seconds: float
    seconds_left: float
    """Until it is believed."""
    percent: int
    """Of a topic, that may go meanwhile for its age."""
    held_back: tuple[str, ...] = ()
    """Topics of which something stays because of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The broker's process at this moment, and in the minute before."""

    loop_seconds: float | None = None
    """How late the event loop was at most, leaving out the worst looks; None: nobody has looked yet."""
    stall_seconds: float = 0.0
    """The longest time that the broker stood still within the last hour."""
    flush_seconds: float | None = None
    """How long a round of writing and syncing took, in the same way; None: there was none."""
    sync_failures: int = 0
    """Since the start."""
    in_flight_bytes: int = 0
    in_flight_bytes_max: int = 1
    open_files: int | None = None
    open_files_max: int | None = None
    connections: int = 0
    connections_max: int = 1
    connections_wanted: int = 1
    """By the setting; more than `connections_max` where the limit of open files leaves no more."""
    clock_behind_seconds: float = 0.0
    """By how much the wall clock is behind the newest message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFacts:
    """One partition as a group has it, where there is something left to be read."""

    topic: str
    partition: int
    messages: int
    """That are not done with."""
    ready: int
    """Of those, which could be worked on now: no delay holds them back, and they are not on their way elsewhere."""
    seconds: float
    """The age of the oldest one."""
    rate: float
    incoming: float
    idle_seconds: float
    """Since the last one was done with; since the start where none was."""
    in_flight: int = 0
    member: str | None = None
    retention_seconds: float | None = None
    """After which the topic's messages are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages that retention removed before a group had them."""

    topic: str
    partition: int
    messages: int
    is_going_on: bool = False
    """Whether the group stands before the first message that there is, so that more will follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """A message that is handed out again and again."""

    topic: str
    partition: int
    offset: int
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group."""

    name: str
    members: int = 0
    empty_seconds: float | None = None
    """Since when it has no members; None while it has some."""
    forgotten_in: float | None = None
    """Seconds until it is forgotten, if nobody joins."""
    rebalance_seconds: float | None = None
    """Since when a rebalance is under way."""
    awaited: tuple[str, ...] = ()
    """Members that the rebalance waits for."""
    lag: int = 0
    """Offsets between what it is done with and the ends: messages, where `places` has looked closer."""
    places: tuple[PlaceFacts, ...] = ()
    """Of a group that was looked at closely."""
    losses: tuple[Loss, ...] = ()
    ordeals: tuple[Ordeal, ...] = ()
    ranges: int = 0
    """What its largest partition has open."""
    leaving: int = 0
    """Messages that wait to be carried to the dead letters."""
    leaving_seconds: float = 0.0
    """Since when the first of them does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFacts:
    """Dead letters of one topic that were not sent back."""

    topic: str
    """Their own, which ends with `.dlq`."""
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedFacts:
    """Delayed messages of one partition whose time has come."""

    topic: str
    partition: int
    messages: int
    seconds: float
    """Since when the first of them is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Messages of one partition that readers do not see."""

    topic: str
    partition: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """A transaction that is open for long, or whose end is not carried out."""

    name: str
    """Its transactional id."""
    transaction: str
    state: Literal["ongoing", "prepare_commit", "prepare_abort"]
    seconds: float
    """Since it began, or its end was decided."""
    idle_seconds: float = 0.0
    """Since something was heard of it."""
    expires_in: float | None = None
    """Until it is aborted, if nothing is heard of it."""
    messages: int = 0
    """Of its own, among those that are held back."""
    held_back: tuple[HeldBack, ...] = ()
    obstacle: str | None = None
    """Why its end could not be carried out when that was tried last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it."""

    uptime_seconds: float
    partitions: int = 0
    disk: DiskFacts | None = None
    process: ProcessFacts = field(default_factory=ProcessFacts)
    refused: tuple[str, ...] = ()
    """Logs whose last write the disk refused for now, and which have taken none since."""
    refusal: str | None = None
    """Why."""
    shut: tuple[ShutLog, ...] = ()
    damages: tuple[DamagedRange, ...] = ()
    start: StartFacts = field(default_factory=StartFacts)
    clock_doubt: ClockDoubt | None = None
    groups: tuple[GroupFacts, ...] = ()
    dead_letters: tuple[DeadLetterFacts, ...] = ()
    delayed: tuple[DelayedFacts, ...] = ()
    transactions_open: int = 0
    transactions: tuple[TransactionFacts, ...] = ()
    """Those that something may be wrong with."""
