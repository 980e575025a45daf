"""Changing all delayed messages that filters choose: what would be done, and what was, request after request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goqueue.console import terminal
from goqueue.quantities import format_count

Ask = Callable[..., dict[str, Any]]
"""The call of the client that does it, with all but `limit` and `dry_run`."""


@dataclass(slots=True)
class Outcome:
    """What requests have come to."""

    matched: int = 0
    scanned: int = 0
    changed: int = 0
    complete: bool = False

    def add(self, answer: Mapping[str, Any]) -> None:
        self.matched += answer["matched"]
        self.scanned += answer["scanned"]
        self.changed += answer["changed"]
        self.complete = answer["complete"]

    @property
    def count(self) -> str:
        """Of those that fit, as far as they were looked at."""
        return ("" if self.complete else "at least ") + format_count(self.matched, "delayed message")


def plan(ask: Ask, limit: int | None) -> Outcome:
    """How many fit; nothing is changed."""
    outcome = Outcome()
    outcome.add(ask(limit=limit, dry_run=True))
    return outcome


def carry_out(
    ask: Ask, limit: int | None, verb: str, is_stopped: Callable[[], bool], outcome: Outcome, *, repeats: bool
) -> None:
    """Until all is done, somebody stops it, or nothing more can be.

    A request goes on for some twenty seconds. What was cancelled or delivered does not fit any more, so the next one
    goes on with the rest. What was only moved may fit again: then there is one request, which `repeats` forbids.
    """
    while not outcome.complete and not is_stopped():
        terminal.show_status(f"{verb}: {format_count(outcome.changed)} so far")
        left = None if limit is None else limit - outcome.changed
        before = outcome.changed
        outcome.add(ask(limit=left, dry_run=False))
        if not repeats or outcome.changed == before:
            return
