"""Transactions of both clients with a broker: all of one is seen, or nothing of it, whatever happens meanwhile."""

import asyncio
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.client.transaction import TransactionalProducer
from goqueue.errors import (
    BrokerUnreachable,
    ProducerFenced,
    ProducerNotFound,
    RequestInvalid,
    TopicNotFound,
    TransactionAborted,
)
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, nobody
from tests.client.either import KINDS, each, entered, refused, run, settled
from tests.client.peers import Asked
from tests.client.relay import relay
from tests.client.test_interruptions import Interruption, interrupts

__all__ = ["broker", "interrupts", "nobody"]


def values(url: str, topic: str, **wishes: Any) -> list[str]:
    """All of them, in no order of partitions."""
    with Client(url) as client:
        return sorted((message.value or b"").decode() for message in client.reader(topic, **wishes))


def make(url: str, *topics: str, partitions: int = 2) -> None:
    with Client(url) as client:
        for topic in topics:
            client.create_topic(topic, partitions=partitions)


class Failure(Exception):
    """Of an application."""


# --- all of it, or nothing ---


@KINDS
def test_what_is_sent_in_a_transaction_is_seen_when_it_is_committed(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a", "b")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with entered(producer.transaction()) as tx:
                for number in range(5):
                    await settled(tx.send("a", f"{number}", key=f"{number}"))
                await settled(tx.send_many("b", ["x", "y"], partition=1))
                receipt = await settled((await settled(tx.send("b", "z", headers={"h": "1"}))).result())
                await settled(producer.flush())
                assert receipt.offset is not None
                assert (values(broker.url, "a"), values(broker.url, "b")) == ([], [])
            assert (values(broker.url, "a"), values(broker.url, "b")) == (list("01234"), list("xyz"))

    run(kind, broker.url, scenario)


@KINDS
def test_whoever_reads_what_is_not_committed_sees_all_of_it(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a", partitions=1)

    async def scenario(client: Any) -> None:
        async def seen(topic: str, **wishes: Any) -> list[bytes]:
            reader = await settled(client.reader(topic, **wishes))
            return [message.value async for message in each(reader)]

        async with entered(client.producer(transactional_id="p")) as producer:
            async with entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "aborted"))).result())
                await settled(tx.abort())
            async with entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "open"))).result())
                assert await seen("a", isolation="read_uncommitted") == [b"aborted", b"open"]
                assert await seen("a") == []
                async with entered(client.consumer("g", "a", isolation="read_uncommitted")) as consumer:
                    async for message in each(consumer):
                        message.ack()
                        if message.value == b"open":
                            break
            assert await seen("a") == [b"open"]
            with pytest.raises(RequestInvalid, match="isolation"):
                await settled(client.reader("a", isolation="serializable"))
            with pytest.raises(RequestInvalid, match="isolation"):
                client.consumer("g", "a", isolation="serializable")

    run(kind, broker.url, scenario)


@KINDS
def test_an_exception_aborts_and_goes_on(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(Failure), entered(producer.transaction()) as tx:
                await settled(tx.send("a", "never"))
                await settled(producer.flush())
                await settled(tx.send("a", "neither"))
                raise Failure("no good")
            async with entered(producer.transaction()) as tx:
                await settled(tx.send("a", "then"))
        assert (await settled(client.transaction("p")))["last"]["state"] == "complete_commit"
        assert values(broker.url, "a") == ["then"]

    run(kind, broker.url, scenario)


@KINDS
def test_operators_are_told_why_a_block_was_aborted(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> Any:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(Failure), entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "never"))).result())
                raise Failure("no good")
            return (await settled(client.transaction("p")))["last"]

    assert "Failure: no good" in run(kind, broker.url, scenario)["reason"]


@KINDS
def test_many_transactions_follow_each_other(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        ids: list[str] = []
        async with entered(client.producer(transactional_id="p")) as producer:
            for number in range(20):
                async with entered(producer.transaction()) as tx:
                    delivery = await settled(tx.send("a", f"{number:02}", key=f"{number}"))
                    if number % 2:
                        await settled(delivery.result())
                        await settled(tx.abort("it is odd"))
                ids.append(tx.id)
        producer_id = ids[0].partition("-")[0]
        assert ids == [f"{producer_id}-{number}" for number in range(20)]
        assert values(broker.url, "a") == [f"{number:02}" for number in range(0, 20, 2)]
        stats = await settled(client.transaction_stats())
        assert (stats["committed_total"], stats["aborted_total"]) == (10, 10)

    run(kind, broker.url, scenario)


@KINDS
def test_delays_and_priorities_are_as_of_any_message(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a", partitions=1)

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p", compression="zstd")) as producer:
            for end in ("abort", "commit"):
                async with entered(producer.transaction()) as tx:
                    await settled(tx.send("a", f"{end} soon", "k", {"h": "1"}, priority="high", delay="50ms"))
                    await settled(tx.send_many("a", [end + "w" * 100], priority=3, headers={"h": "2"}))
                    await settled(getattr(tx, end)())

    run(kind, broker.url, scenario)
    with Client(broker.url) as client, client.reader("a", follow=True) as reader:
        at_once, later = islice(reader, 2)
        assert (at_once.value, at_once.priority, at_once.headers) == (b"commit" + b"w" * 100, 3, [("h", b"2")])
        assert (later.value, later.priority, later.headers) == (b"commit soon", 1, [("h", b"1")])
        assert later.key == b"k"


@KINDS
def test_an_empty_transaction_asks_the_broker_nothing(broker: LocalBroker, kind: Any) -> None:
    ids: set[str] = set()
    with relay(broker.url) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for _ in range(3):
                    async with entered(producer.transaction()) as tx:
                        ids.add(tx.id)

        run(kind, between.peer.url, scenario)
        assert [asked.target for asked in between.peer.asked] == ["/producers/init"]
    assert len(ids) == 1


@KINDS
def test_a_small_transaction_takes_two_requests(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")
    with relay(broker.url) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for _ in range(2):
                    async with entered(producer.transaction()) as tx:
                        for number in range(10):
                            await settled(tx.send("a", f"{number}", partition=number % 2))

        run(kind, between.peer.url, scenario)
        assert [asked.target.partition("?")[0] for asked in between.peer.asked if asked.method == "POST"] == [
            "/producers/init",
            *["/topics/a/messages", "/transactions/commit"] * 2,
        ]


# --- what fails ---


@KINDS
def test_a_message_that_failed_aborts_the_others_at_the_commit(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a", "b")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(TopicNotFound), entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "first"))).result())
                await settled((await settled(tx.send("b", "known"))).result())
                await settled(client.delete_topic("b"))
                await settled(tx.send("b", "gone"))
            async with entered(producer.transaction()) as tx:
                await settled(tx.send("a", "second"))

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["second"]


@KINDS
def test_nothing_more_is_taken_once_something_has_failed(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a", "b")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(TopicNotFound), entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("b", "known"))).result())
                await settled(client.delete_topic("b"))
                failed = await settled((await settled(tx.send("b", "gone"))).exception())
                assert isinstance(failed, TopicNotFound)
                await settled(tx.send("a", "in vain"))
            await settled(producer.close())

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == []


@KINDS
def test_a_message_that_is_refused_at_the_call_spoils_nothing(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            entered(producer.transaction()) as tx,
        ):
            with pytest.raises(RequestInvalid):
                await settled(tx.send("a", {"no": "bytes"}))
            await settled(tx.send("a", "fine"))

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["fine"]


@KINDS
def test_an_abort_that_fails_does_not_hide_the_exception(tmp_path: Path, kind: Any) -> None:
    local = LocalBroker(str(tmp_path)).start()
    make(local.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with refused(Failure) as error, entered(producer.transaction()) as tx:
                await settled((await settled(tx.send("a", "lost"))).result())
                local.stop()
                raise Failure("the application's own")
            assert "could not be aborted" in "".join(error.value.__notes__)

    run(kind, local.url, scenario, timeout="300ms")


# --- one after the other, inside of its block ---


@KINDS
def test_one_transaction_at_a_time(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            later = producer.transaction()
            with pytest.raises(RequestInvalid, match="has not begun"):
                await settled(later.send("a", "x"))
            async with entered(producer.transaction()) as tx:
                with pytest.raises(RequestInvalid, match="one at a time"):
                    producer.transaction()
                async with refused(RequestInvalid, match="one at a time"), entered(later):
                    raise AssertionError
                await settled(tx.send("a", "x"))
            with pytest.raises(RequestInvalid, match=f"{tx.id} is over"):
                await settled(tx.send("a", "y"))
            async with refused(RequestInvalid, match=f"{tx.id} is over"), entered(tx):
                raise AssertionError
            with pytest.raises(RequestInvalid, match="in transactions only") as error:
                await settled(producer.send("a", "y"))
            assert "tx.send" in (error.value.hint or "")

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["x"]


@KINDS
def test_a_producer_without_a_transactional_id_has_no_transactions(broker: LocalBroker, kind: Any) -> None:
    async def scenario(client: Any) -> None:
        async with entered(client.producer()) as producer:
            with pytest.raises(RequestInvalid, match="no transactional_id") as error:
                producer.transaction()
            assert "transactional_id=" in (error.value.hint or "")

    run(kind, broker.url, scenario)


@KINDS
def test_closing_the_producer_inside_of_a_block_aborts(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        producer = client.producer(transactional_id="p")
        async with refused(TransactionAborted, match="closed"), entered(producer.transaction()) as tx:
            await settled((await settled(tx.send("a", "x"))).result())
            await settled(producer.close())
        with pytest.raises(RequestInvalid, match="closed"):
            producer.transaction()
        assert (await settled(client.transaction("p")))["last"]["state"] == "complete_abort"

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == []


def test_a_task_that_is_cancelled_in_its_block_aborts(broker: LocalBroker) -> None:
    make(broker.url, "a")

    async def scenario(client: AsyncClient) -> None:
        sent = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as tx:
                await (await tx.send("a", "x"))
                sent.set()
                await asyncio.Event().wait()

        async with client.producer(transactional_id="p") as producer:
            task = asyncio.create_task(work())
            await sent.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.transaction("p"))["last"]["state"] == "complete_abort"
            async with producer.transaction() as tx:
                await tx.send("a", "y")

    run(AsyncClient, broker.url, scenario)
    assert values(broker.url, "a") == ["y"]


# --- who takes over, and who ends it ---


@KINDS
def test_whoever_takes_the_id_fences_the_one_before(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as former:
            async with refused(ProducerFenced), entered(former.transaction()) as tx:
                await settled((await settled(tx.send("a", "former"))).result())
                async with (
                    entered(client.producer(transactional_id="p")) as latter,
                    entered(latter.transaction()) as other,
                ):
                    await settled(other.send("a", "latter"))
                await settled(tx.send("a", "former"))
            for use in (former.transaction, lambda: former.send("a", "x")):
                with pytest.raises(ProducerFenced):
                    await settled(use())

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["latter"]


@KINDS
def test_an_operator_lists_and_aborts_transactions(broker: LocalBroker, kind: Any) -> None:
    make(broker.url, "a")

    async def scenario(client: Any) -> None:
        async with entered(client.producer(transactional_id="p")) as producer:
            async with (
                refused(TransactionAborted, match="it was in the way") as error,
                entered(producer.transaction()) as tx,
            ):
                await settled((await settled(tx.send("a", "x", partition=1))).result())
                (one,) = await settled(client.transactions())
                assert (one["transaction_id"], one["state"], one["held_back"]) == (tx.id, "ongoing", 1)
                assert [spot["partition"] for spot in one["partitions"]] == [1]
                whose = one["transactional_id"], one["producer_id"], one["epoch"]
                ended = await settled(client.abort_transaction(*whose, reason="it was in the way"))
                assert ended["state"] == "complete_abort"
            assert error.value.details["transaction_id"] == tx.id
            assert await settled(client.transactions()) == []
            (one,) = await settled(client.transactions("all", "p", limit=5))
            assert one["last"]["reason"] == "it was in the way"
            async with entered(producer.transaction()) as tx:
                await settled(tx.send("a", "y"))
        with pytest.raises(ProducerNotFound):
            await settled(client.transaction("q"))
        assert await settled(client.transactions(transactional_id="q")) == []

    run(kind, broker.url, scenario)
    assert values(broker.url, "a") == ["y"]


# --- threads, and what ends them ---


def test_several_threads_send_in_one_transaction(broker: LocalBroker) -> None:
    make(broker.url, "a", "b")
    with Client(broker.url) as client, client.producer(transactional_id="p") as producer:
        with producer.transaction() as tx, ThreadPoolExecutor(4) as threads:
            for number in range(200):
                threads.submit(tx.send, "ab"[number % 2], f"{number}", key=f"{number}")
        found = values(broker.url, "a") + values(broker.url, "b")
    assert Counter(found) == dict.fromkeys(map(str, range(200)), 1)


@pytest.mark.parametrize("part", ["/topics/a/messages?", "/transactions/commit"])
def test_a_commit_that_is_interrupted_leaves_a_producer_that_can_be_used(
    broker: LocalBroker, interrupts: int, part: str
) -> None:
    make(broker.url, "a")
    interrupted: list[str] = []

    def interrupt(asked: Asked) -> None:
        if part in asked.target and not interrupted:
            interrupted.append(asked.target)
            os.kill(os.getpid(), interrupts)

    with relay(broker.url) as between, Client(between.peer.url) as client:
        between.before = interrupt
        with client.producer(transactional_id="p") as producer:
            with pytest.raises(Interruption):
                in_one(producer, "interrupted")
            in_one(producer, "then")
            assert client.transactions() == []
    assert values(broker.url, "a")[-1] == "then"


def in_one(producer: TransactionalProducer, value: str) -> None:
    with producer.transaction() as tx:
        tx.send("a", value)


def test_in_a_child_the_transaction_is_the_parents(broker: LocalBroker) -> None:
    make(broker.url, "a")
    with Client(broker.url) as client, client.producer(transactional_id="p") as producer:
        with producer.transaction() as tx:
            tx.send("a", "parent").result()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    tx.commit()
                except RequestInvalid as error:
                    status = 0 if "forked" in error.sentence else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
        assert values(broker.url, "a") == ["parent"]


@KINDS
def test_where_nobody_answers_a_transaction_cannot_be_begun(nobody: str, kind: Any) -> None:
    async def scenario(client: Any) -> None:
        async with (
            entered(client.producer(transactional_id="p")) as producer,
            refused(BrokerUnreachable),
            entered(producer.transaction()),
        ):
            raise AssertionError

    run(kind, nobody, scenario, timeout="300ms")
