"""How many transactions have ended, how, and how long they had lasted."""

from dataclasses import dataclass, field

from goqueue.broker.transactions.records import Ended
from goqueue.broker.transactions.refusals import ASKED, REASONS
from goqueue.clock import NANOSECONDS


@dataclass(slots=True)
class Counts:
    """Since the broker started."""

    committed: int = 0
    aborted: dict[str, int] = field(default_factory=dict)
    """By the reason."""
    seconds: float = 0.0
    """How long those that ended had lasted, all together."""

    def note(self, ended: Ended) -> None:
        self.seconds += max(0, ended.ended_ns - ended.began_ns) / NANOSECONDS
        if ended.state == "complete_commit":
            self.committed += 1
        else:
            reason = ended.reason if ended.reason in REASONS else ASKED
            self.aborted[reason] = self.aborted.get(reason, 0) + 1
