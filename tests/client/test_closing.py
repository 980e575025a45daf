"""Calls that meet a closing or a full producer: what was taken is delivered, what was not is told."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from goqueue.client import AsyncClient, Client, ProducerArguments
from goqueue.errors import BrokerOverloaded, BrokerStopping, GoQueueError, RequestInvalid, RequestTimedOut
from tests.client.peers import Asked, Peer, Reply, peer, reply
from tests.client.test_producer import TIME, Log

NARROW: ProducerArguments = {"buffer_bytes": 200_000, "request_bytes": 100_000, "max_block": 0.02}
MANY = [b"%03d" % number + bytes(997) for number in range(600)]
"""Three times what fits a narrow producer."""


class SlowLog(Log):
    """A topic whose description may be held back."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for = threading.Event()
        self.described = threading.Event()
        self.described.set()

    def answer(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            self.asked_for.set()
            self.described.wait()
        return super().answer(asked)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Meanwhile nothing is acknowledged."""
        self.hold.clear()
        try:
            yield
        finally:
            self.hold.set()


@pytest.fixture
def log() -> SlowLog:
    return SlowLog()


@pytest.fixture
def server(log: SlowLog) -> Iterator[Peer]:
    with peer(log.answer) as made:
        yield made
        log.hold.set()
        log.described.set()


# --- a call that meets the end ---


@pytest.mark.parametrize("call", ["send", "send_many"])
def test_send_during_close_is_refused(client: Client, log: SlowLog, call: str) -> None:
    log.described.clear()
    producer = client.producer()
    refusals: list[GoQueueError] = []

    def send() -> None:
        try:
            getattr(producer, call)("t", b"x" if call == "send" else [b"x"])
        except GoQueueError as error:
            refusals.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    log.asked_for.wait()
    producer.close()
    log.described.set()
    thread.join()
    assert [str(error) for error in refusals] == ["this producer is closed"]
    assert producer.buffered_bytes == 0


def test_wait_fails_when_the_producer_task_has_ended(server: Peer, log: SlowLog) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            producer = client.producer(linger=60)
            delivery = await producer.send("t", "x")
            (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "goqueue-producer")
            task.cancel()
            assert isinstance(await delivery.exception(), BrokerStopping)
            with pytest.raises(RequestInvalid, match="closed"):
                await producer.send("t", "y")

    asyncio.run(main())
    assert log.values == []


# --- a call of which only a part finds room ---


def test_send_many_fails_messages_without_room(client: Client, log: SlowLog) -> None:
    told: list[bool] = []
    with client.producer(**NARROW) as producer:
        with log.holding():
            deliveries = producer.send_many("t", MANY, on_delivery=lambda one: told.append(one.offset is None))
            assert set(told) == {True}
        failed = deliveries.exceptions()
        taken = len(MANY) - len(failed)
        assert list(failed) == list(range(taken, len(MANY)))
        assert {type(error) for error in failed.values()} == {BrokerOverloaded}
        assert (len(deliveries), deliveries.done()) == (len(MANY), True)
        with pytest.raises(BrokerOverloaded):
            deliveries.result()
    assert 0 < taken < len(MANY)
    assert log.values == MANY[:taken]
    assert (told.count(True), told.count(False)) == (len(failed), taken)


def test_flush_reports_messages_that_found_no_room(client: Client, log: SlowLog) -> None:
    with client.producer(**NARROW) as producer:
        with log.holding():
            producer.send_many("t", MANY)
        with pytest.raises(BrokerOverloaded) as error:
            producer.flush()
    assert error.value.details["failed"] == len(MANY) - len(log.values)


def test_send_many_is_refused_when_nothing_fits(client: Client, log: SlowLog) -> None:
    with client.producer(**NARROW) as producer, log.holding():
        producer.send_many("t", MANY[:190])
        with pytest.raises(BrokerOverloaded):
            producer.send_many("t", MANY)
    assert log.values == MANY[:190]


# --- what a delivery tells ---


def test_receipts_follow_split_offset_ranges(client: Client, log: SlowLog) -> None:
    place = {"partition": 0, "first_offset": 10, "next_offset": 25, "timestamp": TIME, "duplicate": True}
    log.troubles = [reply({"results": [{**place, "pieces": [[10, 12], [20, 25]]}]})]
    with client.producer() as producer:
        receipts = producer.send_many("t", [b"x"] * 7).result()
    assert [receipt.offset for receipt in receipts] == [10, 11, 20, 21, 22, 23, 24]


def test_repeated_waits_leave_no_waiters(client: Client, log: SlowLog) -> None:
    with client.producer(linger=60) as producer:
        with log.holding():
            delivery = producer.send("t", b"x")
            for _ in range(100):
                with pytest.raises(RequestTimedOut):
                    delivery.result(timeout=0)
            assert delivery._batch.waiters == []
        assert delivery.result().offset == 0


def test_batch_is_sent_after_a_timed_out_wait(client: Client, log: SlowLog) -> None:
    delivered = threading.Event()
    with client.producer(linger=60) as producer:
        with log.holding():
            delivery = producer.send("t", b"x", on_delivery=lambda _: delivered.set())
            with pytest.raises(RequestTimedOut):
                delivery.result(timeout=0)
        assert delivered.wait(60)
