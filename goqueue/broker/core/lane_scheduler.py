"""Divides a poll among lanes: deficit round robin, counted in messages.

In a round each lane gets credits by its weight, scaled so that a round is about as large as a poll. Lanes with
messages spend their credits, the most urgent first; when all of them have spent theirs, the next round begins. So a
lane that was empty is served at once, a busy one gets its share, and unused shares go to the others. A lane that got
nothing for too long comes first once.

Nothing of this is recorded: it only decides what is fair from now on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.clock import NANOSECONDS
from goqueue.limits import LANE_BOOST_SECONDS, LANE_WEIGHTS, PRIORITY_COUNT


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """The weight of each lane, and how long a lane may get nothing."""

    weights: tuple[int, ...] = LANE_WEIGHTS
    boost_ns: int = round(LANE_BOOST_SECONDS * NANOSECONDS)


class LaneScheduler:
    """The lanes of one reader of one partition."""

    __slots__ = ("_credits", "_starved_ns", "message_bytes")

    def __init__(self) -> None:
        self._credits = [0] * PRIORITY_COUNT
        self._starved_ns: list[int | None] = [None] * PRIORITY_COUNT
        """Since when a lane has had messages and got nothing."""
        self.message_bytes = 0
        """The average size of the messages that were leased last."""

    def divide(self, policy: LanePolicy, ready: Sequence[int], wanted: int, now_ns: int) -> list[int]:
        """Return how many messages each lane gives, of those that are `ready`.

        `wanted` must not exceed the room for them: what a lane gives back is credited to it, so it comes first again.
        """
        taken = [0] * PRIORITY_COUNT
        left = min(wanted, sum(ready))
        for lane in self.starved(policy, ready, now_ns):
            share = max(1, wanted * policy.weights[lane] // sum(policy.weights))
            taken[lane] = min(share, ready[lane], left)
            self._credits[lane] = max(0, self._credits[lane] - taken[lane])
            left -= taken[lane]
        while left:
            for lane in range(PRIORITY_COUNT):
                count = min(self._credits[lane], ready[lane] - taken[lane], left)
                taken[lane] += count
                self._credits[lane] -= count
                left -= count
            if left:
                self._begin_round(policy, [lane for lane in range(PRIORITY_COUNT) if taken[lane] < ready[lane]], left)
        return taken

    def give_back(self, lane: int, count: int) -> None:
        """Return credits for messages that could not be leased."""
        self._credits[lane] += count

    def _begin_round(self, policy: LanePolicy, busy: list[int], left: int) -> None:
        """Begin a round as large as what is left. An idle lane gets its part of a round in which all lanes are busy."""
        factor = max(1, left // sum(policy.weights[lane] for lane in busy))
        usual = max(1, left // sum(policy.weights))
        self._credits = [weight * (factor if lane in busy else usual) for lane, weight in enumerate(policy.weights)]

    def starved(self, policy: LanePolicy, ready: Sequence[int], now_ns: int) -> list[int]:
        """Return the lanes that got nothing for too long, the longest wait first."""
        waited = [
            (since, lane)
            for lane, since in enumerate(self._starved_ns)
            if ready[lane] and since is not None and now_ns - since >= policy.boost_ns
        ]
        return [lane for _, lane in sorted(waited)]

    def note(self, ready: Sequence[int], taken: Sequence[int], now_ns: int) -> None:
        """Note how many messages were leased of each lane."""
        for lane in range(PRIORITY_COUNT):
            if not ready[lane]:
                self._starved_ns[lane] = None
            elif taken[lane] or self._starved_ns[lane] is None:
                self._starved_ns[lane] = now_ns
