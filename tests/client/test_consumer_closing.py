"""The end of a consumer: stopping, leaving, and brokers that do not answer."""

import threading
import time
from itertools import islice
from typing import Any

import pytest

from goqueue.client import Client, Consumer, Delivered, TopicPartition
from goqueue.errors import BrokerUnreachable, RequestTimedOut
from tests.client.bridge import BridgedClient
from tests.client.group_peers import Group, group_of
from tests.client.peers import Asked, Reply

pytestmark = pytest.mark.over_httpx


@pytest.fixture
def group() -> Group:
    made = Group()
    made.publish(b"a", b"b")
    return made


def test_on_revoked_may_settle_when_the_consumer_closes(group: Group, thread_client: Client) -> None:
    revoked: list[list[TopicPartition]] = []
    held: list[Delivered] = []

    def finish(partitions: list[TopicPartition]) -> None:
        revoked.append(partitions)
        held[0].ack(wait=True)
        assert group.offsets("acks") == [0]
        held[1].ack()

    with thread_client.consumer("g", ["t"], on_revoked=finish) as consumer:
        held += islice(consumer, 2)
    assert revoked == [[TopicPartition("t", 0)]]
    assert group.offsets("acks") == [0, 1]
    assert group.events.count("leave/cooperative") == 1


def test_callbacks_of_an_async_consumer_may_be_coroutines(group: Group, server: object) -> None:
    revoked: list[list[TopicPartition]] = []
    held: list[Delivered] = []

    async def finish(partitions: list[TopicPartition]) -> None:
        revoked.append(partitions)
        await type(consumer._inner).durable(consumer._inner, held[0]._lease.held, 0, 1)

    with BridgedClient(server.url) as client:  # type: ignore[attr-defined]
        consumer = client.consumer("g", ["t"], on_revoked=finish)
        with consumer:
            held += islice(consumer, 1)
            held[0].ack()
    assert revoked == [[TopicPartition("t", 0)]]
    assert group.offsets("acks") == [0]


def test_an_error_of_on_revoked_is_raised_after_the_consumer_has_left(group: Group, client: Client) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    consumer = client.consumer("g", ["t"], on_revoked=fail).__enter__()
    with pytest.raises(ZeroDivisionError):
        consumer.close()
    consumer.close()
    assert group.events[-1] == "leave/cooperative"


def test_on_revoked_may_close_the_consumer(group: Group, thread_client: Client) -> None:
    made: list[Consumer] = []
    made.append(thread_client.consumer("g", ["t"], on_revoked=lambda _: made[0].close()).__enter__())
    made[0].close()
    assert group.events.count("leave/cooperative") == 1


def test_join_fails_within_the_timeout_when_no_broker_listens(client_class: type[Client], closed_url: str) -> None:
    with client_class(closed_url, timeout="100ms") as client:
        with pytest.raises(BrokerUnreachable, match=closed_url):
            client.consumer("g", ["t"]).__enter__()
        with pytest.raises(BrokerUnreachable, match=closed_url):
            next(iter(client.consumer("g", ["t"], until_idle=0)))


def test_flush_timeout_names_its_cause(group: Group, client_class: type[Client]) -> None:
    with group_of(group) as server:
        url = server.url
        client = client_class(url)
        consumer = client.consumer("g", ["t"], prefetch=False).__enter__()
        message = next(iter(consumer))
    inner: Any = getattr(consumer, "_inner", consumer)
    inner._timeout = 0.3  # once there is no broker to answer in time
    cause = f"the broker at {url}(: .*refused| did not answer)"  # a slow machine may not get to the refusal
    with client:
        message.ack()
        with pytest.raises(RequestTimedOut, match=cause) as error:
            consumer.flush()
        assert isinstance(error.value.__cause__, BrokerUnreachable | RequestTimedOut)
        with pytest.raises(RequestTimedOut, match=cause):
            message.ack(wait=True)
        consumer.close(timeout=0.1)


def test_stop_ends_the_iteration_while_the_assignment_is_not_answered(group: Group, client: Client) -> None:
    was_asked = threading.Event()

    def hang_up(asked: Asked) -> Reply | bool:
        if "/assignment" not in asked.target:
            return False
        was_asked.set()
        return None

    def stop_when_asked() -> None:
        assert was_asked.wait(60)
        consumer.stop()

    group.before = hang_up
    with client.consumer("g", ["t"], heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        next(messages).ack()
        next(messages).ack(wait=True)
        group.change()
        stopping = threading.Thread(target=stop_when_asked)
        stopping.start()
        assert list(messages) == []
        stopping.join()


def test_stop_before_a_poll_has_a_connection_ends_the_iteration(connected: Client) -> None:
    connected.create_topic("t", partitions=1)
    consumer = connected.consumer("g", ["t"], wait="20s")
    inner: Any = getattr(consumer, "_inner", consumer)
    poll = inner._poll

    def stop_and_poll(idle_left: float | None = None) -> object:
        inner.stop()
        return poll(idle_left)

    inner._poll = stop_and_poll
    begun = time.monotonic()
    assert list(consumer) == []
    assert time.monotonic() - begun < 15
    consumer.close()
