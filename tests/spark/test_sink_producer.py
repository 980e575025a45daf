"""A task that writes to a real broker: each message once, however often the task begins again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from goqueue.client import Client, address
from goqueue.client.api_request import ApiRequest
from goqueue.client.connection import Connection
from goqueue.client.publish_requests import SectionResult
from goqueue.client.servers import Servers
from goqueue.errors import BrokerOverloaded, ProducerFenced, SequenceOutOfOrder
from goqueue.limits import PRODUCER_WINDOW
from goqueue.spark.sink import producer
from goqueue.spark.sink.frames import EncodedFrames, MessageArrays, encode
from goqueue.spark.sink.producer import (
    EPOCHS,
    PartitionBuffer,
    PipelinedConnection,
    TaskIdentity,
    TaskProducer,
    stream_identity,
    write_identity,
)
from goqueue.testing.broker import LocalBroker
from tests.client.clusters import led_cluster, partitions_of
from tests.client.peers import Asked
from tests.client.relay import once, relay

WHO = write_identity("w", 0)
TIMEOUT = 30.0


def frames(first: int, end: int) -> EncodedFrames:
    return encode(MessageArrays(pa.array([b"%06d" % number for number in range(first, end)], pa.binary())))


@contextmanager
def attempt(
    url: str, who: TaskIdentity = WHO, wire: type[PipelinedConnection] = PipelinedConnection
) -> Iterator[TaskProducer]:
    with Client(url, TIMEOUT) as client:
        connection = Connection(Servers(address.parse_all(url)), TIMEOUT)
        try:
            yield TaskProducer(client, wire(connection, TIMEOUT), who, TIMEOUT)
        finally:
            connection.close()


@pytest.fixture
def small_requests(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Requests of so many frames of `frames`."""

    def cut(count: int) -> None:
        monkeypatch.setattr(producer, "REQUEST_BYTES", frames(0, 1).size * count)

    return cut


@pytest.fixture
def url(broker: LocalBroker) -> str:
    with Client(broker.url) as client:
        client.create_topic("orders", 3)
    return broker.url


def values(url: str, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    with Client(url) as client, client.reader(topic, partition) as reader:
        return [message.value for message in reader]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%06d" % number for number in range(first, end)]


def write(url: str, end: int, who: TaskIdentity = WHO, *, partition: int = 0) -> list[PartitionBuffer]:
    with attempt(url, who) as one:
        one.add("orders", partition, frames(0, end))
        return one.finish()


def test_messages_arrive_in_their_order_for_each_partition(url: str, small_requests: Callable[[int], None]) -> None:
    small_requests(7)
    with attempt(url) as one:
        for first in range(0, 100, 10):
            for partition in range(3):
                one.add("orders", partition, frames(first, first + 10))
        lanes = one.finish()
    assert [values(url, partition=partition) for partition in range(3)] == [numbered(0, 100)] * 3
    assert [(lane.count, lane.durable) for lane in lanes] == [(100, 100)] * 3


@pytest.mark.parametrize("stored", [1, 6, 7, 8, 50, 99, 100])
def test_an_attempt_that_died_is_completed_by_the_next_one(
    url: str, small_requests: Callable[[int], None], stored: int
) -> None:
    small_requests(7)
    write(url, stored)
    write(url, 100)
    assert values(url) == numbered(0, 100)


def test_write_goes_on_at_the_next_address_and_stores_nothing_twice(
    url: str, small_requests: Callable[[int], None]
) -> None:
    small_requests(7)
    with relay(url) as first, attempt(f"{first.peer.url},{url}") as one:
        one.add("orders", 0, frames(0, 50))
        first.loses = once("/messages")
        one.add("orders", 0, frames(50, 70))
        first.peer.close()
        one.add("orders", 0, frames(70, 100))
        one.finish()
    assert values(url) == numbered(0, 100)


def test_partitions_go_to_their_leaders_and_follow_them(url: str, small_requests: Callable[[int], None]) -> None:
    small_requests(12)
    with led_cluster(url, "orders", ["n1", "n2", "n3"]) as cluster:
        with attempt(",".join(cluster.urls)) as one:
            for first in range(0, 100, 10):
                for partition in range(3):
                    one.add("orders", partition, frames(first, first + 10))
                if first == 40:
                    refused = cluster.refusals
                    cluster.lose("n1", "n2")
            one.finish()
        assert refused <= 4
        assert cluster.refusals <= refused + 4
        assert {partition for one in cluster.nodes["n3"].asked("/messages") for partition in sent_to(one)} >= {2}
    assert [values(url, partition=partition) for partition in range(3)] == [numbered(0, 100)] * 3


def sent_to(asked: Asked) -> list[int]:
    return partitions_of(asked, asked.target.partition("?")[0])


@pytest.mark.parametrize("again", [5, 7, 11, 200])
def test_a_replay_beyond_the_batches_that_are_remembered_stores_nothing_twice(
    url: str, small_requests: Callable[[int], None], again: int
) -> None:
    small_requests(7)
    write(url, 7 * PRODUCER_WINDOW * 3)
    small_requests(again)
    (lane,) = write(url, 7 * PRODUCER_WINDOW * 3)
    assert values(url) == numbered(0, 105)
    assert (lane.count, lane.durable) == (105, 105)


def test_what_is_encoded_already_is_cut_where_an_answer_tells_of_more(
    url: str, small_requests: Callable[[int], None]
) -> None:
    small_requests(2)
    write(url, 14)
    small_requests(10)
    write(url, 100)
    assert values(url) == numbered(0, 100)


def test_partitions_that_got_more_than_others_are_completed_each(
    url: str, small_requests: Callable[[int], None]
) -> None:
    small_requests(30)
    with attempt(url) as one:
        for partition, end in enumerate((60, 31, 0)):
            one.add("orders", partition, frames(0, end)) if end else None
        one.finish()
    with attempt(url) as one:
        for first in range(0, 100, 10):
            for partition in range(3):
                one.add("orders", partition, frames(first, first + 10))
        one.finish()
    assert [values(url, partition=partition) for partition in range(3)] == [numbered(0, 100)] * 3


def test_two_attempts_at_the_same_time_store_once(url: str, small_requests: Callable[[int], None]) -> None:
    small_requests(10)
    with attempt(url) as one, attempt(url) as other:
        for first in range(0, 200, 5):
            one.add("orders", 0, frames(first, first + 5))
            if first >= 50:
                other.add("orders", 0, frames(first - 50, first - 45))
        for first in range(150, 200, 5):
            other.add("orders", 0, frames(first, first + 5))
        other.finish()
        one.finish()
    assert values(url) == numbered(0, 200)


def test_a_message_larger_than_a_request_goes_alone(url: str, small_requests: Callable[[int], None]) -> None:
    small_requests(2)
    large = b"x" * 10_000
    with attempt(url) as one:
        one.add("orders", 0, frames(0, 1))
        one.add("orders", 0, encode(MessageArrays(pa.array([large, large], pa.binary()))))
        one.add("orders", 0, frames(1, 2))
        one.finish()
    assert values(url) == [b"000000", large, large, b"000001"]


def test_sequences_go_on_behind_the_last_one(
    url: str, small_requests: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a task would after two thousand million messages, of which the broker has seen the last ones only."""
    small_requests(7)
    start = 2**31 - 50

    def lane(topic: str, partition: int) -> PartitionBuffer:
        return PartitionBuffer(topic, partition, count=start, gathered_from=start, stored=start)

    monkeypatch.setattr(producer, "PartitionBuffer", lane)
    write(url, 100)
    assert values(url) == numbered(0, 100)
    write(url, 120)
    assert values(url) == numbered(0, 120)


def test_a_later_micro_batch_begins_anew_and_shuts_out_the_earlier(url: str) -> None:
    write(url, 10, stream_identity("q", 0, 0))
    write(url, 5, stream_identity("q", 1, 0))
    assert values(url) == numbered(0, 10) + numbered(0, 5)
    with pytest.raises(ProducerFenced):
        write(url, 10, stream_identity("q", 0, 0))


def test_an_attempt_with_fewer_rows_than_are_stored_is_refused(url: str) -> None:
    write(url, 100)
    with pytest.raises(SequenceOutOfOrder, match="orders/0 has 100 messages of this task, which has 60"):
        write(url, 60)


def test_what_is_missing_in_the_log_is_not_passed_over(url: str) -> None:
    write(url, 10)
    with attempt(url) as one:
        lane = PartitionBuffer("orders", 0, count=20, gathered_from=20, stored=20)
        one._lanes["orders"] = {0: lane}
        one.add("orders", 0, frames(20, 30))
        with pytest.raises(SequenceOutOfOrder):
            one.finish()
    assert values(url) == numbered(0, 10)


def test_a_broker_that_starts_anew_is_waited_for(
    broker: LocalBroker, url: str, small_requests: Callable[[int], None]
) -> None:
    small_requests(7)
    port = url.rpartition(":")[2]
    with attempt(url) as one:
        one.add("orders", 0, frames(0, 50))
        broker.stop()
        again = LocalBroker(broker.daemon.store.path, server__port=port)
        with again:
            one.add("orders", 0, frames(50, 100))
            one.finish()
            assert values(url) == numbered(0, 100)


class Moody(PipelinedConnection):
    """It tells of the last section of each request that the broker was too busy for it."""

    def receive(self, call: ApiRequest[list[SectionResult]]) -> list[SectionResult]:
        *others, last = super().receive(call)
        if not others:
            return [last]
        return [*others, SectionResult(last.partition, error={"code": BrokerOverloaded.code, "error": "later"})]


def test_a_part_that_is_refused_for_now_is_sent_again_by_itself(
    url: str, small_requests: Callable[[int], None]
) -> None:
    small_requests(30)
    with attempt(url, wire=Moody) as one:
        for first in range(0, 100, 10):
            for partition in range(3):
                one.add("orders", partition, frames(first, first + 10))
        one.finish()
    assert [values(url, partition=partition) for partition in range(3)] == [numbered(0, 100)] * 3


def test_an_identity_is_the_same_for_the_same_task_and_another_for_every_other() -> None:
    same = [stream_identity("q", 3, 1), stream_identity("q", 3, 1)]
    others = [
        stream_identity("q", 3, 2),
        stream_identity("p", 3, 1),
        stream_identity("q", 3 + EPOCHS, 1),
        write_identity("q", 1),
    ]
    assert same[0] == same[1]
    assert len({one.producer for one in (same[0], *others)}) == 5
    assert all(2**62 <= one.producer < 2**63 and 0 <= one.epoch < EPOCHS for one in (*same, *others))
    assert (stream_identity("q", EPOCHS - 1, 0).epoch, stream_identity("q", EPOCHS, 0).epoch) == (EPOCHS - 1, 0)
