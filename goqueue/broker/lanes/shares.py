"""Whose turn it is among lanes: deficit round robin, counted in messages.

In a round each lane may have as many messages as its weight says, times a factor that makes a round about as large as
a poll. A lane spends what it may have when it has something, the most urgent first; when all that have something have
spent theirs, the next round begins. So a lane that was empty is served at once, a busy one gets its share, and
what a lane does not need goes to the others. One that got nothing for too long goes first once.

This is forgotten with the process: it says what is fair from now on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.clock import NANOSECONDS
from goqueue.limits import LANE_BOOST_SECONDS, LANE_WEIGHTS, PRIORITY_COUNT


@dataclass(frozen=True, slots=True)
class LaneRules:
    """What each lane may have of a hundred messages, or of any other sum, and how long one may be passed over."""

    weights: tuple[int, ...] = LANE_WEIGHTS
    boost_ns: int = round(LANE_BOOST_SECONDS * NANOSECONDS)


class Shares:
    """Of one reader of one partition."""

    __slots__ = ("_credits", "_passed_ns", "message_bytes")

    def __init__(self) -> None:
        self._credits = [0] * PRIORITY_COUNT
        """What each lane may still have in this round."""
        self._passed_ns: list[int | None] = [None] * PRIORITY_COUNT
        """Since when a lane has had something and got nothing."""
        self.message_bytes = 0
        """Of a message on average, in what was taken last."""

    def divide(self, rules: LaneRules, ready: Sequence[int], wanted: int, now_ns: int) -> list[int]:
        """How many messages each lane gives, where it has so many `ready`; as many as are wanted, if there are.

        No more are to be wanted than there is room for: what is given back is the lane's own, and it comes first again.
        """
        taken = [0] * PRIORITY_COUNT
        left = min(wanted, sum(ready))
        for lane in self.passed_over(rules, ready, now_ns):
            share = max(1, wanted * rules.weights[lane] // sum(rules.weights))
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
                self._begin_round(rules, [lane for lane in range(PRIORITY_COUNT) if taken[lane] < ready[lane]], left)
        return taken

    def give_back(self, lane: int, count: int) -> None:
        """So many fewer could be taken."""
        self._credits[lane] += count

    def _begin_round(self, rules: LaneRules, busy: list[int], left: int) -> None:
        """As large as what is left to be taken; a lane that has nothing now keeps its part for when it has, of a round
        of all: what others take in its stead is not its own."""
        factor = max(1, left // sum(rules.weights[lane] for lane in busy))
        usual = max(1, left // sum(rules.weights))
        self._credits = [weight * (factor if lane in busy else usual) for lane, weight in enumerate(rules.weights)]

    def passed_over(self, rules: LaneRules, ready: Sequence[int], now_ns: int) -> list[int]:
        """Lanes that have got nothing for too long, the one that has waited longest first."""
        waited = [
            (since, lane)
            for lane, since in enumerate(self._passed_ns)
            if ready[lane] and since is not None and now_ns - since >= rules.boost_ns
        ]
        return [lane for _, lane in sorted(waited)]

    def note(self, ready: Sequence[int], taken: Sequence[int], now_ns: int) -> None:
        """So many were taken."""
        for lane in range(PRIORITY_COUNT):
            if not ready[lane]:
                self._passed_ns[lane] = None
            elif taken[lane] or self._passed_ns[lane] is None:
                self._passed_ns[lane] = now_ns

    def __repr__(self) -> str:
        return f"<Shares {self._credits}>"
