"""Requests that go on for their time and are repeated: no broker here needs twenty seconds."""

from typing import Any

from goqueue_cli.delayed.changes import BulkChangeResult, change_all


class Counted:
    """So many that fit, of which a request comes to at most `at_once`."""

    def __init__(self, count: int, at_once: int) -> None:
        self.left = count
        self.at_once = at_once
        self.asked: list[int | None] = []

    def __call__(self, *, limit: int | None, dry_run: bool) -> dict[str, Any]:
        assert not dry_run
        self.asked.append(limit)
        wanted = self.left if limit is None else min(limit, self.left)
        done = min(wanted, self.at_once)
        self.left -= done
        return {"matched": done, "scanned": done, "changed": done, "complete": done == wanted}


def carried_out(ask: Counted, limit: int | None = None, *, stops: int = 99, repeats: bool = True) -> BulkChangeResult:
    outcome = BulkChangeResult()
    change_all(ask, limit, "cancelling", lambda: len(ask.asked) >= stops, outcome, repeats=repeats)
    return outcome


def test_bulk_change_repeats_until_complete() -> None:
    outcome = carried_out(Counted(25, 10))
    assert (outcome.matched, outcome.changed, outcome.complete) == (25, 25, True)


def test_limit_applies_to_all_requests_together() -> None:
    ask = Counted(25, 10)
    assert (carried_out(ask, 12).changed, ask.asked) == (12, [12, 2])


def test_bulk_change_stops_between_requests() -> None:
    outcome = carried_out(Counted(25, 10), stops=1)
    assert (outcome.changed, outcome.complete, outcome.count) == (10, False, "at least 10 delayed messages")


def test_reschedule_is_requested_once() -> None:
    outcome = carried_out(Counted(25, 10), repeats=False)
    assert (outcome.changed, outcome.complete) == (10, False)


def test_bulk_change_ends_without_progress() -> None:
    ask = Counted(25, 0)
    assert (carried_out(ask).complete, ask.asked) == (False, [None])
