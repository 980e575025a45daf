"""What a piece of a delayed log tells, and what that changes in the table.

It is the same at a start, at work, and for whoever reads the log elsewhere.
"""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.broker.delay.records import Ended, Record, Rescheduled
from goqueue.broker.delay.schedule import PENDING, Bytes, Schedule
from goqueue.broker.delay.wheel import Due, Numbers
from goqueue.clock import NANOSECONDS


@dataclass(frozen=True, slots=True)
class News:
    """The messages and records of a piece of a delayed log."""

    offsets: Numbers
    dues: Numbers
    times: Numbers
    """When they were scheduled."""
    priorities: Bytes
    states: Bytes
    """Of a message in a transaction nothing is decided yet."""
    records: list[Record]

    def of_messages_below(self, end: int) -> "News":
        """The same without the messages from an offset on."""
        wanted = self.offsets < end
        return News(
            self.offsets[wanted],
            self.dues[wanted],
            self.times[wanted],
            self.priorities[wanted],
            self.states[wanted],
            self.records,
        )


@dataclass(slots=True)
class Changes:
    """What became of a table by news."""

    filed: list[Due] = field(default_factory=list)
    """New deadlines, and whose they are, whose offsets rise. Some may be no longer true."""
    settled: Counter[int] = field(default_factory=Counter)
    """How many messages came to which end."""
    since: int | None = None
    """The position in the topic up to which it was told of, if it was said anew."""
    scheduled: int = 0
    """Messages that came to be pending, and of all of them together how long they are to wait."""
    ahead_seconds: float = 0.0

    def scheduled_from(self, times: Numbers | int, dues: Numbers, offsets: Numbers) -> None:
        self.filed.append((dues, offsets))
        self.scheduled += len(dues)
        self.ahead_seconds += float((dues - times).clip(0).sum()) / NANOSECONDS


def apply(schedule: Schedule, news: News) -> Changes:
    """Do to the table what the news say. Records speak of messages before them, so all messages may come first."""
    changes = Changes()
    schedule.add(news.offsets, news.dues, news.priorities, news.states)
    plain = news.states == PENDING
    changes.scheduled_from(news.times[plain], news.dues[plain], news.offsets[plain])
    for record in news.records:
        if isinstance(record, Ended):
            _end(schedule, record, changes)
        elif isinstance(record, Rescheduled):
            moved = schedule.move(record.offsets, record.dues)
            changes.filed.append((record.dues[moved], record.offsets[moved]))
        else:
            changes.settled[record.state] += schedule.settle(record.offsets, record.state)
            changes.since = changes.since if record.since is None else record.since
    return changes


def _end(schedule: Schedule, record: Ended, changes: Changes) -> None:
    if record.is_commit:
        changes.scheduled_from(record.time_ns, *schedule.commit(record.firsts, record.ends, record.time_ns))
    else:
        schedule.abort(record.firsts, record.ends)
