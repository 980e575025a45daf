"""A consumer for threads and a peer that plays the group: what is handed out, settled, kept and given back."""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from goqueue.client import AsyncClient, Batch, Client, Delivered, Refused
from goqueue.errors import (
    BrokerUnreachable,
    GroupMismatch,
    LeaseExpired,
    RequestInvalid,
    RequestTimedOut,
)
from tests.client.bridge import Interruption
from tests.client.group_peers import Group, group_of
from tests.client.peers import Asked, Peer, Reply, refusal, reply


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def values(messages: Any) -> list[bytes | None]:
    return [message.value for message in messages]


def many(group: Group, event: str) -> int:
    return sum(one.startswith(event) for one in group.events)


# --- handing out ---


def test_every_message_is_delivered_and_acked_once(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 1000))
    with client.consumer("g", ["t"], until_idle=0, max_messages=90) as consumer:
        found = []
        for message in consumer:
            with message:
                found.append(message.value)
    assert found == numbers(0, 1000)
    assert group.offsets("acks") == list(range(1000))
    assert many(group, "leave") == 1


def test_a_batch_is_one_lease(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 5))
    group.publish(*numbers(5, 7), partition=1)
    with client.consumer("g", "t", until_idle=0) as consumer:
        found = list(consumer.batches())
        assert [(batch.topic, batch.partition, len(batch)) for batch in found] == [("t", 0, 5), ("t", 1, 2)]
        assert values(found[0]) == numbers(0, 5)
        assert values(found[1][:1]) == [b"5"]
        found[0].ack(wait=True)
        assert group.offsets("acks") == [0, 1, 2, 3, 4]


def test_message_has_its_position_and_receipt_handle(group: Group, client: Client) -> None:
    group.publish(b"x")
    with client.consumer("g", ["t"]) as consumer:
        (message,) = islice(consumer, 1)
        (lease,) = group.leases
        assert (message.topic, message.partition, message.offset, message.attempt) == ("t", 0, 0, 1)
        assert message.receipt_handle == f"t:0:0:1:{lease}"
        assert repr(message) == "<Delivered t/0@0 attempt 1>"


def test_new_iteration_continues_the_last_one(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 10))
    with client.consumer("g", ["t"], until_idle=0) as consumer:
        assert values(islice(consumer, 3)) == numbers(0, 3)
        assert values(islice(consumer, 3)) == numbers(3, 6)
        assert values(consumer) == numbers(6, 10)


def test_later_messages_are_delivered_when_published(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"]) as consumer:
        later = threading.Thread(target=group.publish, args=(b"later",))
        later.start()
        (message,) = islice(consumer, 1)
        assert message.value == b"later"
        later.join()


def test_next_poll_is_sent_before_the_first_answer_is_read(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"]) as consumer:
        next(iter(consumer))
        group.publish(b"b")
        group.wait_for(lambda: many(group, "poll") == 2)


def test_no_poll_ahead_without_prefetch(group: Group, client: Client, server: Peer) -> None:
    group.publish(b"a", b"b")
    with client.consumer("g", ["t"], prefetch=False, max_messages=1) as consumer:
        message = next(iter(consumer))
        message.ack(wait=True)
        assert sum("/poll" in asked.target for asked in server.asked) == 1
        assert values(islice(consumer, 1)) == [b"b"]


def test_acks_span_missing_offsets(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 20), step=3)
    with client.consumer("g", ["t"], until_idle=0) as consumer:
        for message in consumer:
            message.ack()
    assert group.offsets("acks") == list(range(0, 60, 3))
    assert [entry["ranges"] for one in group.settlements for entry in one["acks"]] == [[[0, 58]]]


# --- settling ---


def test_ack_is_sent_without_a_further_poll(group: Group, client: Client) -> None:
    group.publish(b"a", b"b")
    with client.consumer("g", ["t"]) as consumer:
        message = next(iter(consumer))
        message.ack()
        group.wait_for(lambda: group.offsets("acks") == [0])


def test_waiting_ack_returns_when_durable(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 3))
    with client.consumer("g", ["t"]) as consumer:
        for message in islice(consumer, 3):
            message.ack(wait=True)
            assert group.offsets("acks")[-1] == message.offset


def test_nacked_message_is_redelivered(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"], until_idle=0) as consumer:
        attempts = []
        for message in consumer:
            attempts.append(message.attempt)
            if message.attempt < 3:
                message.nack(delay="0s", reason="not yet")
            else:
                message.ack()
    assert attempts == [1, 2, 3]
    nack = group.settlements[0]["nacks"][0]
    assert (nack["delay"], nack["reason"]) == (0.0, "not yet")


def test_exception_in_a_block_nacks_and_propagates(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"]) as consumer:
        message = next(iter(consumer))
        with pytest.raises(ZeroDivisionError), message:
            _ = 1 / 0
        consumer.flush()
        (settlement,) = group.settlements
        assert settlement["nacks"][0]["reason"] == "ZeroDivisionError: division by zero"


def test_unsettled_messages_are_released_by_leaving(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 3))
    with client.consumer("g", ["t"]) as consumer:
        first, _, third = islice(consumer, 3)
        first.ack()
        third.reject(reason="wrong")
    assert sorted((action, offset) for action, _, _, offset in group.settled) == [("acks", 0), ("rejects", 2)]
    assert many(group, "leave") == 1


def test_any_thread_may_settle(group: Group, thread_client: Client) -> None:
    group.publish(*numbers(0, 2000))
    with thread_client.consumer("g", ["t"], until_idle=0, max_messages=100) as consumer, ThreadPoolExecutor(4) as pool:
        for message in consumer:
            pool.submit(message.ack)
        pool.shutdown()
        consumer.flush()
        assert sorted(group.offsets("acks")) == list(range(2000))


def test_late_settlement_is_reported(group: Group, client: Client) -> None:
    group.publish(b"a", b"b", b"c")
    told: list[Refused] = []
    with client.consumer("g", ["t"], max_messages=2, on_expired=told.extend) as consumer:
        first, second = islice(consumer, 2)
        group.expired |= set(group.leases)
        with pytest.raises(LeaseExpired):
            first.ack(wait=True)
        second.ack()
        with pytest.raises(LeaseExpired, match="2 messages could not be settled") as error:
            consumer.flush()
        assert error.value.details["refused"] == 2
        consumer.flush()  # it is told once
        assert consumer.stats.refused == 2
        assert told == []  # not before this thread comes back
        group.expired.clear()
        next(iter(consumer))
        assert [(one.topic, one.ranges) for one in told] == [("t", [(0, 1)]), ("t", [(1, 2)])]


def test_rest_of_a_lost_lease_is_not_delivered(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 4))
    with client.consumer("g", ["t"], max_messages=3, until_idle=0) as consumer:
        messages = iter(consumer)
        message = next(messages)
        group.expired |= set(group.leases)
        with pytest.raises(LeaseExpired):
            message.ack(wait=True)
        group.expired.clear()
        assert b"1" not in values(messages)


# --- the companion ---


def test_leases_are_extended_during_slow_processing(group: Group, client: Client) -> None:
    group.visibility = 0.2
    group.publish(b"a", b"b")
    with client.consumer("g", ["t"], max_messages=1) as consumer:
        message = next(iter(consumer))

        def extended() -> set[str]:
            entries = [entry for one in group.settlements for entry in one.get("extensions", ())]
            assert all(entry["timeout"] == 0.2 for entry in entries)
            return {entry["lease"] for entry in entries}

        group.wait_for(lambda: len(extended()) == 2)
        assert message.value == b"a"
        assert values(islice(consumer, 1)) == [b"b"]


def test_heartbeats_continue_while_the_application_is_busy(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"], heartbeat_interval="10ms") as consumer:
        next(iter(consumer))
        group.wait_for(lambda: many(group, "heartbeat/cooperative") > 3)


# --- trouble ---


class Trouble:
    """Breaks the connection at some requests: before they are carried out, or after."""

    def __init__(self, group: Group, action: str, *, after: bool, times: int = 3) -> None:
        self.left = times
        self._group = group
        self._action = action
        self._after = after

    def __call__(self, asked: Asked) -> Reply | bool:
        if self._action not in asked.target or not self.left:
            return False
        self.left -= 1
        if self._after:
            self._group.before = lambda _: False
            self._group.answer(asked)
            self._group.before = self
        return None


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("action", ["/settle", "/join", "/leave"])
def test_broken_connection_loses_no_settlement(group: Group, client: Client, action: str, after: bool) -> None:
    group.publish(*numbers(0, 50))
    group.before = Trouble(group, action, after=after)
    with client.consumer("g", ["t"], until_idle=0, max_messages=10) as consumer:
        found = values(message for message in consumer if message.ack() is None)
        consumer.flush()
    assert found == numbers(0, 50)
    assert group.offsets("acks") == list(range(50))


def test_broken_poll_is_retried(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 5))
    group.before = Trouble(group, "/poll", after=False)
    with client.consumer("g", ["t"], until_idle=0) as consumer:
        assert values(consumer) == numbers(0, 5)


def test_outage_is_no_idle_time(group: Group, client: Client) -> None:
    polls: list[str] = []

    def refuse_once(asked: Asked) -> Reply | bool:
        if "/poll" not in asked.target:
            return False
        polls.extend(parse_qs(urlsplit(asked.target).query)["timeout"])
        return len(polls) == 1 and refusal("broker_stopping", 503, details={"retry_after": 0.2})

    group.before = refuse_once
    with client.consumer("g", ["t"], until_idle="100ms") as consumer:
        assert values(consumer) == []
    assert polls[:2] == ["0.100000000s", "0.100000000s"]


def test_repeated_nack_after_a_lost_answer_counts_once(group: Group, client: Client) -> None:
    group.publish(b"a")
    group.before = Trouble(group, "/settle", after=True, times=1)
    with client.consumer("g", ["t"], prefetch=False) as consumer:
        next(iter(consumer)).nack()
        consumer.flush()
        assert (consumer.stats.nacked, consumer.stats.refused) == (1, 0)


def test_iteration_raises_when_the_broker_stays_away(
    group: Group, server: Peer, pass_time: Callable[[float], None]
) -> None:
    def hang_up(asked: Asked) -> Reply | bool:
        if "/poll" not in asked.target:
            return False
        pass_time(20)
        return None

    with Client(server.url, timeout="30s") as client, client.consumer("g", ["t"]) as consumer:
        group.publish(b"a")
        group.before = hang_up
        with pytest.raises(BrokerUnreachable):
            next(iter(consumer))
        group.before = lambda _: False
        assert values(islice(consumer, 1)) == [b"a"]


def test_close_succeeds_without_a_broker(group: Group) -> None:
    group.publish(b"a")
    with group_of(group) as server:
        consumer = Client(server.url).consumer("g", ["t"])
        message = next(iter(consumer))
    message.ack()
    consumer.close(timeout=0.2)
    assert consumer.stats.acked == 0


def test_close_succeeds_when_the_broker_does_not_answer(group: Group, client: Client) -> None:
    group.publish(b"a")
    silent = threading.Event()
    consumer = client.consumer("g", ["t"])
    next(iter(consumer)).ack(wait=True)

    def nothing(_: Asked) -> Reply:
        silent.wait()
        return None

    group.before = nothing
    try:
        consumer.close(timeout=0.2)
    finally:
        silent.set()


def test_flush_has_a_timeout(group: Group, client: Client) -> None:
    group.publish(b"a")
    group.before = lambda asked: None if "/settle" in asked.target else False
    with client.consumer("g", ["t"]) as consumer:
        next(iter(consumer)).ack()
        with pytest.raises(RequestTimedOut, match=r"0\.1 seconds"):
            consumer.flush(timeout="100ms")
        group.before = lambda _: False
        consumer.flush()
        assert group.offsets("acks") == [0]


def test_refused_join_is_raised(group: Group, client: Client) -> None:
    group.before = lambda asked: refusal("group_mismatch", 409) if "/join" in asked.target else False
    with pytest.raises(GroupMismatch), client.consumer("g", ["t"]):
        pass
    consumer = client.consumer("g", ["t"])
    with pytest.raises(GroupMismatch):
        next(iter(consumer))
    consumer.close()


# --- ending ---


def test_interruption_releases_unsettled_messages(group: Group, thread_client: Client) -> None:
    group.publish(b"a", b"b")
    with pytest.raises(KeyboardInterrupt), thread_client.consumer("g", ["t"]) as consumer, next(iter(consumer)):
        raise KeyboardInterrupt
    assert [(action, offset) for action, _, _, offset in group.settled] == [("releases", 0)]
    assert many(group, "leave") == 1


def test_wait_for_messages_can_be_interrupted(group: Group, thread_client: Client, interrupts: int) -> None:
    group.publish(b"a")
    with thread_client.consumer("g", ["t"], prefetch=False) as consumer:
        messages = iter(consumer)
        next(messages).ack()

        interrupted = threading.Event()

        def interrupt(asked: Asked) -> Reply | bool:
            if "/poll" not in asked.target:
                return False
            os.kill(os.getpid(), interrupts)
            interrupted.wait()
            return None

        group.before = interrupt
        with pytest.raises(Interruption):
            next(messages)
        interrupted.set()
        group.before = lambda _: False
        group.publish(b"b")
        assert values(islice(consumer, 1)) == [b"b"]
    assert group.offsets("acks") == [0]
    assert many(group, "leave") == 1


def test_nothing_of_a_closed_consumer_stays_in_memory(group: Group, client: Client) -> None:
    group.publish(*numbers(0, 10))
    consumer = client.consumer("g", ["t"], max_messages=2)
    with consumer:
        found = list(islice(consumer, 3))
        found[0].ack()
    gone = weakref.ref(consumer)
    del found, consumer
    gc.collect()
    assert gone() is None


def test_stop_from_another_thread_ends_the_iteration(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"]) as consumer:
        messages = iter(consumer)
        next(messages).ack()
        stopping = threading.Thread(target=consumer.stop)
        stopping.start()
        assert list(messages) == []
        stopping.join()
    assert group.offsets("acks") == [0]


def test_closed_consumer_refuses_calls(client: Client) -> None:
    with client.consumer("g", ["t"]) as consumer:
        pass
    for use in (consumer.flush, lambda: next(iter(consumer)), consumer.__enter__):
        with pytest.raises(RequestInvalid, match="closed"):
            use()
    consumer.close()


def test_unused_consumer_sends_no_requests(server: Peer, client: Client) -> None:
    client.consumer("g", ["t"]).close()
    assert server.asked == []


def test_forked_child_does_not_leave_the_group(group: Group, thread_client: Client) -> None:
    group.publish(b"a", b"b")
    with thread_client.consumer("g", ["t"], max_messages=1) as consumer:
        next(iter(consumer)).ack(wait=True)
        child = os.fork()
        if child == 0:
            try:
                consumer.flush()
            except RequestInvalid:
                consumer.close()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert values(islice(consumer, 1)) == [b"b"]
    assert many(group, "leave") == 1


def test_invalid_settlement_is_refused_at_the_call(group: Group, client: Client) -> None:
    group.publish(b"a")
    with client.consumer("g", ["t"]) as consumer:
        (batch,) = islice(consumer.batches(), 1)
        assert isinstance(batch, Batch)
        (message,) = batch
        assert isinstance(message, Delivered)
        for wrong in (
            lambda: message.nack(delay="soon"),
            lambda: message.nack(delay=-1),
            lambda: message.nack(delay="13h"),
            lambda: message.extend("x"),
            lambda: message.extend("1ms"),
            lambda: batch.reject(reason=7),  # type: ignore[arg-type]
        ):
            with pytest.raises(RequestInvalid):
                wrong()
        message.ack(wait=True)
        assert group.offsets("acks") == [0]


# --- groups from outside ---


def test_group_requests_have_their_arguments(client: Client, group: Group, server: Peer) -> None:
    group.before = lambda asked: reply({"moved": 3} if "redrive" in asked.target else {"partitions": []})
    options: Any = {"limit": 5, "header": {"a": "b"}, "from_time": 0}
    assert client.redrive("t", dry_run=True, **options) == {"moved": 3}
    client.reset_offsets("g/h", "t", "time", time=datetime(2026, 1, 1, tzinfo=UTC), partitions=range(2))
    redrive, reset = server.asked
    assert redrive.target == "/topics/t/redrive"
    assert msgspec.json.decode(redrive.body) == {
        "limit": 5,
        "header": {"a": "b"},
        "from_time": "1970-01-01T00:00:00.000000000Z",
        "dry_run": True,
    }
    assert reset.target == "/groups/g%2Fh/offsets/reset"
    assert msgspec.json.decode(reset.body) == {
        "topic": "t",
        "to": "time",
        "partitions": [0, 1],
        "time": "2026-01-01T00:00:00.000000000Z",
        "dry_run": False,
    }


def test_consumer_options_are_sent(client: Client, group: Group, server: Peer) -> None:
    group.publish(b"a")
    options: dict[str, Any] = {
        "client_id": "till-3",
        "session_timeout": "10s",
        "assignment_strategy": "range",
        "order": "key",
        "start": "latest",
        "max_in_flight": 7,
        "max_messages": 5,
        "max_bytes": 1000,
        "visibility_timeout": "1m",
        "wait": "2s",
        "skip_damage": True,
    }
    with client.consumer("g", ["t", "u"], **options) as consumer:
        next(iter(consumer))
    join, poll = server.asked[:2]
    assert join.target == "/groups/g/join/cooperative"
    assert msgspec.json.decode(join.body) == {
        "client_id": "till-3",
        "topics": ["t", "u"],
        "session_timeout": 10.0,
        "protocol": "cooperative",
        "assignment_strategy": "range",
        "order": "key",
        "start": "latest",
        "max_in_flight": 7,
    }
    assert parse_qs(urlsplit(poll.target).query) == {
        "member_id": ["m1"],
        "generation": ["1"],
        "max_messages": ["5"],
        "max_bytes": ["1000"],
        "timeout": ["2.000000000s"],
        "visibility_timeout": ["60.000000000s"],
        "skip_damage": ["true"],
    }


def test_a_cancelled_task_releases_its_message_and_leaves(group: Group, server: Peer) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def consume() -> None:
            async with AsyncClient(server.url) as client, client.consumer("g", ["t"]) as consumer:
                async for message in consumer:
                    with message:
                        started.set()
                        await asyncio.Event().wait()

        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    group.publish(b"a", b"b")
    asyncio.run(main())
    assert [(action, offset) for action, _, _, offset in group.settled] == [("releases", 0)]
    assert many(group, "leave") == 1


def test_a_cancelled_wait_loses_no_answer(group: Group, server: Peer) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client, client.consumer("g", ["t"]) as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(aiter(consumer)), 0.05)
            assert many(group, "poll") == 0  # one is under way, and was not repeated
            group.publish(b"a")
            message = await anext(aiter(consumer))
            assert (message.value, message.attempt) == (b"a", 1)

    asyncio.run(main())
    assert many(group, "poll") <= 2
