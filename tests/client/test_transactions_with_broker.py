"""Transactions of both clients with a broker: all of one is seen, or nothing of it, whatever happens meanwhile."""

import asyncio
import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.client._async import transaction as async_transaction
from goqueue.client._sync import transaction as sync_transaction
from goqueue.client._sync.transaction import TransactionalProducer
from goqueue.errors import (
    ProducerFenced,
    ProducerNotFound,
    RequestInvalid,
    TopicNotFound,
    TransactionAborted,
)
from goqueue.testing.broker import LocalBroker
from tests.client.bridge import Interruption, refused
from tests.client.peers import Asked
from tests.client.relay import relay


def values(url: str, topic: str, **options: Any) -> list[str]:
    """All of them, in no order of partitions."""
    with Client(url) as client:
        return sorted((message.value or b"").decode() for message in client.reader(topic, **options))


def make(url: str, *topics: str, partitions: int = 2) -> None:
    with Client(url) as client:
        for topic in topics:
            client.create_topic(topic, partitions=partitions)


@pytest.fixture
def broker(broker: LocalBroker) -> LocalBroker:
    """A fresh broker with the topics `a` and `b`."""
    make(broker.url, "a", "b")
    return broker


class Failure(Exception):
    """An error of an application."""


# --- all of it, or nothing ---


def test_what_is_sent_in_a_transaction_is_seen_when_it_is_committed(
    broker: LocalBroker, producer: TransactionalProducer
) -> None:
    with producer.transaction() as tx:
        for number in range(5):
            tx.send("a", f"{number}", key=f"{number}")
        tx.send_many("b", ["x", "y"], partition=1)
        receipt = tx.send("b", "z", headers={"h": "1"}).result()
        producer.flush()
        assert receipt.offset is not None
        assert (values(broker.url, "a"), values(broker.url, "b")) == ([], [])
    assert (values(broker.url, "a"), values(broker.url, "b")) == (list("01234"), list("xyz"))


def test_read_uncommitted_returns_open_and_aborted_messages(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    make(broker.url, "one", partitions=1)

    def seen(topic: str, **options: Any) -> list[bytes | None]:
        reader = connected.reader(topic, **options)
        return [message.value for message in reader]

    with producer.transaction() as tx:
        tx.send("one", "aborted").result()
        tx.abort()
    with producer.transaction() as tx:
        tx.send("one", "open").result()
        assert seen("one", isolation="read_uncommitted") == [b"aborted", b"open"]
        assert seen("one") == []
        with connected.consumer("g", "one", isolation="read_uncommitted") as consumer:
            for message in consumer:
                message.ack()
                if message.value == b"open":
                    break
    assert seen("one") == [b"open"]
    with pytest.raises(RequestInvalid, match="isolation"):
        connected.reader("one", isolation="serializable")  # type: ignore[arg-type]
    with pytest.raises(RequestInvalid, match="isolation"):
        connected.consumer("g", "one", isolation="serializable")  # type: ignore[arg-type]


def test_an_exception_aborts_and_goes_on(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    with refused(Failure), producer.transaction() as tx:
        tx.send("a", "never")
        producer.flush()
        tx.send("a", "neither")
        raise Failure("no good")
    assert "Failure: no good" in connected.transaction("p")["last"]["reason"]
    with producer.transaction() as tx:
        tx.send("a", "then")
    assert connected.transaction("p")["last"]["state"] == "complete_commit"
    assert values(broker.url, "a") == ["then"]


def test_transactional_messages_keep_delay_and_priority(
    broker: LocalBroker, blocking: Client, connected: Client
) -> None:
    make(broker.url, "one", partitions=1)
    with connected.producer(transactional_id="p", compression="zstd") as producer:
        for end in ("abort", "commit"):
            with producer.transaction() as tx:
                tx.send("one", f"{end} soon", "k", {"h": "1"}, priority="high", delay="50ms")
                tx.send_many("one", [end + "w" * 100], priority=3, headers={"h": "2"})
                getattr(tx, end)()
    with blocking.reader("one", follow=True) as reader:
        at_once, later = islice(reader, 2)
        assert (at_once.value, at_once.priority, at_once.headers) == (b"commit" + b"w" * 100, 3, [("h", b"2")])
        assert (later.value, later.priority, later.headers) == (b"commit soon", 1, [("h", b"1")])
        assert later.key == b"k"


def test_a_small_transaction_takes_two_requests(broker: LocalBroker, client_class: type[Client]) -> None:
    with relay(broker.url) as between:
        # The end of a transaction waits for no linger, which only gathers what a slow machine sends in pieces.
        options: Any = {"transactional_id": "p", "linger": "10s"}
        with client_class(between.peer.url) as client, client.producer(**options) as producer:
            for _ in range(2):
                with producer.transaction() as tx:
                    for number in range(10):
                        tx.send("a", f"{number}", partition=number % 2)
        assert [asked.target.partition("?")[0] for asked in between.peer.asked if asked.method == "POST"] == [
            "/producers/init",
            *["/topics/a/messages", "/transactions/commit"] * 2,
        ]


# --- what fails ---


def test_a_message_that_failed_aborts_the_others_at_the_commit(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    with refused(TopicNotFound), producer.transaction() as tx:
        tx.send("a", "first").result()
        tx.send("b", "known").result()
        connected.delete_topic("b")
        tx.send("b", "gone")
    with producer.transaction() as tx:
        tx.send("a", "second")
    assert values(broker.url, "a") == ["second"]


def test_a_message_that_is_refused_at_the_call_spoils_nothing(
    broker: LocalBroker, producer: TransactionalProducer
) -> None:
    with producer.transaction() as tx:
        with pytest.raises(RequestInvalid):
            tx.send("a", {"no": "bytes"})  # type: ignore[arg-type]
        tx.send("a", "fine")
    assert values(broker.url, "a") == ["fine"]


def test_an_abort_that_fails_does_not_hide_the_exception(
    tmp_path: Path, client_class: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_transaction, sync_transaction):
        monkeypatch.setattr(module, "ABORT_SECONDS", 0.3)
    local = LocalBroker(str(tmp_path)).start()
    make(local.url, "a")
    with client_class(local.url) as client, client.producer(transactional_id="p") as producer:
        with refused(Failure) as error, producer.transaction() as tx:
            tx.send("a", "lost").result()
            local.stop()
            raise Failure("the application's own")
        assert "could not be aborted" in "".join(error.value.__notes__)


# --- one after the other, inside of its block ---


def test_one_transaction_at_a_time(broker: LocalBroker, producer: TransactionalProducer) -> None:
    later = producer.transaction()
    with pytest.raises(RequestInvalid, match="has not begun"):
        later.send("a", "x")
    with producer.transaction() as tx:
        with pytest.raises(RequestInvalid, match="one at a time"):
            producer.transaction()
        with pytest.raises(RequestInvalid, match="one at a time"), later:
            raise AssertionError
        tx.send("a", "x")
    with pytest.raises(RequestInvalid, match=f"{tx.id} is over"):
        tx.send("a", "y")
    with pytest.raises(RequestInvalid, match=f"{tx.id} is over"), tx:
        raise AssertionError
    with pytest.raises(RequestInvalid, match="in transactions only") as error:
        producer.send("a", "y")
    assert "tx.send" in (error.value.hint or "")
    assert values(broker.url, "a") == ["x"]


def test_a_producer_without_a_transactional_id_has_no_transactions(connected: Client) -> None:
    with connected.producer() as producer:
        with pytest.raises(RequestInvalid, match="no transactional_id") as error:
            producer.transaction()
        assert "transactional_id=" in (error.value.hint or "")


def test_closing_the_producer_inside_of_a_block_aborts(broker: LocalBroker, connected: Client) -> None:
    producer = connected.producer(transactional_id="p")
    with refused(TransactionAborted, match="closed"), producer.transaction() as tx:
        tx.send("a", "x").result()
        producer.close()
    with pytest.raises(RequestInvalid, match="closed"):
        producer.transaction()
    assert connected.transaction("p")["last"]["state"] == "complete_abort"
    assert values(broker.url, "a") == []


def test_a_task_that_is_cancelled_in_its_block_aborts(broker: LocalBroker) -> None:

    async def scenario() -> None:
        sent = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as tx:
                await (await tx.send("a", "x"))
                sent.set()
                await asyncio.Event().wait()

        async with AsyncClient(broker.url) as client, client.producer(transactional_id="p") as producer:
            task = asyncio.create_task(work())
            await sent.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.transaction("p"))["last"]["state"] == "complete_abort"
            async with producer.transaction() as tx:
                await tx.send("a", "y")

    asyncio.run(scenario())
    assert values(broker.url, "a") == ["y"]


# --- who takes over, and who ends it ---


def test_new_producer_with_the_same_id_fences_the_old_one(broker: LocalBroker, connected: Client) -> None:
    with connected.producer(transactional_id="p") as former:
        with refused(ProducerFenced), former.transaction() as tx:
            tx.send("a", "former").result()
            with (
                connected.producer(transactional_id="p") as latter,
                latter.transaction() as other,
            ):
                other.send("a", "latter")
            tx.send("a", "former")
        for use in (former.transaction, lambda: former.send("a", "x")):
            with pytest.raises(ProducerFenced):
                use()
    assert values(broker.url, "a") == ["latter"]


def test_an_operator_lists_and_aborts_transactions(
    broker: LocalBroker, connected: Client, producer: TransactionalProducer
) -> None:
    with (
        refused(TransactionAborted, match="it was in the way") as error,
        producer.transaction() as tx,
    ):
        tx.send("a", "x", partition=1).result()
        (one,) = connected.transactions()
        assert (one["transaction_id"], one["state"], one["held_back"]) == (tx.id, "ongoing", 1)
        assert [log_ref["partition"] for log_ref in one["partitions"]] == [1]
        whose = one["transactional_id"], one["producer_id"], one["epoch"]
        ended = connected.abort_transaction(*whose, reason="it was in the way")
        assert ended["state"] == "complete_abort"
    assert error.value.details["transaction_id"] == tx.id
    assert connected.transactions() == []
    (one,) = connected.transactions("all", "p", limit=5)
    assert one["last"]["reason"] == "it was in the way"
    with producer.transaction() as tx:
        tx.send("a", "y")
    with pytest.raises(ProducerNotFound):
        connected.transaction("q")
    assert connected.transactions(transactional_id="q") == []
    assert values(broker.url, "a") == ["y"]


# --- threads, and what ends them ---


@pytest.mark.parametrize("part", ["/topics/a/messages?", "/transactions/commit"])
def test_a_commit_that_is_interrupted_leaves_a_producer_that_can_be_used(
    broker: LocalBroker, interrupts: int, part: str
) -> None:
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


def test_in_a_child_the_transaction_is_the_parents(broker: LocalBroker, blocking: Client) -> None:
    with blocking.producer(transactional_id="p") as producer:
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
