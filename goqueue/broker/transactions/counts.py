"""How many transactions have ended, how, and after how long."""

from dataclasses import dataclass, field

from goqueue.broker.transactions.records import Ended
from goqueue.broker.transactions.refusals import ASKED, REASONS
from goqueue.clock import NANOSECONDS


@dataclass(slots=True)
class Counts:
    """Since the broker started."""

    committed: int = 0
    aborted: dict[str, int] = field(default_factory=dict)
    """By the reason; what somebody has written is none of few."""
    seconds: float = 0.0
    """How long those that ended had lasted, all together."""

    def note(self, ended: Ended) -> None:
        self.seconds += lasted(ended)
        if ended.state == "complete_commit":
            self.committed += 1
        else:
            reason = ended.reason if ended.reason in REASONS else ASKED
            self.aborted[reason] = self.aborted.get(reason, 0) + 1


def lasted(ended: Ended) -> float:
    """In seconds; a clock may have been set back."""
    return max(0, ended.ended_ns - ended.began_ns) / NANOSECONDS
