"""How far behind a group is: in messages, in seconds, and when it will have caught up if all goes on as it does."""

from dataclasses import dataclass
from math import exp

from goqueue.broker.backlog import Backlog, backlog, count_between
from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.topics import Topics
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame

_SPAN_SECONDS = 60.0  # that rates look back


class Meter:
    """How many a second, lately: what was counted counts less the longer ago it is."""

    __slots__ = ("_at_ns", "_began_ns", "_sum")

    def __init__(self, now_ns: int) -> None:
        self._sum = 0.0
        self._at_ns = self._began_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        self._sum = self._sum * self._fading(now_ns) + count
        self._at_ns = now_ns

    def rate(self, now_ns: int) -> float:
        age = max((now_ns - self._began_ns) / NANOSECONDS, 1.0)
        # What had no time to gather yet is not taken for a low rate.
        return self._sum * self._fading(now_ns) / (_SPAN_SECONDS * (1 - exp(-age / _SPAN_SECONDS)))

    @property
    def at_ns(self) -> int:
        """When something was counted last."""
        return self._at_ns

    def _fading(self, now_ns: int) -> float:
        return exp(-(now_ns - self._at_ns) / NANOSECONDS / _SPAN_SECONDS)


@dataclass(frozen=True, slots=True)
class Lag:
    """One partition."""

    place: Place
    member: str | None
    floor: int
    end: int
    messages: int
    seconds: float
    """The age of the oldest message that is not done; 0 when all are."""
    leased: int
    waiting: int
    moving: int
    pledged: int
    lost: int
    rate: float
    """Messages done in a second, lately."""
    incoming: float
    """Messages published in a second, lately."""

    @property
    def drain_seconds(self) -> float | None:
        """Until nothing is left; None when it grows, or stands, or nobody is there to read it."""
        if not self.messages:
            return 0.0
        if self.member is None:
            return None
        gain = self.rate - self.incoming
        return self.messages / gain if gain > 0 else None


def left_of(cursor: Cursor, view: View) -> Work[Backlog]:
    """What a group has not done of a partition."""
    if cursor.heads is None:
        return (yield from backlog(view, cursor.floor, cursor.settled()))
    end, position, reach = view.end, cursor.position, cursor.reach
    taken = list(cursor.open_from(max(position, view.earliest), reach))
    heads, settled = list(cursor.heads), [*cursor.settled(), (max(position, cursor.floor), OFFSET_MAX)]
    left = yield from backlog(view, cursor.floor, settled)
    ahead = yield from backlog(view, reach, ())
    messages = left.messages + sum(stop - first for first, stop in taken) + ahead.messages
    firsts = [first for first, _ in taken]
    for lane, head in enumerate(heads):
        messages += yield from view.count_in_lane(lane, head, min(end, reach))
        following = yield from view.partition.lanes.next(lane, head, end)
        firsts += [] if following is None else [following]
    oldest_ns = left.oldest_ns
    if oldest_ns is None and firsts and messages:
        oldest_ns = yield from _time_from(view, min(firsts))
    return Backlog(messages, oldest_ns)


def _time_from(view: View, offset: int) -> Work[int | None]:
    """The time of the first message from this offset on: one that was meant may be gone by now."""
    read = yield from view.read(max(offset, view.earliest), 1, skip_damage=True)
    return frame.timestamp_at(read.buffers[0]) if read.buffers else None


class Lags:
    """Looks at the places of groups."""

    def __init__(self, ledger: Ledger, topics: Topics, clock: Clock) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._meters: dict[tuple[str, Place], Meter] = {}

    def progress(self, cursor: Cursor, count: int) -> None:
        """So many messages are done."""
        key, now_ns = (cursor.group, cursor.place), self._clock.now_ns()
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = Meter(now_ns)
        meter.add(count, now_ns)

    def idle_seconds(self, group: str, place: Place) -> float | None:
        """Since something was done there last; None: nothing since the start."""
        meter = self._meters.get((group, place))
        return None if meter is None else max(0, self._clock.now_ns() - meter.at_ns) / NANOSECONDS

    def forget(self, group: str) -> None:
        for key in [key for key in self._meters if key[0] == group]:
            del self._meters[key]

    def of(self, name: str) -> Work[list[Lag]]:
        """Of every place that the group has, in order."""
        group = self._ledger.group(name)
        owners = group.owners() if group is not None else {}
        found: list[Lag] = []
        for place in sorted(self._ledger.cursors(name)):
            lag = yield from self.at(name, place, owners.get(place))
            if lag is not None:
                found.append(lag)
        return found

    def at(
        self, name: str, place: Place, owner: str | None, incoming: dict[Place, float] | None = None
    ) -> Work[Lag | None]:
        """Of one place that a group has; None where it is gone.

        `incoming` keeps what is found out of a partition for the next group that has it too.
        """
        cursor, topic = self._ledger.cursor(name, place), self._topics.topics.get(place[0])
        if cursor is None or topic is None:
            return None
        partition, now_ns = topic.partition(place[1]), self._clock.now_ns()
        view = View(partition, self._ledger.isolation(name))
        left = yield from left_of(cursor, view)
        known = {} if incoming is None else incoming
        if place not in known:
            recent = yield from partition.offset_for_time(now_ns - round(_SPAN_SECONDS * NANOSECONDS))
            published = yield from count_between(view, recent, view.end)
            known[place] = published / _SPAN_SECONDS
        seconds = 0.0 if left.oldest_ns is None else max(0.0, (now_ns - left.oldest_ns) / NANOSECONDS)
        meter = self._meters.get((name, place))
        return Lag(
            place,
            owner,
            cursor.floor,
            view.end,
            left.messages,
            seconds,
            cursor.leased,
            cursor.waiting.count,
            cursor.moving.count,
            cursor.pledged.count,
            cursor.lost,
            meter.rate(now_ns) if meter is not None else 0.0,
            known[place],
        )
