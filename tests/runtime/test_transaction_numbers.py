"""What the metrics tell of transactions, on a broker without threads."""

import asyncio

from goqueue.broker.transactions.records import Ended, Registered
from goqueue.broker.transactions.states import State
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import NANOSECONDS
from goqueue.observe.transaction_metrics import TransactionNumbers
from goqueue.runtime.transaction_numbers import transaction_numbers
from tests.broker.brokers import Running
from tests.broker.transactions.traffic import Traffic


def numbers(running: Running) -> TransactionNumbers:
    return asyncio.run(transaction_numbers(running.broker))


def opened(running: Running, name: str, producer: int, state: State = "ongoing", seconds: float = 0.0) -> None:
    transactions = running.broker.transactions
    now_ns = transactions.clock.now_ns()
    began_ns = now_ns - round(seconds * NANOSECONDS)
    transactions.register.apply(Registered(name, producer, 0, state, 60 * NANOSECONDS, now_ns, began_ns=began_ns))


def test_a_broker_without_transactions_has_zeros() -> None:
    found = numbers(Running())
    assert found.open == {"ongoing": 0, "prepare_abort": 0, "prepare_commit": 0}
    assert (found.oldest_seconds, found.committed, found.held_back) == (0.0, 0, {})
    assert found.aborted == {"asked": 0, "timeout": 0, "fenced": 0, "restart": 0}


def test_those_that_are_open_are_counted_by_state_with_the_age_of_the_oldest() -> None:
    running = Running()
    opened(running, "a", 1, seconds=5)
    opened(running, "b", 2, "prepare_commit", seconds=40)
    opened(running, "c", 3, "complete_commit", seconds=900)
    found = numbers(running)
    assert found.open == {"ongoing": 1, "prepare_abort": 0, "prepare_commit": 1}
    assert 40 <= found.oldest_seconds < 41


def test_what_is_held_back_is_told_of_the_partitions_where_it_is() -> None:
    running = Running()
    running.create("orders", partitions=2)
    traffic = Traffic(running)
    traffic.plain(b"before")
    traffic.write(1, b"a", b"b")
    traffic.plain(b"behind")
    assert numbers(running).held_back == {("orders", "0"): 3}
    traffic.commit()
    assert numbers(running).held_back == {}


def test_ends_are_counted_and_words_of_people_are_no_reasons() -> None:
    counts = (running := Running()).broker.transactions.counts
    for state, reason in (("complete_commit", ""), ("complete_abort", "timeout"), ("complete_abort", "till 4 hangs")):
        counts.note(Ended(Whose(1, 0), state, 0, NANOSECONDS, reason))  # type: ignore[arg-type]
    found = numbers(running)
    assert (found.committed, found.aborted) == (1, {"asked": 1, "timeout": 1, "fenced": 0, "restart": 0})
    assert counts.seconds == 3
