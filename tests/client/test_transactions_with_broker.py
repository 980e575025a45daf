"""Transactions of both clients with a broker: all of one is seen, or nothing of it, whatever happens meanwhile."""

import asyncio
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.errors import (
    ProducerFenced,
    ProducerNotFound,
    RequestInvalid,
    TopicNotFound,
    TransactionAborted,
)
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.client.either import KINDS, entered, refused, run, settled
from tests.client.peers import Asked
from tests.client.relay import once, relay
from tests.client.test_with_broker import successor

__all__ = ["broker"]


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
        assert ids == [f"0-{number}" for number in range(20)]
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
    with relay(broker.url) as between:

        async def scenario(client: Any) -> None:
            async with entered(client.producer(transactional_id="p")) as producer:
                for _ in range(3):
                    async with entered(producer.transaction()) as tx:
                        assert tx.id == "0-0"

        run(kind, between.peer.url, scenario)
        assert [asked.target for asked in between.peer.asked] == ["/producers/init"]


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
