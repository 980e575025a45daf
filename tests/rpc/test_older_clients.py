"""Calls of clients that were built with the first goqueue.proto, which has fewer fields."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from goqueue.rpc.v1 import ack_pb2, consume_pb2, health_pb2, offset_pb2, publish_pb2, types_pb2
from goqueue.testing.broker import LocalBroker
from tests.brokers import create, read
from tests.rpc.stubs import Stubs, messages_of

Names = Callable[[str], str]
OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.use_local_subchannel_pool", 1),
]


@pytest.fixture
def older(rpc_broker: LocalBroker) -> Iterator[Stubs]:
    assert rpc_broker.daemon.rpc_address is not None
    with grpc.insecure_channel(rpc_broker.daemon.rpc_address, OPTIONS) as channel:
        yield Stubs(channel)


def test_health_is_asked_before_anything_else(older: Stubs) -> None:
    assert older.health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.SERVING_STATUS_SERVING
    other = older.health.Check(health_pb2.HealthCheckRequest(service="goqueue.v1.PublishService"))
    assert other.status == health_pb2.SERVING_STATUS_SERVICE_UNKNOWN


def test_message_with_zero_in_optional_fields_has_the_default_priority_and_any_partition(
    rpc_broker: LocalBroker, older: Stubs, new_name: Names
) -> None:
    topic = new_name("orders")
    create(rpc_broker.url, topic)
    answer = older.publish.Publish(publish_pb2.PublishRequest(topic=topic, value=b"x", headers={"a": "b"}))
    assert (answer.partition, answer.offset, answer.HasField("error")) == (0, 0, False)
    (stored,) = read(rpc_broker.url, topic)
    assert (stored["priority"], stored["headers"]) == (2, {"a": "b"})


def test_member_settles_by_group_and_receipt_handle(rpc_broker: LocalBroker, older: Stubs, new_name: Names) -> None:
    topic, group = new_name("orders"), new_name("billing")
    create(rpc_broker.url, topic)
    for value in (b"ack", b"nack", b"reject", b"batch"):
        older.publish.Publish(publish_pb2.PublishRequest(topic=topic, value=value))
    stream = older.consume.Subscribe(consume_pb2.SubscribeRequest(group_id=group, topics=[topic]))
    first = next(stream)
    assert first.WhichOneof("payload") == "assignment"
    assert first.assignment.member_id
    assert list(first.assignment.partitions) == [types_pb2.TopicPartition(topic=topic, partition=0)]
    for message in messages_of(stream):
        whose: dict[str, Any] = {"group_id": group, "receipt_handle": message.receipt_handle}
        assert _settled(older, bytes(message.value), whose, message.retry_count)
        if message.retry_count:
            break
    stream.cancel()


def _settled(older: Stubs, value: bytes, whose: dict[str, Any], retries: int) -> bool:
    soon = Duration()
    soon.FromTimedelta(timedelta(milliseconds=10))
    later = ack_pb2.ExtendVisibilityRequest(**whose, visibility_timeout=Duration(seconds=20))
    if value == b"reject":
        return bool(older.acks.Reject(ack_pb2.RejectRequest(**whose, reason="broken")).success)
    if value == b"nack" and not retries:
        return bool(older.acks.Nack(ack_pb2.NackRequest(**whose, visibility_timeout=soon)).success)
    if value == b"batch":
        handles = [whose["receipt_handle"], "wrong"]
        answer = older.acks.BatchAck(ack_pb2.BatchAckRequest(group_id=whose["group_id"], receipt_handles=handles))
        return bool((answer.success_count, [one.receipt_handle for one in answer.failures]) == (1, ["wrong"]))
    extended = older.acks.ExtendVisibility(later).success
    return bool(extended and older.acks.Ack(ack_pb2.AckRequest(**whose)).success)


def test_offsets_are_committed_and_fetched_without_a_member(
    rpc_broker: LocalBroker, older: Stubs, new_name: Names
) -> None:
    topic, group = new_name("orders"), new_name("simple")
    create(rpc_broker.url, topic)
    older.publish.Publish(publish_pb2.PublishRequest(topic=topic, value=b"x"))
    wanted = offset_pb2.FetchOffsetsRequest(
        group_id=group, partitions=[types_pb2.TopicPartition(topic=topic, partition=0)]
    )

    def commit(offset: int) -> Any:
        request = offset_pb2.CommitOffsetsRequest(group_id=group)
        request.offsets.add(topic=topic, partition=0, offset=offset)
        (result,) = older.offsets.CommitOffsets(request).results
        return result

    (unknown,) = older.offsets.FetchOffsets(wanted).offsets
    assert (unknown.offset, unknown.error.reason) == (-1, "group_not_found")
    beyond = commit(42)
    assert (beyond.success, beyond.error.reason) == (False, "offset_out_of_range")
    assert commit(1).success
    assert older.offsets.FetchOffsets(wanted).offsets[0].offset == 1
