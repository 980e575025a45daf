"""Clients of a shard that is closed and opened again while the broker runs."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from goqueue.broker.core.shards import Shards
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, told, waiting
from tests.api.wire import until
from tests.brokers import Answer, ask, create, publish


def on_loop(broker: LocalBroker, action: Callable[[], Any]) -> Any:
    """Run it where the broker's rules run."""

    async def run() -> Any:
        return action()

    return asyncio.run_coroutine_threadsafe(run(), broker.daemon.runtime._loop).result()


def close(broker: LocalBroker, shards: Shards[Any], name: str) -> None:
    closed = on_loop(broker, lambda: shards.close(shards.number(name)))
    until(broker.url, lambda: closed.is_kept)


def reopen(broker: LocalBroker, shards: Shards[Any], name: str) -> None:
    runtime = broker.daemon.runtime
    work = runtime.perform(shards.reopen(shards.number(name)))
    asyncio.run_coroutine_threadsafe(work, runtime._loop).result()


def is_refused(answer: Answer) -> bool:
    return (answer.status, answer.code, answer.headers["retry-after"]) == (503, "log_closed", "1")


@pytest.fixture
def member(broker: LocalBroker) -> Member:
    create(broker.url, "orders")
    return Member(broker.url).join()


def test_waiting_poll_is_refused_and_repeated_after_its_shard_was_reopened(broker: LocalBroker, member: Member) -> None:
    groups = broker.daemon.runtime.broker.groups
    (partition,) = broker.daemon.runtime.broker.topics["orders"].partitions
    with waiting(broker, member) as answer:
        close(broker, groups, member.group)
        assert is_refused(answer.result())
    until(broker.url, lambda: not partition._watchers)
    assert is_refused(member.polled())
    on_loop(broker, lambda: groups.open(groups.number(member.group)))
    publish(broker.url, "orders", "a")
    assert len(member.lease()) == 1
    assert member.beat() == {"rebalance_required": False, "state": "stable", "generation": member.generation}


def test_poll_of_reopened_shard_waits_for_messages(broker: LocalBroker, member: Member) -> None:
    reopen(broker, broker.daemon.runtime.broker.groups, member.group)
    with waiting(broker, member) as answer:
        publish(broker.url, "orders", "a")
        assert len(told(answer.result())["messages"]) == 1


def test_session_times_out_in_reopened_shard(broker: LocalBroker, member: Member) -> None:
    Member(broker.url, "short", session_timeout="1s").join()
    groups = broker.daemon.runtime.broker.groups
    reopen(broker, groups, "short")

    def has_members() -> bool:
        group = groups.group("short")
        return group is not None and bool(group.members)

    until(broker.url, lambda: not on_loop(broker, has_members))
    assert member.beat()["state"] == "stable"


def test_closed_shards_leave_nothing_on_the_loop(broker: LocalBroker, member: Member) -> None:
    running = broker.daemon.runtime.broker
    told(ask(broker.url, "POST", "/producers/init", {"transactional_id": "till"}))
    kept: list[tuple[Shards[Any], str]] = [(running.groups, member.group), (running.transactions, "till")]
    left = [weakref.ref(shards.of(name)) for shards, name in kept]
    with waiting(broker, member) as answer:
        for shards, name in kept:
            close(broker, shards, name)
        assert is_refused(answer.result())
    until(broker.url, lambda: gc.collect() >= 0 and [found() for found in left] == [None, None])


def test_waiting_join_is_refused_when_its_shard_is_closed(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    first = Member(broker.url, "both", protocol="eager").join()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, broker.url, "POST", "/groups/both/join", {"topics": ["orders"]})
        until(broker.url, lambda: first.beat()["rebalance_required"])
        close(broker, broker.daemon.runtime.broker.groups, "both")
        assert is_refused(answer.result())


def test_transaction_continues_after_its_shard_was_reopened(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    transactions = broker.daemon.runtime.broker.transactions
    producer = told(ask(broker.url, "POST", "/producers/init", {"transactional_id": "till"}))
    whose = {"producer_id": producer["producer_id"], "epoch": producer["epoch"]}
    told(ask(broker.url, "POST", "/transactions/begin", {**whose, "transactional_id": "till"}))
    message = {**whose, "topic": "orders", "value": "a"}
    told(ask(broker.url, "POST", "/transactions/publish", message))
    close(broker, transactions, "till")
    assert is_refused(ask(broker.url, "POST", "/transactions/publish", message))
    assert is_refused(ask(broker.url, "POST", "/transactions/commit", {**whose, "transactional_id": "till"}))
    on_loop(broker, lambda: transactions.open(transactions.number("till")))
    told(ask(broker.url, "POST", "/transactions/publish", {**message, "value": "b"}))
    told(ask(broker.url, "POST", "/transactions/commit", {**whose, "transactional_id": "till"}))
    found = told(ask(broker.url, "GET", "/topics/orders/messages"))["messages"]
    assert [one["value"] for one in found] == ["a", "b"]
