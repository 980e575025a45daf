"""Where a reader begins and ends, its requests for frames, and what an answer means. It never waits.

What must stay true: a cursor's position is the offset of the first message that was not yet returned to the caller. A
new reader that starts at stored positions misses nothing and gets nothing twice.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, get_args

from goqueue.client.admin_requests import (
    ANSWER_BYTES,
    ANSWER_BYTES_MAX,
    Offsets,
    TopicInfo,
    first_offset_at,
    topic_info,
)
from goqueue.client.api_request import (
    ApiRequest,
    RequestSequence,
)
from goqueue.client.connection_core import ConnectionCore
from goqueue.client.delivery import Receipt, Stored
from goqueue.client.fetch_requests import FetchResult, fetch
from goqueue.client.message import Message, decode
from goqueue.client.quota_waits import note_refusal
from goqueue.client.request_attempts import Backoff
from goqueue.client.times import Nanoseconds, seconds
from goqueue.errors import (
    ChecksumMismatch,
    GoQueueError,
    OffsetOutOfRange,
    PartitionNotFound,
    RequestInvalid,
    TransientError,
)
from goqueue.limits import OFFSET_MAX

C = TypeVar("C", bound=ConnectionCore)


ReadPosition = str | int | datetime | Nanoseconds | Mapping[int, int]
"""`"earliest"`, `"latest"`, an offset, an offset for each partition, or a time."""

OnMissing = Literal["raise", "earliest", "latest"]
Isolation = Literal["read_committed", "read_uncommitted"]
Replica = Literal["leader", "any"]
NEVER = OFFSET_MAX + 1
WAIT_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader.

    Reading ends at `until`, and without `follow` at the latest where the partition ended at the start.
    """

    topic: str
    partitions: tuple[int, ...] | None = None
    start: ReadPosition = "earliest"
    until: ReadPosition | None = None
    follow: bool = False
    on_missing: OnMissing = "raise"
    skip_damage: bool = False
    max_bytes: int = ANSWER_BYTES
    wait: float = 5.0
    filters: tuple[str, ...] = ()
    isolation: Isolation = "read_committed"
    replica: Replica = "leader"
    at_least: Mapping[int, int] = field(default_factory=dict)
    """By partition the offset below which everything must be seen: a replica that is behind waits for it."""

    def __post_init__(self) -> None:
        known = (("on_missing", OnMissing), ("isolation", Isolation), ("replica", Replica))
        for name, words in ((name, get_args(kind)) for name, kind in known):
            if getattr(self, name) not in words:
                raise RequestInvalid(f"{name} is {getattr(self, name)!r}", hint=f"known are {', '.join(words)}")
        if not 1 <= self.max_bytes <= ANSWER_BYTES_MAX:
            raise RequestInvalid(f"max_bytes is {self.max_bytes}, and must be 1 to {ANSWER_BYTES_MAX}")
        if not 0 < self.wait <= WAIT_SECONDS_MAX:
            raise RequestInvalid(f"wait is {self.wait} seconds, and must be above 0 and at most {WAIT_SECONDS_MAX:g}")
        if isinstance(self.until, str) and self.until in {"earliest", "latest"}:
            raise RequestInvalid(f"until is {self.until!r}", hint='"now" ends where the topic ends now')
        for text in self.filters:
            if type(text) is not str or not text:
                raise RequestInvalid(f"a filter is {text!r}", hint="a filter is text, such as json.order.total>40")


def parse_read_options(
    topic: str,
    partitions: Iterable[int] | int | None,
    wait: str | float,
    filters: Iterable[str] | str,
    at_least: Mapping[int, int] | Iterable[Receipt | Stored] = (),
    **options: object,
) -> ReadOptions:
    chosen = (partitions,) if isinstance(partitions, int) else partitions
    texts = (filters,) if isinstance(filters, str) else tuple(filters)
    places = None if chosen is None else tuple(chosen)
    least = dict(at_least) if isinstance(at_least, Mapping) else _behind(at_least)
    return ReadOptions(
        topic,
        places,
        wait=seconds(wait, "wait"),
        filters=texts,
        at_least=least,
        **options,  # type: ignore[arg-type]
    )


def _behind(receipts: Iterable[Receipt | Stored]) -> dict[int, int]:
    """Return the offset behind the last of these messages in each partition."""
    ends: dict[int, int] = {}
    for one in receipts:
        if one.offset is not None and not one.delayed:
            ends[one.partition] = max(ends.get(one.partition, 0), one.offset + 1)
    return ends


@dataclass(slots=True, eq=False)
class PartitionCursor:
    """The progress of a reader in one partition."""

    options: ReadOptions
    partition: int
    position: int
    end: int
    done: bool
    scanned: int = 0
    matched: int = 0
    topic_partitions: int = 0
    """How many partitions the topic had when the last answer came."""

    def call(self) -> ApiRequest[FetchResult]:
        options = self.options
        least = options.at_least.get(self.partition, 0)
        least = least if self.position < least else 0
        wait = options.wait if options.follow or least else 0.0
        return fetch(
            options.topic,
            self.partition,
            self.position,
            options.max_bytes,
            wait,
            skip_damage=options.skip_damage,
            filters=options.filters,
            isolation=options.isolation,
            replica=options.replica,
            at_least=least,
        )

    def take(self, fetched: FetchResult | GoQueueError) -> list[Message]:
        """Return the messages of an answer, and move the position behind them.

        Raises errors that do not concern the position.
        """
        if isinstance(fetched, OffsetOutOfRange):
            self._continue_after(fetched)
            return []
        if isinstance(fetched, GoQueueError):
            raise fetched
        found = decode(self.options.topic, self.partition, fetched.content, self.position, self.end)
        self.scanned += len(found) if fetched.scanned is None else fetched.scanned
        self.matched += len(found)
        self.topic_partitions = fetched.partitions
        stuck = fetched.next_offset <= self.position  # with filters an answer may be empty and lead on all the same
        self.position = max(self.position, min(fetched.next_offset, self.end))
        self.done = self.position >= self.end or (stuck and not self.options.follow)
        return found

    def _continue_after(self, error: OffsetOutOfRange) -> None:
        """Continue where `on_missing` says when the position is out of range; raise the error otherwise."""
        place = {"earliest": error.details.get("first"), "latest": error.details.get("next")}.get(
            self.options.on_missing
        )
        if not isinstance(place, int):
            raise error
        self.position = place
        self.done = self.position >= self.end


def open_partitions(
    options: ReadOptions, known: int = 0, is_in_cluster: Callable[[], bool] = lambda: False
) -> RequestSequence[list[PartitionCursor]]:
    """Request what the options need, and return a cursor for each partition.

    With a number of known partitions, only for those that were added since, from their first message on.
    """
    info: TopicInfo = yield topic_info(options.topic)
    partitions = range(known, info.partitions) if options.partitions is None else options.partitions
    cursors = []
    for partition in partitions:
        if not 0 <= partition < info.partitions:
            raise PartitionNotFound(
                f"topic {info.name} has no partition {partition}, but {info.partitions}: 0 to {info.partitions - 1}"
            )
        held = info.partition_offsets.get(str(partition))
        if is_in_cluster():
            held = yield from _held_by_leader(info.name, partition)
        if held is None:
            raise PartitionNotFound(f"the broker does not say which offsets {info.name}/{partition} holds")
        start = held.earliest if known else (yield from _resolve(options, "start", partition, held))
        end = NEVER if options.follow else held.latest
        if options.until is not None and not (known and isinstance(options.until, Mapping)):
            until = held.latest if options.until == "now" else (yield from _resolve(options, "until", partition, held))
            end = min(end, until)
        end = max(end, options.at_least.get(partition, 0))
        # An offset that the broker does not have yet is requested all the same: its answer decides.
        cursors.append(PartitionCursor(options, partition, start, end, done=end <= start <= held.latest))
    return cursors


def _held_by_leader(name: str, partition: int) -> RequestSequence[Offsets]:
    """Return what a partition holds: its leader says so when it refuses an offset that no log has."""
    try:
        found: FetchResult = yield fetch(name, partition, OFFSET_MAX, 1, 0.0, skip_damage=False)
    except OffsetOutOfRange as error:
        first, following = error.details.get("first"), error.details.get("next")
        if not isinstance(first, int) or not isinstance(following, int):
            raise
        return Offsets(first, following)
    return Offsets(found.first_offset, found.high_watermark)


def _resolve(options: ReadOptions, name: str, partition: int, held: Offsets) -> RequestSequence[int]:
    """Return the offset that `start` or `until` means in a partition."""
    place: ReadPosition = getattr(options, name)
    if isinstance(place, Mapping):
        if partition not in place:
            if (
                options.follow
                and options.partitions is None
                and 0 < len(place) <= partition
                and len(place) - 1 in place
            ):
                return held.earliest  # it was added since these positions were stored
            raise RequestInvalid(
                f"{name} has no offset for {options.topic}/{partition}, only for {list(place)}",
                hint=f"give one for each partition, or read some alone: partitions={[partition]}, for example",
            )
        return _offset(place[partition], name)
    if place == "earliest":
        return held.earliest
    if place == "latest":
        return held.latest
    if isinstance(place, (str, datetime, Nanoseconds)):
        offset: int = yield first_offset_at(options.topic, partition, place)
        return offset
    return _offset(place, name)


def _offset(place: object, name: str) -> int:
    if isinstance(place, int) and not isinstance(place, bool) and 0 <= place <= OFFSET_MAX:
        return place
    hint = "an offset is a whole number from 0; a moment is a datetime, RFC 3339 text or Nanoseconds(...)"
    raise RequestInvalid(f"{name} is {place!r}, which is no offset", hint=hint)


class PartitionStreamCore(Generic[C]):
    """The part of a partition's stream that does not wait."""

    def __init__(self, cursor: PartitionCursor, connection: C, timeout: float) -> None:
        self.cursor = cursor
        self.connection = connection
        self._timeout = timeout
        self._backoff = Backoff()
        self._asked: ApiRequest[FetchResult] | None = None
        self._failed: GoQueueError | None = None
        self._deadline = 0.0
        self._trying_until = 0.0
        self._not_before = 0.0

    def _next_call(self) -> ApiRequest[FetchResult] | None:
        """Return the request to be sent now, if any."""
        now = time.monotonic()
        if self._asked is not None or self.cursor.done or now < self._not_before:
            return None
        call = self.cursor.call()
        patience = call.patience + self._timeout
        self._deadline = now + self.connection.attempt_seconds(call, patience)
        self._trying_until = self._trying_until or now + patience
        self._asked, self._failed = call, None
        return call

    def extend(self, seconds: float) -> None:
        """Extend the deadlines by the time in which the caller did not wait for an answer."""
        if self._asked is not None:
            self._deadline += seconds
        if self._trying_until:
            self._trying_until += seconds

    @property
    def ready_in(self) -> float:
        """Seconds until there is something to do without an answer."""
        if self._failed is not None:
            return 0.0
        return max((self._deadline if self._asked is not None else self._not_before) - time.monotonic(), 0.0)

    @property
    def is_waiting(self) -> bool:
        """True while an answer is under way."""
        return self._asked is not None and self._failed is None and self.connection.can_receive

    @property
    def is_ready(self) -> bool:
        return (self.is_waiting and self.connection.has_arrived()) or self.ready_in == 0.0

    def _taken(self, result: FetchResult | GoQueueError) -> list[Message]:
        """Return the messages of an answer. After a transient failure there are none, and the next request waits.

        A server that is not a broker does not become one by asking again.
        """
        self._failed = None  # otherwise the wait for the next request would not block
        if isinstance(result, (TransientError, ChecksumMismatch)):
            delay = self._backoff.next(result)
            self._not_before = time.monotonic() + delay
            if self._not_before >= self._trying_until or result.details.get("foreign"):
                raise result
            note_refusal(result, delay)
            return []
        if not isinstance(result, GoQueueError):
            self._backoff.attempts, self._trying_until = 0, 0.0
        return self.cursor.take(result)


S = TypeVar("S", bound=PartitionStreamCore[Any])


class ReaderCore(Generic[S]):
    """The common part of readers for threads and for event loops."""

    def __init__(self) -> None:
        self._cursors: list[PartitionCursor] = []
        self._streams: deque[S] = deque()
        self._begun = self._closed = False
        self._left_at: float | None = None
        """Since when the caller has been processing what it received, if it is."""

    def _begin(self, cursors: list[PartitionCursor], streams: Iterable[S]) -> None:
        self._cursors, self._begun = [*self._cursors, *cursors], True
        self._streams.extend(streams)

    def _has_added(self, stream: S, options: ReadOptions) -> bool:
        """Return whether the topic has got partitions that are to be read too."""
        count = stream.cursor.topic_partitions
        return options.follow and options.partitions is None and options.until != "now" and count > len(self._cursors)

    @property
    def positions(self) -> dict[int, int]:
        """By partition the offset after the last list of messages: with `batches()`, where to continue later."""
        return {cursor.partition: cursor.position for cursor in self._cursors}

    @property
    def scanned(self) -> int:
        """The number of messages that the broker has examined so far; without filters those that it returned."""
        return sum(cursor.scanned for cursor in self._cursors)

    @property
    def matched(self) -> int:
        """The number of messages that it returned."""
        return sum(cursor.matched for cursor in self._cursors)

    def _check_open(self) -> None:
        if self._closed:
            raise RequestInvalid("this reader is closed", hint="make another one with client.reader()")

    def _return(self) -> None:
        left_at, self._left_at = self._left_at, None
        if left_at is not None:
            for stream in self._streams:
                stream.extend(time.monotonic() - left_at)

    def _left(self, stream: S, messages: list[Message]) -> None:
        """Record that these messages are returned to the caller."""
        if stream.cursor.done and not self._closed:
            stream.connection.close()
            self._streams.remove(stream)
        if messages:
            self._left_at = time.monotonic()

    def _end(self) -> None:
        self._closed = True
        for stream in self._streams:
            stream.connection.close()
        self._streams.clear()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.positions}>"
