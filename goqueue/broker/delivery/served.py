"""What was handed out of each lane of a partition since the broker started: how many, when last, after what wait."""

from collections.abc import Iterable
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

    @property
    def wait_seconds(self) -> float:
        """On average, from the append to the lease."""
        return self.waited_seconds / self.leases if self.leases else 0.0


@dataclass(slots=True)
class Served:
    """By place, and in each by lane."""

    places: dict[Place, list[LaneServed]] = field(default_factory=dict)

    def note(self, place: Place, lane: int, content: Slice, now_ns: int) -> None:
        lanes = self.places.get(place)
        if lanes is None:
            lanes = self.places[place] = [LaneServed() for _ in range(PRIORITY_COUNT)]
        served = lanes[lane]
        served.messages += content.count
        served.leases += 1
        served.last_ns = now_ns
        served.waited_seconds += max(0, now_ns - frame.timestamp_at(content.buffers[0])) / NANOSECONDS

    def keep(self, topics: Iterable[str]) -> None:
        """Forget what is of no topic that there still is."""
        known = set(topics)
        self.places = {place: lanes for place, lanes in self.places.items() if place[0] in known}
