"""Histories of real runs: processes write down what they see, and afterwards it is checked as a whole.

What is checked, and what is on purpose not held against the broker, is told in `docs/checker.md`.
"""

from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    Aborted,
    Acked,
    Acking,
    Begun,
    Committed,
    Committing,
    Damaged,
    End,
    Event,
    Isolation,
    Joined,
    Left,
    Nacked,
    Owned,
    Published,
    Publishing,
    Received,
    Rejected,
    Rejecting,
    Scheduled,
    Seen,
    Settled,
    Stored,
)
from goqueue.testing.history.record import Recorder, read
from goqueue.testing.history.report import KINDS, Counts, Kind, Report, Violation

__all__ = [
    "KINDS",
    "Aborted",
    "Acked",
    "Acking",
    "Begun",
    "Committed",
    "Committing",
    "Counts",
    "Damaged",
    "End",
    "Event",
    "Isolation",
    "Joined",
    "Kind",
    "Left",
    "Nacked",
    "Owned",
    "Published",
    "Publishing",
    "Received",
    "Recorder",
    "Rejected",
    "Rejecting",
    "Report",
    "Scheduled",
    "Seen",
    "Settled",
    "Stored",
    "Violation",
    "check",
    "read",
]
