"""Histories of real runs: processes write down what they see, and afterwards it is checked as a whole.

What is checked, and what is on purpose not held against the broker, is told in `docs/checker.md`.
"""

from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    Acked,
    Acking,
    End,
    Event,
    Joined,
    Left,
    Nacked,
    Owned,
    Published,
    Publishing,
    Received,
    Rejected,
    Rejecting,
    Settled,
    Stored,
)
from goqueue.testing.history.record import Recorder, read
from goqueue.testing.history.report import KINDS, Counts, Kind, Report, Violation

__all__ = [
    "KINDS",
    "Acked",
    "Acking",
    "Counts",
    "End",
    "Event",
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
    "Settled",
    "Stored",
    "Violation",
    "check",
    "read",
]
