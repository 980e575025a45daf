"""Where a reader begins, how far it goes, and what an answer means for it: no threads, no sockets.

What must stay true: a lane's position is the offset of the first message that was not given out in an answer yet,
so whoever stores positions and starts a new reader there misses nothing and gets nothing twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from goqueue.client import endpoints, fetches
from goqueue.client.calls import Call, Script
from goqueue.client.endpoints import ANSWER_BYTES, ANSWER_BYTES_MAX, TopicInfo
from goqueue.client.fetches import Fetched
from goqueue.client.message import Message, decode
from goqueue.client.times import Nanoseconds, seconds
from goqueue.errors import GoQueueError, OffsetOutOfRange, PartitionNotFound, RequestInvalid
from goqueue.limits import OFFSET_MAX

Place = str | int | datetime | Nanoseconds | Mapping[int, int]
"""`"earliest"`, `"latest"`, an offset, an offset for each partition, or a time."""

MISSING = ("raise", "earliest", "latest")
ISOLATIONS = ("read_committed", "read_uncommitted")
NEVER = OFFSET_MAX + 1
WAIT_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller asked for.

    Reading ends at `until`, and without `follow` at the latest where the partition ended when it began.
    """

    topic: str
    partitions: tuple[int, ...] | None = None
    start: Place = "earliest"
    until: Place | None = None
    follow: bool = False
    on_missing: str = "raise"
    skip_damage: bool = False
    max_bytes: int = ANSWER_BYTES
    wait: float = 5.0
    filters: tuple[str, ...] = ()
    isolation: str = "read_committed"

    def __post_init__(self) -> None:
        if self.on_missing not in MISSING:
            raise RequestInvalid(f"on_missing is {self.on_missing!r}", hint=f"known are {', '.join(MISSING)}")
        if self.isolation not in ISOLATIONS:
            raise RequestInvalid(f"isolation is {self.isolation!r}", hint=f"known are {', '.join(ISOLATIONS)}")
        if not 1 <= self.max_bytes <= ANSWER_BYTES_MAX:
            raise RequestInvalid(f"max_bytes is {self.max_bytes}, and must be 1 to {ANSWER_BYTES_MAX}")
        if not 0 < self.wait <= WAIT_SECONDS_MAX:
            raise RequestInvalid(f"wait is {self.wait} seconds, and must be above 0 and at most {WAIT_SECONDS_MAX:g}")
        if isinstance(self.until, str) and self.until in {"earliest", "latest"}:
            raise RequestInvalid(f"until is {self.until!r}", hint='"now" ends where the topic ends now')
        for text in self.filters:
            if type(text) is not str or not text:
                raise RequestInvalid(f"a filter is {text!r}", hint="a filter is text, such as json.order.total>40")


def wish(
    topic: str,
    partitions: Iterable[int] | int | None,
    wait: str | float,
    filters: Iterable[str] | str,
    **options: object,
) -> Wish:
    chosen = (partitions,) if isinstance(partitions, int) else partitions
    texts = (filters,) if isinstance(filters, str) else tuple(filters)
    places = None if chosen is None else tuple(chosen)
    return Wish(topic, places, wait=seconds(wait, "wait"), filters=texts, **options)  # type: ignore[arg-type]


@dataclass(slots=True, eq=False)
class Lane:
    """One partition of a reader."""

    wish: Wish
    partition: int
    position: int
    end: int
    done: bool
    scanned: int = 0
    matched: int = 0

    def call(self) -> Call[Fetched]:
        wish = self.wish
        wait = wish.wait if wish.follow else 0.0
        return fetches.fetch(
            wish.topic,
            self.partition,
            self.position,
            wish.max_bytes,
            wait,
            skip_damage=wish.skip_damage,
            filters=wish.filters,
            isolation=wish.isolation,
        )

    def take(self, fetched: Fetched) -> list[Message]:
        """The messages of an answer, and the position behind them."""
        found = decode(self.wish.topic, self.partition, fetched.content, self.position, self.end)
        self.scanned += len(found) if fetched.scanned is None else fetched.scanned
        self.matched += len(found)
        stuck = fetched.next_offset <= self.position  # with filters an answer may be empty and lead on all the same
        self.position = max(self.position, min(fetched.next_offset, self.end))
        self.done = self.position >= self.end or (stuck and not self.wish.follow)
        return found

    def missing(self, error: OffsetOutOfRange) -> None:
        """Go on where the caller wants to when the position is outside; raises if that is not wanted."""
        place = {"earliest": error.details.get("first"), "latest": error.details.get("next")}.get(self.wish.on_missing)
        if not isinstance(place, int):
            raise error
        self.position = place
        self.done = self.position >= self.end


def begin(wish: Wish) -> Script[list[Lane]]:
    """Ask for what the wish needs, and lay out the lanes."""
    info: TopicInfo = yield endpoints.topic(wish.topic)
    partitions = range(info.partitions) if wish.partitions is None else wish.partitions
    lanes = []
    for partition in partitions:
        if not 0 <= partition < info.partitions:
            raise PartitionNotFound(
                f"topic {info.name} has no partition {partition}, but {info.partitions}: 0 to {info.partitions - 1}"
            )
        held = info.partition_offsets.get(str(partition))
        if held is None:
            raise PartitionNotFound(f"the broker does not say which offsets {info.name}/{partition} holds")
        start = yield from _resolve(wish, "start", partition, held)
        end = NEVER if wish.follow else held.latest
        if wish.until is not None:
            until = held.latest if wish.until == "now" else (yield from _resolve(wish, "until", partition, held))
            end = min(end, until)
        # An offset that the broker does not have yet is asked for nevertheless: what it says is what happens.
        lanes.append(Lane(wish, partition, start, end, done=end <= start <= held.latest))
    return lanes


def _resolve(wish: Wish, name: str, partition: int, held: endpoints.Offsets) -> Script[int]:
    """The offset that the wish's `start` or `until` means in a partition."""
    place: Place = getattr(wish, name)
    if isinstance(place, Mapping):
        if partition not in place:
            raise RequestInvalid(
                f"{name} has no offset for {wish.topic}/{partition}, only for {list(place)}",
                hint=f"give one for each partition, or read some alone: partitions={[partition]}, for example",
            )
        return _offset(place[partition], name)
    if place == "earliest":
        return held.earliest
    if place == "latest":
        return held.latest
    if isinstance(place, (str, datetime, Nanoseconds)):
        offset: int = yield endpoints.offset_at(wish.topic, partition, place)
        return offset
    return _offset(place, name)


def _offset(place: object, name: str) -> int:
    if isinstance(place, int) and not isinstance(place, bool) and 0 <= place <= OFFSET_MAX:
        return place
    hint = "an offset is a whole number from 0; a moment is a datetime, RFC 3339 text or Nanoseconds(...)"
    raise RequestInvalid(f"{name} is {place!r}, which is no offset", hint=hint)


def positions(lanes: Iterable[Lane]) -> dict[int, int]:
    return {lane.partition: lane.position for lane in lanes}


def scanned(lanes: Iterable[Lane]) -> int:
    return sum(lane.scanned for lane in lanes)


def matched(lanes: Iterable[Lane]) -> int:
    return sum(lane.matched for lane in lanes)


def outcome(lane: Lane, result: Fetched | GoQueueError) -> list[Message]:
    """What an answer gives; errors that are not the lane's own business are raised."""
    if isinstance(result, OffsetOutOfRange):
        lane.missing(result)
        return []
    if isinstance(result, GoQueueError):
        raise result
    return lane.take(result)
