"""What was handed out of each lane of a partition since the broker started: how many, when last, after what wait."""

from dataclasses import dataclass, field

from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.slices import Slice
from goqueue.clock import NANOSECONDS
from goqueue.limits import PRIORITY_COUNT
from goqueue.storage import frame


@dataclass(slots=True)
class LaneServed:
    """One lane of one partition, in all groups together."""

    messages: int = 0
    leases: int = 0
    waited_seconds: float = 0.0
    """Of the first message of each lease, all together."""
    last_ns: int = 0

    def note(self, messages: int, waited_seconds: float, now_ns: int) -> None:
        self.messages += messages
        self.leases += 1
        self.waited_seconds += waited_seconds
        self.last_ns = now_ns

    @property
    def wait_seconds(self) -> float:
        """On average, from the append to the lease."""
        return self.waited_seconds / self.leases if self.leases else 0.0


def _nothing() -> list[LaneServed]:
    return [LaneServed() for _ in range(PRIORITY_COUNT)]


@dataclass(slots=True)
class Served:
    """By place, and in each by lane."""

    places: dict[Place, list[LaneServed]] = field(default_factory=dict)
    totals: list[LaneServed] = field(default_factory=_nothing)
    """Of all places, those included that are gone."""

    def note(self, place: Place, lane: int, content: Slice, now_ns: int) -> None:
        lanes = self.places.get(place)
        if lanes is None:
            lanes = self.places[place] = _nothing()
        count, waited = content.count, max(0, now_ns - frame.timestamp_at(content.buffers[0])) / NANOSECONDS
        lanes[lane].note(count, waited, now_ns)
        self.totals[lane].note(count, waited, now_ns)

    def forget(self, topic: str) -> None:
        """It is gone."""
        for place in [place for place in self.places if place[0] == topic]:
            del self.places[place]
