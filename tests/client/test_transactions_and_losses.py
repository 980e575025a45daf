"""Transactions of both clients while answers are lost, brokers are restarted and nobody says anything for long."""

import asyncio
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from goqueue.errors import GoQueueError, LeaseExpired, ProducerFenced, TransactionAborted
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.client.either import KINDS, each, entered, refused, run, settled
from tests.client.peers import Asked, Reply, refusal
from tests.client.relay import once, relay
from tests.client.test_transactional_groups import EAGER, fill, left
from tests.client.test_transactions_with_broker import Failure, make, values
from tests.client.test_with_broker import successor

__all__ = ["broker"]

# --- answers that are lost ---


LOSSES = ["/producers/init", "/topics/a/messages?", "/transactions/commit"]


@KINDS
@pytest.mark.parametrize("part", LOSSES)
def test_an_answer_that_is_lost_changes_nothing(broker: LocalBroker, kind: Any, part: str) -> None:
    make(broker.url, "a")
    with relay(broker.url, once(part)) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for number in range(3):
                    async with entered(producer.transaction()) as tx:
                        await settled(tx.send_many("a", [f"{number}a", f"{number}b"], partition=0))

        run(kind, between.peer.url, scenario)
        assert len(between.lost) == 1
    assert values(broker.url, "a") == ["0a", "0b", "1a", "1b", "2a", "2b"]


@KINDS
def test_an_abort_whose_answer_is_lost_is_one(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")
    with relay(broker.url, once("/transactions/abort")) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                async with entered(producer.transaction()) as tx:
                    await settled((await settled(tx.send("a", "never"))).result())
                    await settled(tx.abort())
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", "then"))

        run(kind, between.peer.url, scenario)
        assert len(between.asked("/transactions/abort")) == 2
        assert len(between.asked("/producers/init")) == 1
    assert values(broker.url, "a") == ["then"]


@KINDS
def test_an_epoch_that_is_given_and_lost_is_given_again(broker: LocalBroker, kind: Any) -> None:
    """The next epoch is asked for after an abort by an operator, and the first answer does not arrive."""
    make(broker.url, "a")
    asked_once: list[str] = []

    def loses(asked: Asked) -> bool:
        if asked.target == "/producers/init":
            asked_once.append(asked.target)
        return len(asked_once) == 2 and asked.target == "/producers/init"

    with relay(broker.url, loses) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                async with refused(TransactionAborted), entered(producer.transaction()) as tx:
                    await settled((await settled(tx.send("a", "never"))).result())
                    producer_id, epoch = map(int, tx.id.split("-"))
                    await settled(client.abort_transaction("p", producer_id, epoch))
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", "then"))

        run(kind, between.peer.url, scenario)
        assert len(asked_once) == 3
    assert values(broker.url, "a") == ["then"]


@KINDS
def test_a_producer_that_was_replaced_does_not_take_its_id_back(broker: LocalBroker, kind: Any) -> None:
    """Not even where its own transaction had been aborted before."""
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as former:
            tx = former.transaction()
            await entering(tx)
            await settled((await settled(tx.send("a", "former"))).result())
            producer_id, epoch = map(int, tx.id.split("-"))
            await settled(client.abort_transaction("p", producer_id, epoch))
            async with entered(client.producer(transactional_id="p")) as latter:
                async with entered(latter.transaction()) as other:
                    await settled(other.send("a", "latter"))
                async with refused(GoQueueError):
                    await settled(tx.commit())
                async with refused(ProducerFenced), entered(former.transaction()):
                    raise AssertionError
                async with entered(latter.transaction()) as other:
                    await settled(other.send("a", "still there"))

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["latter", "still there"]


async def entering(tx: Any) -> None:
    await settled(tx.__aenter__() if hasattr(tx, "__aenter__") else tx.__enter__())


@KINDS
def test_a_publication_that_comes_after_the_abort_is_of_no_transaction(broker: LocalBroker, kind: Any) -> None:
    """The request that was to begin it is held back on its way, until the next transaction is open."""
    make(broker.url, "a")
    on_its_way, go_on = threading.Event(), threading.Event()

    def hold(asked: Asked) -> None:
        if "begin=true" in asked.target and not on_its_way.is_set():
            on_its_way.set()
            go_on.wait()

    with relay(broker.url) as between:
        between.before = hold

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", "late"))
                    await asyncio.to_thread(on_its_way.wait)
                    await settled(tx.abort())
                go_on.set()
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", "then"))

        run(kind, between.peer.url, scenario)
    assert values(broker.url, "a") == ["then"]


@KINDS
def test_an_end_that_is_still_being_carried_out_is_asked_for_again(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")
    with relay(broker.url) as between:

        def pending(asked: Asked) -> Reply:
            is_new = "/transactions/" in asked.target and asked.target not in refused_once
            refused_once.add(asked.target)
            return refusal("transaction_pending", 503) if is_new else None

        refused_once: set[str] = set()
        between.instead = pending

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for end in ("abort", "commit"):
                    async with entered(producer.transaction()) as tx:
                        await settled((await settled(tx.send("a", end))).result())
                        await settled(getattr(tx, end)())

        run(kind, between.peer.url, scenario)
        assert len(between.asked("/transactions/")) == 4
    assert values(broker.url, "a") == ["commit"]


# --- restarts ---


@KINDS
def test_a_restart_in_the_middle_aborts_and_the_next_transaction_goes_on(tmp_path: Path, kind: Any) -> None:
    first = LocalBroker(str(tmp_path)).start()
    make(first.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(TransactionAborted) as error, entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "before"))).result())
                second = successor(first, str(tmp_path)).start()
                await settled(tx.send("a", "after"))
            assert error.value.details["reason"] == "restart"
            try:
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", "then"))
                assert values(second.url, "a") == ["then"]
            finally:
                second.stop()

    run(kind, first.url, scenario)


@KINDS
def test_a_commit_over_a_restart_tells_that_it_was_aborted(tmp_path: Path, kind: Any) -> None:
    first = LocalBroker(str(tmp_path)).start()
    make(first.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(TransactionAborted), entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "before"))).result())
                second = successor(first, str(tmp_path))
                starting = threading.Thread(target=second.start)
                starting.start()
            await asyncio.to_thread(starting.join)
            try:
                assert values(second.url, "a") == []
            finally:
                second.stop()

    run(kind, first.url, scenario)


@KINDS
def test_a_commit_whose_answer_was_lost_with_the_broker_is_known_afterwards(tmp_path: Path, kind: Any) -> None:
    first = LocalBroker(str(tmp_path)).start()
    make(first.url, "a")
    later: list[LocalBroker] = []

    def restart(asked: Asked) -> bool:
        """Loses the answer to the first commit together with the broker."""
        if "/transactions/commit" in asked.target and not later:
            later.append(successor(first, str(tmp_path)).start())
            return True
        return False

    with relay(first.url, restart) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for value in ("first", "second"):
                    async with entered(producer.transaction()) as tx:
                        await settled(tx.send("a", value, partition=0))

        try:
            run(kind, between.peer.url, scenario)
            assert len(between.lost) == 1
            assert values(first.url, "a") == ["first", "second"]
        finally:
            later[0].stop()


# --- heartbeats ---


@KINDS
def test_an_open_transaction_is_kept_alive_and_an_idle_producer_says_nothing(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")
    beaten = threading.Event()

    def look(asked: Asked) -> None:
        if asked.target.endswith("/heartbeat"):
            beaten.set()

    with relay(broker.url) as between:
        between.before = look

        async def scenario(client: Any) -> None:
            async with (
                entered(client.producer(transactional_id="p", transaction_timeout=1)) as producer,
                entered(producer.transaction()) as tx,
            ):
                await settled((await settled(tx.send("a", "x"))).result())
                for _ in range(5):
                    beaten.clear()
                    assert await asyncio.to_thread(beaten.wait, 10)

        run(kind, between.peer.url, scenario)
        assert len(between.asked("/heartbeat")) <= 6
    assert values(broker.url, "a") == ["x"]


# --- whatever is lost ---


def losing(seed: int, share: float) -> Any:
    chance = random.Random(seed)
    return lambda _: chance.random() < share


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_all_or_nothing_whatever_is_lost(broker: LocalBroker, kind: Any, seed: int) -> None:
    make(broker.url, "a", "b")
    chance = random.Random(seed)
    expected: list[str] = []
    with relay(broker.url, losing(seed, 0.25)) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for number in range(25):
                    sent = [f"{number}.{index}" for index in range(chance.randrange(5))]
                    async with entered(producer.transaction()) as tx:
                        for value in sent:
                            delivery = await settled(tx.send(chance.choice("ab"), value, key=value))
                            if chance.random() < 0.2:
                                await settled(delivery.result())
                        if chance.random() < 0.4:
                            await settled(tx.abort())
                            continue
                    expected.extend(sent)

        run(kind, between.peer.url, scenario)
        assert between.lost
    assert sorted(values(broker.url, "a") + values(broker.url, "b")) == sorted(expected), f"seed {seed}"


@KINDS
def test_each_message_has_its_effect_once_whatever_is_lost(tmp_path: Path, kind: Any) -> None:
    with LocalBroker(str(tmp_path), groups__max_retries="100") as broker:
        fill(broker.url, 60, partitions=2)
        lose_and_transform(broker, kind)
        assert Counter(values(broker.url, "out")) == dict.fromkeys(map(str, range(60)), 2)


def lose_and_transform(broker: LocalBroker, kind: Any) -> None:
    chance = random.Random(7)
    with relay(broker.url, losing(7, 0.15)) as between:

        async def scenario(client: Any) -> None:
            async with (
                entered(client.producer(transactional_id="p")) as producer,
                entered(client.consumer("g", "in", max_messages=8, visibility_timeout=1, **EAGER)) as consumer,
            ):
                while left(broker.url):
                    async for batch in each(consumer.batches()):
                        try:
                            async with entered(producer.transaction()) as tx:
                                tx.ack(batch)
                                await settled(tx.send_many("out", [message.value for message in batch]))
                                if chance.random() < 0.3:
                                    raise Failure
                        except (Failure, LeaseExpired):
                            continue

        run(kind, between.peer.url, scenario)
        assert between.lost
