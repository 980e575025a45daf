"""Streams that last: rebalances, leases, ends of calls, and clients that do harm."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from goqueue.rpc import listener
from goqueue.rpc.v1 import ack_pb2, consume_pb2, publish_pb2
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.brokers import ask, create, publish
from tests.rpc.stubs import Refused, Stubs, messages_of, refusal, stubs_of

Names = Callable[[str], str]
LATEST = consume_pb2.CONSUME_START_POSITION_LATEST


def kinds(responses: Iterator[Any], last: str) -> Iterator[Any]:
    """Yield responses up to the first of a kind."""
    for response in responses:
        yield response
        if response.WhichOneof("payload") == last:
            return


def assigned(responses: Iterator[Any], count: int) -> tuple[Any, list[Any]]:
    """Return the first assignment with so many partitions, and the rebalances before it."""
    rebalances = []
    for response in responses:
        if response.WhichOneof("payload") == "rebalance":
            rebalances.append(response.rebalance)
        if response.WhichOneof("payload") == "assignment" and len(response.assignment.partitions) == count:
            return response.assignment, rebalances
    raise AssertionError(f"no assignment has {count} partitions")


def reason_of(call: Any) -> Refused:
    """Return why a stream has ended."""
    return refusal(lambda: call)


def test_stream_by_position_begins_at_offsets_and_times_and_follows(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, url = new_name("orders"), rpc_broker.url
    create(url, topic, 2)
    publish(url, topic, "1", "2", "3", partition=0)
    second = list(messages_of(rpc.consume.Consume(consume_pb2.ConsumeRequest(topic=topic, until_end=True))))[1]
    request = consume_pb2.ConsumeRequest(topic=topic, partitions=[0], until_end=True, max_messages=1)
    request.start_position, request.start_offset = consume_pb2.CONSUME_START_POSITION_OFFSET, 1
    parts = [one.messages for one in rpc.consume.Consume(request)]
    assert [([message.value for message in part.messages], part.next_offset) for part in parts] == [
        ([b"2"], 2),
        ([b"3"], 3),
    ]
    later = Timestamp(seconds=second.timestamp.seconds + 3600)
    at_time = consume_pb2.ConsumeRequest(
        topic=topic, start_position=consume_pb2.CONSUME_START_POSITION_TIMESTAMP, start_timestamp=later, until_end=True
    )
    assert list(rpc.consume.Consume(at_time)) == []
    framed = consume_pb2.ConsumeRequest(topic=topic, partitions=[0], frames=True, until_end=True)
    (batch,) = [one.messages for one in rpc.consume.Consume(framed)]
    assert frame.decode(batch.frames).value == b"1"
    assert (batch.high_watermark, batch.next_offset) == (3, 3)
    filtered = consume_pb2.ConsumeRequest(topic=topic, filter=["value=2"], until_end=True)
    assert [one.value for one in messages_of(rpc.consume.Consume(filtered))] == [b"2"]
    wait = Duration(nanos=100_000_000)
    live = rpc.consume.Consume(consume_pb2.ConsumeRequest(topic=topic, start_position=LATEST, max_wait=wait))
    assert next(live).WhichOneof("payload") == "heartbeat"  # both partitions are awaited
    publish(url, topic, "4", partition=1)
    assert next(messages_of(live)).value == b"4"
    live.cancel()
    create(url, empty := new_name("empty"), 1)
    assert list(rpc.consume.Consume(consume_pb2.ConsumeRequest(topic=empty, until_end=True))) == []
    unread = consume_pb2.ConsumeRequest(topic=empty, filter=["xx>>>1"], until_end=True)
    assert reason_of(rpc.consume.Consume(unread)).reason == "request_invalid", "also where nothing can be read"
    wrong = consume_pb2.ConsumeRequest(topic=topic, partitions=[7])
    assert "partitions" in refusal(rpc.consume.Consume, wrong).fields


def test_members_see_rebalances_and_a_cancelled_member_gives_its_leases_back(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, group, url = new_name("orders"), new_name("group"), rpc_broker.url
    create(url, topic, 2)
    request = consume_pb2.SubscribeRequest(
        topics=[topic], group_id=group, max_wait=Duration(nanos=100_000_000), frames=True
    )
    one = rpc.consume.Subscribe(request, timeout=60)
    alone, _ = assigned(one, 2)
    other = rpc.consume.Subscribe(request, timeout=60)
    shared, rebalances = assigned(one, 1)
    (kept,) = shared.partitions
    (revoked,) = [each for each in rebalances if each.type == consume_pb2.REBALANCE_TYPE_REVOKE]
    assert (kept not in revoked.partitions, len(revoked.partitions)) == (True, 1)
    (gained,) = assigned(other, 1)[0].partitions  # after the other member has given it up
    assert gained.partition != kept.partition
    publish(url, topic, "1", "2", partition=gained.partition)
    leased = [*kinds(other, "messages")][-1].messages
    assert (leased.lease.first, leased.lease.end, leased.lease.attempt) == (0, 2, 1)
    other.cancel()
    again = [*kinds(one, "messages")][-1].messages  # long before the lease or the session ends
    assert (again.partition, again.lease.attempt) == (gained.partition, 2)
    ranges = [ack_pb2.OffsetRange(first=again.lease.first, end=again.lease.end)]
    entry = {"topic": topic, "partition": again.partition, "ranges": ranges}
    right = ack_pb2.SettleRequest(group=group, member_id=alone.member_id, correlation_id="1")
    right.acks.add(**entry, lease=leased.lease.id)
    right.acks.add(**entry, lease=again.lease.id)
    wrong = ack_pb2.SettleRequest(group=group, member_id="stranger", correlation_id="2")
    settled, refused = rpc.acks.SettleStream(iter([right, wrong]))
    assert [result.error.reason for result in settled.acks] == ["lease_expired", ""]
    assert (refused.correlation_id, refused.error.reason) == ("2", "member_unknown")
    one.cancel()
    eventually(lambda: ask(url, "GET", f"/groups/{group}").json["state"] == "empty")


def test_member_learns_of_a_partition_before_its_first_message(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, group, url = new_name("orders"), new_name("group"), rpc_broker.url
    create(url, topic, 2)
    for partition in (0, 1):
        publish(url, topic, "1", partition=partition)
    request = consume_pb2.SubscribeRequest(topics=[topic], group_id=group, max_in_flight=2)
    one = rpc.consume.Subscribe(request, timeout=60)
    held = messages_of(one)
    receipts = [next(held).receipt_handle, next(held).receipt_handle]
    for partition in (0, 1):
        publish(url, topic, "2", partition=partition)
    other = rpc.consume.Subscribe(request, timeout=60)
    assert list(next(other).assignment.partitions) == []  # the first member still holds messages of both
    rpc.acks.BatchAck(ack_pb2.BatchAckRequest(receipt_handles=receipts))
    *before, first = kinds(other, "messages")
    assignments = [each.assignment for each in before if each.WhichOneof("payload") == "assignment"]
    assert [each.partition for each in assignments[-1].partitions] == [first.messages.partition]
    one.cancel()
    other.cancel()


def test_hostile_clients_disturb_no_other(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(listener, "HTTP_WRITE_SECONDS", 0.5)
    with LocalBroker(str(tmp_path / "data"), grpc__port="0") as broker, stubs_of(broker) as stubs:
        create(broker.url, "large")
        create(broker.url, "quiet")
        create(broker.url, "busy")
        large = [publish_pb2.OutgoingMessage(value=os.urandom(900_000)) for _ in range(5)]
        for _ in range(4):
            stubs.publish.PublishBatch(publish_pb2.PublishBatchRequest(topic="large", messages=large))
        state = broker.daemon.service.server

        # A client that reads nothing: its stream ends, its member leaves, and the memory is free again.
        reader = stubs.consume.Consume(consume_pb2.ConsumeRequest(topic="large", max_bytes=4 << 20))
        member = stubs.consume.Subscribe(consume_pb2.SubscribeRequest(topics=["large"], group_id="g"))
        eventually(lambda: ask(broker.url, "GET", "/groups/g").status == 200)
        eventually(lambda: ask(broker.url, "GET", "/groups/g").json["state"] == "empty")
        for stream in (reader, member):
            ended = reason_of(stream)
            assert (ended.code, ended.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "reader_too_slow")
        eventually(lambda: (state.answer_bytes, state.held_bytes) == (0, 0))

        # Too much metadata, too large messages.
        request = publish_pb2.PublishRequest(topic="busy", value=b"x")
        big = refusal(stubs.publish.Publish, request, metadata=[("x-big", "y" * 40_000)])
        assert big.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        huge = publish_pb2.PublishBatchRequest(topic="busy", frames=bytes(33 << 20))
        assert refusal(stubs.publish.PublishBatch, huge).code == grpc.StatusCode.RESOURCE_EXHAUSTED

        # Connections that say nothing, and one that is reset after half a frame.
        host, port = str(broker.daemon.rpc_address).split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(50)]
        silent[0].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x04")
        silent[0].close()

        # 1,000 streams that wait: everything else goes on, and a stop ends them all.
        idle = [
            stubs.consume.Consume(consume_pb2.ConsumeRequest(topic="quiet", start_position=LATEST)) for _ in range(1000)
        ]
        with stubs_of(broker) as other:
            for _ in range(20):
                assert other.publish.Publish(request).error.reason == ""
                publish(broker.url, "busy", "x")
        assert "goqueue_grpc_calls_open 1000.0" in ask(broker.url, "GET", "/metrics").body.decode()
        publish(broker.url, "quiet", "now")
        assert {next(messages_of(stream)).value for stream in idle} == {b"now"}
        broker.stop()
        assert {reason_of(stream).reason for stream in idle[:20]} == {"broker_stopping"}
        for one in silent[1:]:
            one.close()


def test_calls_above_the_limit_are_refused_and_a_stop_completes_what_is_under_way(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), grpc__port="0", grpc__streams="2") as broker, stubs_of(broker) as stubs:
        create(broker.url, "orders")
        release = threading.Event()

        def batches() -> Iterator[Any]:
            yield publish_pb2.PublishBatchRequest(topic="orders", messages=[publish_pb2.OutgoingMessage(value=b"1")])
            release.wait(30)

        waiting = [stubs.publish.PublishBatches(batches()) for _ in range(2)]
        assert [next(stream).results[0].partition for stream in waiting] == [0, 0]
        with stubs_of(broker) as other:
            refused = refusal(other.publish.Publish, publish_pb2.PublishRequest(topic="orders", value=b"x"))
            assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        broker.stop()  # the streams wait for their clients, who have nothing to say
        ended = [reason_of(stream) for stream in waiting]
        release.set()
        assert [(one.code, one.reason, one.retry_seconds) for one in ended] == [
            (grpc.StatusCode.UNAVAILABLE, "broker_stopping", 1.0)
        ] * 2
    with LocalBroker(str(tmp_path / "data")) as broker:
        assert len(ask(broker.url, "GET", "/topics/orders/partitions/0/messages").json["messages"]) == 2
