"""The rules, applied to a whole history."""

from collections.abc import Iterable

from goqueue.testing.history.atomicity import check_transactions
from goqueue.testing.history.events import Event
from goqueue.testing.history.groups import GroupChecker, check_ownership
from goqueue.testing.history.logs import check_logs
from goqueue.testing.history.pledges import Hints
from goqueue.testing.history.readers import check_readers
from goqueue.testing.history.report import Counts, Report
from goqueue.testing.history.run import Log, Run
from goqueue.testing.history.transactions import Transactions


def check(events: Iterable[Event], *, idempotent: bool = True, in_order: bool = True) -> Report:
    """Everything that is wrong with a run.

    Without `idempotent` a value may be stored twice, as a producer whose retries are not known again may do; without
    `in_order` first deliveries may come in any order, as they do with several priorities.
    """
    run = Run(events)
    transactions, hints = Transactions(run), Hints()
    counts = _count(run)
    violations = [
        *check_logs(run, idempotent=idempotent),
        *check_transactions(run, transactions),
        *check_readers(run, transactions),
        *check_ownership(run),
    ]
    for track in run.tracks.values():
        log = run.logs.get((track.topic, track.partition)) or Log(track.topic, track.partition)
        checker = GroupChecker(track, log, transactions)
        checker.count(counts)
        checker.hint(hints)
        violations += checker.check(in_order=in_order)
    return Report([*violations, *hints.check()], counts)


def _count(run: Run) -> Counts:
    """Of everything but groups."""
    outcomes = [transaction.outcome for transaction in run.transactions.values()]
    return Counts(
        events=run.events,
        sent=len(run.sent),
        published=len(run.published),
        stored=sum(len(log.stored) for log in run.logs.values()),
        seen=sum(len(reading.seen) for reading in run.readings.values()),
        transactions=len(outcomes),
        committed=outcomes.count("committed"),
        aborted=outcomes.count("aborted"),
    )
