"""Metrics of transactions, on a broker without threads."""

import asyncio

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.transactions.records import EndedTransaction, TransactionMetadata, TransactionState
from goqueue.clock import NANOSECONDS
from goqueue.observe.state_metrics import TransactionMetricsInput
from goqueue.runtime.metrics_scraper import collect_transaction_metrics
from tests.broker.brokers import Running
from tests.broker.transactions.traffic import Traffic


def numbers(running: Running) -> TransactionMetricsInput:
    return asyncio.run(collect_transaction_metrics(running.broker))


def opened(
    running: Running, name: str, producer: int, state: TransactionState = "ongoing", seconds: float = 0.0
) -> None:
    transactions = running.broker.transactions
    now_ns = transactions.clock.now_ns()
    began_ns = now_ns - round(seconds * NANOSECONDS)
    transactions.of(name).register.apply(
        TransactionMetadata(name, producer, 0, state, 60 * NANOSECONDS, now_ns, began_ns=began_ns)
    )


def test_transaction_metrics_are_zero_without_transactions() -> None:
    found = numbers(Running())
    assert found.open == {"ongoing": 0, "prepare_abort": 0, "prepare_commit": 0}
    assert (found.oldest_seconds, found.committed, found.held_back) == (0.0, 0, {})
    assert found.aborted == {"asked": 0, "timeout": 0, "fenced": 0, "restart": 0}


def test_open_transactions_are_counted_by_state_with_oldest_age() -> None:
    running = Running()
    opened(running, "a", 1, seconds=5)
    opened(running, "b", 2, "prepare_commit", seconds=40)
    opened(running, "c", 3, "complete_commit", seconds=900)
    found = numbers(running)
    assert found.open == {"ongoing": 1, "prepare_abort": 0, "prepare_commit": 1}
    assert 40 <= found.oldest_seconds < 41


def test_held_back_messages_are_counted_by_partition() -> None:
    running = Running()
    running.create("orders", partitions=2)
    traffic = Traffic(running)
    traffic.plain(b"before")
    traffic.write(1, b"a", b"b")
    traffic.plain(b"behind")
    assert numbers(running).held_back == {("orders", "0"): 3}
    traffic.commit()
    assert numbers(running).held_back == {}


def test_custom_abort_reasons_are_counted_as_asked() -> None:
    counts = (running := Running()).broker.transactions.counts
    for state, reason in (("complete_commit", ""), ("complete_abort", "timeout"), ("complete_abort", "till 4 hangs")):
        counts.note(EndedTransaction(TransactionId(1, 0), state, 0, NANOSECONDS, reason))  # type: ignore[arg-type]
    found = numbers(running)
    assert (found.committed, found.aborted) == (1, {"asked": 1, "timeout": 1, "fenced": 0, "restart": 0})
    assert counts.seconds == 3
