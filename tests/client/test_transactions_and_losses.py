"""Transactions of both clients while answers are lost, brokers are restarted and a client is silent for long."""

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client.transaction_core import BEATS
from goqueue.errors import GoQueueError, LeaseExpired, ProducerFenced, TransactionAborted
from goqueue.testing.broker import LocalBroker
from tests.client.bridge import refused
from tests.client.peers import Asked, Reply, refusal
from tests.client.relay import once, relay
from tests.client.test_transactional_groups import EAGER, fill, left
from tests.client.test_transactions_with_broker import Failure, make, values
from tests.client.test_with_broker import successor


@pytest.fixture
def broker(broker: LocalBroker) -> LocalBroker:
    """A fresh broker with the topics `a` and `b`."""
    make(broker.url, "a", "b")
    return broker


# --- answers that are lost ---


LOSSES = ["/producers/init", "/topics/a/messages?", "/transactions/commit"]


@pytest.mark.parametrize("part", LOSSES)
def test_an_answer_that_is_lost_changes_nothing(broker: LocalBroker, client_class: type[Client], part: str) -> None:
    with relay(broker.url, once(part)) as between:
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            for number in range(3):
                with producer.transaction() as tx:
                    tx.send_many("a", [f"{number}a", f"{number}b"], partition=0)
        assert len(between.lost) == 1
    assert values(broker.url, "a") == ["0a", "0b", "1a", "1b", "2a", "2b"]


def test_an_abort_whose_answer_is_lost_is_one(broker: LocalBroker, client_class: type[Client]) -> None:
    with relay(broker.url, once("/transactions/abort")) as between:
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            with producer.transaction() as tx:
                tx.send("a", "never").result()
                tx.abort()
            with producer.transaction() as tx:
                tx.send("a", "then")
        assert len(between.asked("/transactions/abort")) == 2
        assert len(between.asked("/producers/init")) == 1
    assert values(broker.url, "a") == ["then"]


def test_an_epoch_that_is_given_and_lost_is_given_again(broker: LocalBroker, client_class: type[Client]) -> None:
    """The next epoch is asked for after an abort by an operator, and the first answer does not arrive."""
    asked_once: list[str] = []

    def loses(asked: Asked) -> bool:
        if asked.target == "/producers/init":
            asked_once.append(asked.target)
        return len(asked_once) == 2 and asked.target == "/producers/init"

    with relay(broker.url, loses) as between:
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            with refused(TransactionAborted), producer.transaction() as tx:
                tx.send("a", "never").result()
                producer_id, epoch = map(int, tx.id.split("-"))
                client.abort_transaction("p", producer_id, epoch)
            with producer.transaction() as tx:
                tx.send("a", "then")
        assert len(asked_once) == 3
    assert values(broker.url, "a") == ["then"]


def test_a_producer_that_was_replaced_does_not_take_its_id_back(broker: LocalBroker, connected: Client) -> None:
    """Not even where its own transaction had been aborted before."""
    with connected.producer(transactional_id="p") as former:
        tx = former.transaction()
        tx.__enter__()
        tx.send("a", "former").result()
        producer_id, epoch = map(int, tx.id.split("-"))
        connected.abort_transaction("p", producer_id, epoch)
        with connected.producer(transactional_id="p") as latter:
            with latter.transaction() as other:
                other.send("a", "latter")
            with pytest.raises(GoQueueError):
                tx.commit()
            with refused(ProducerFenced), former.transaction():
                raise AssertionError
            with latter.transaction() as other:
                other.send("a", "still there")
    assert values(broker.url, "a") == ["latter", "still there"]


def test_a_publication_that_comes_after_the_abort_is_of_no_transaction(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    """The request that was to begin it is held back on its way, until the next transaction is open."""
    on_its_way, go_on = threading.Event(), threading.Event()

    def hold(asked: Asked) -> None:
        if "begin=true" in asked.target and not on_its_way.is_set():
            on_its_way.set()
            go_on.wait()

    with relay(broker.url) as between:
        between.before = hold
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            with producer.transaction() as tx:
                tx.send("a", "late")
                on_its_way.wait()
                tx.abort()
            go_on.set()
            with producer.transaction() as tx:
                tx.send("a", "then")
    assert values(broker.url, "a") == ["then"]


def test_an_end_that_is_still_being_carried_out_is_asked_for_again(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    with relay(broker.url) as between:

        def pending(asked: Asked) -> Reply:
            is_new = "/transactions/" in asked.target and asked.target not in answered
            answered.add(asked.target)
            return refusal("transaction_pending", 503) if is_new else None

        answered: set[str] = set()
        between.instead = pending
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            for end in ("abort", "commit"):
                with producer.transaction() as tx:
                    tx.send("a", end).result()
                    getattr(tx, end)()
        assert len(between.asked("/transactions/")) == 4
    assert values(broker.url, "a") == ["commit"]


# --- restarts ---


def test_a_restart_in_the_middle_aborts_and_the_next_transaction_goes_on(
    tmp_path: Path, client_class: type[Client], kept_port: str
) -> None:
    first = LocalBroker(str(tmp_path), server__port=kept_port).start()
    make(first.url, "a")
    with client_class(first.url) as client, client.producer(transactional_id="p") as producer:
        with refused(TransactionAborted) as error, producer.transaction() as tx:
            tx.send("a", "before").result()
            second = successor(first, str(tmp_path)).start()
            tx.send("a", "after")
        assert error.value.details["reason"] == "restart"
        try:
            with producer.transaction() as tx:
                tx.send("a", "then")
            assert values(second.url, "a") == ["then"]
        finally:
            second.stop()


def test_a_commit_whose_answer_was_lost_with_the_broker_is_known_afterwards(
    tmp_path: Path, client_class: type[Client], kept_port: str
) -> None:
    first = LocalBroker(str(tmp_path), server__port=kept_port).start()
    make(first.url, "a")
    later: list[LocalBroker] = []

    def restart(asked: Asked) -> bool:
        """Loses the answer to the first commit together with the broker."""
        if "/transactions/commit" in asked.target and not later:
            later.append(successor(first, str(tmp_path)).start())
            return True
        return False

    with relay(first.url, restart) as between:
        try:
            with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
                for value in ("first", "second"):
                    with producer.transaction() as tx:
                        tx.send("a", value, partition=0)
            assert len(between.lost) == 1
            assert values(first.url, "a") == ["first", "second"]
        finally:
            later[0].stop()


# --- heartbeats ---


OPEN_SECONDS = 2


def test_an_open_transaction_is_kept_alive_and_an_idle_producer_says_nothing(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    beaten = threading.Event()

    def look(asked: Asked) -> None:
        if asked.target.endswith("/heartbeat"):
            beaten.set()

    with relay(broker.url) as between:
        between.before = look
        with (
            client_class(between.peer.url) as client,
            client.producer(transactional_id="p", transaction_timeout=OPEN_SECONDS) as producer,
            producer.transaction() as tx,
        ):
            begun = time.monotonic()
            tx.send("a", "x").result()
            for _ in range(BEATS + 1):  # longer than the timeout
                beaten.clear()
                assert beaten.wait(60)
        lasted = time.monotonic() - begun
        assert len(between.asked("/heartbeat")) <= 2 + lasted * BEATS / OPEN_SECONDS
    assert values(broker.url, "a") == ["x"]


# --- whatever is lost ---


def losing(seed: int, share: float) -> Any:
    chance = random.Random(seed)
    return lambda _: chance.random() < share


@pytest.mark.parametrize("seed", range(3))
def test_all_or_nothing_whatever_is_lost(broker: LocalBroker, client_class: type[Client], seed: int) -> None:
    chance = random.Random(seed)
    expected: list[str] = []
    with relay(broker.url, losing(seed, 0.25)) as between:
        with client_class(between.peer.url) as client, client.producer(transactional_id="p") as producer:
            for number in range(25):
                sent = [f"{number}.{index}" for index in range(chance.randrange(5))]
                with producer.transaction() as tx:
                    for value in sent:
                        delivery = tx.send(chance.choice("ab"), value, key=value)
                        if chance.random() < 0.2:
                            delivery.result()
                    if chance.random() < 0.4:
                        tx.abort()
                        continue
                expected.extend(sent)
        assert between.lost
    assert sorted(values(broker.url, "a") + values(broker.url, "b")) == sorted(expected), f"seed {seed}"


def test_each_message_has_its_effect_once_whatever_is_lost(tmp_path: Path, client_class: type[Client]) -> None:
    with LocalBroker(str(tmp_path), groups__max_retries="100") as broker:
        fill(broker.url, 60, partitions=2)
        lose_and_transform(broker, client_class)
        assert Counter(values(broker.url, "out")) == dict.fromkeys(map(str, range(60)), 2)


def lose_and_transform(broker: LocalBroker, client_class: type[Client]) -> None:
    chance = random.Random(7)
    with relay(broker.url, losing(7, 0.15)) as between:
        with (
            client_class(between.peer.url) as client,
            client.producer(transactional_id="p") as producer,
            client.consumer("g", "in", max_messages=8, visibility_timeout=1, **EAGER) as consumer,
        ):
            while left(broker.url):
                for batch in consumer.batches():
                    try:
                        with producer.transaction() as tx:
                            tx.ack(batch)
                            tx.send_many("out", [message.value for message in batch])
                            if chance.random() < 0.3:
                                raise Failure
                    except (Failure, LeaseExpired):
                        continue
        assert between.lost
