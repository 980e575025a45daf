"""Calls of every service, beside the same questions over HTTP."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2 as standard_health
from grpc_health.v1 import health_pb2_grpc as standard_health_grpc

from goqueue.rpc.v1 import (
    ack_pb2,
    admin_pb2,
    consume_pb2,
    delayed_pb2,
    health_pb2,
    offset_pb2,
    publish_pb2,
    schema_pb2,
    topic_pb2,
    transaction_pb2,
    types_pb2,
)
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.sections import SECTION
from tests.brokers import ask, create, read
from tests.rpc.stubs import Stubs, messages_of, refusal

Names = Callable[[str], str]


def outgoing(*values: bytes, **fields: Any) -> list[publish_pb2.OutgoingMessage]:
    return [publish_pb2.OutgoingMessage(value=value, **fields) for value in values]


def section(*values: bytes) -> bytes:
    frames = b"".join(frame.encode(value) for value in values)
    return SECTION.pack(0, len(frames)) + frames


def test_published_messages_of_every_kind_are_read_over_http(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, url = new_name("orders"), rpc_broker.url
    create(url, topic)
    stored = rpc.publish.Publish(
        publish_pb2.PublishRequest(
            topic=topic, key=b"k", value=b"\xff\x00", headers={"a": "b"}, priority=0,
            raw_headers=[types_pb2.Header(name="raw", value=b"\xfe"), types_pb2.Header(name="raw", value=b"text")],
        )
    )  # fmt: skip
    assert (stored.topic, stored.partition, stored.offset) == (topic, 0, 0)
    batch = rpc.publish.PublishBatch(publish_pb2.PublishBatchRequest(topic=topic, messages=outgoing(b"1", b"2")))
    assert [result.offset for result in batch.results] == [1, 2]
    framed = rpc.publish.PublishBatch(
        publish_pb2.PublishBatchRequest(topic=topic, frames=section(b"3", b"4"), partitions=1)
    )
    assert [(result.first_offset, result.next_offset) for result in framed.results] == [(3, 5)]
    requests = [publish_pb2.PublishBatchRequest(topic=topic, messages=outgoing(b"5", b"6"))]
    requests.append(publish_pb2.PublishBatchRequest(frames=section(b"7")))  # of the same topic
    summary = rpc.publish.PublishAll(iter(requests))
    assert (summary.batches, summary.messages) == (2, 3)
    delete = publish_pb2.PublishRequest(topic=topic, key=b"k", tombstone=True)
    assert rpc.publish.Publish(delete).offset == 8
    found = read(url, topic)
    assert [one["value"] for one in found] == ["/wA=", "1", "2", "3", "4", "5", "6", "7", None]
    assert found[0]["headers"] == {"a": "b", "raw": [{"value": "/g==", "encoding": "base64"}, "text"]}
    assert (found[0]["priority"], found[1]["priority"]) == (0, 2)
    typed = list(messages_of(rpc.consume.Consume(consume_pb2.ConsumeRequest(topic=topic, until_end=True))))
    assert [one.offset for one in typed] == list(range(9))
    assert [(one.name, one.value) for one in typed[0].raw_headers] == [("a", b"b"), ("raw", b"\xfe"), ("raw", b"text")]
    assert (typed[0].key, typed[0].value, typed[8].tombstone) == (b"k", b"\xff\x00", True)


def test_stream_answers_each_message_and_each_batch_although_some_are_refused(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic = new_name("orders")
    create(rpc_broker.url, topic)
    singles = [
        publish_pb2.PublishStreamRequest(correlation_id=str(n), topic=name, value=b"x", priority=priority)
        for n, (name, priority) in enumerate([(topic, 2), (topic, 9), ("missing", 2), (topic, 1)])
    ]
    answers = list(rpc.publish.PublishStream(iter(singles)))
    assert [(one.correlation_id, one.error.reason, one.offset) for one in answers] == [
        ("0", "", 0),
        ("1", "request_invalid", 0),
        ("2", "topic_not_found", 0),
        ("3", "", 1),
    ]
    assert answers[2].error.code == types_pb2.ERROR_CODE_TOPIC_NOT_FOUND
    batches = [
        publish_pb2.PublishBatchRequest(correlation_id="a", topic=topic, messages=outgoing(b"1", b"2")),
        publish_pb2.PublishBatchRequest(correlation_id="b", frames=b"torn"),
        publish_pb2.PublishBatchRequest(correlation_id="c", frames=section(b"3")),
    ]
    found = list(rpc.publish.PublishBatches(iter(batches)))
    assert [(one.correlation_id, one.error.reason, len(one.results)) for one in found] == [
        ("a", "", 2),
        ("b", "frame_invalid", 0),
        ("c", "", 1),
    ]
    assert len(read(rpc_broker.url, topic)) == 5


def test_error_has_the_code_and_the_hint_that_it_has_over_http(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    missing = refusal(rpc.topics.DescribeTopic, topic_pb2.DescribeTopicRequest(topic="missing"))
    answer = ask(rpc_broker.url, "GET", "/topics/missing").json
    assert missing.code == grpc.StatusCode.NOT_FOUND
    assert (missing.reason, missing.sentence, missing.hint) == (answer["code"], answer["error"], answer["hint"])
    topic = new_name("orders")
    request = topic_pb2.CreateTopicRequest(name=topic, num_partitions=1, settings={"retention_hours": "72"})
    assert rpc.topics.CreateTopic(request).created
    assert refusal(rpc.topics.CreateTopic, request).code == grpc.StatusCode.ALREADY_EXISTS
    wrong = topic_pb2.CreateTopicRequest(name=new_name("orders"), settings={"retention_hours": "no"})
    assert "retention_hours" in refusal(rpc.topics.CreateTopic, wrong).fields
    late = publish_pb2.PublishRequest(topic=topic, value=b"x", delay=Duration(seconds=10**10))
    assert refusal(rpc.publish.Publish, late).fields.keys() == {"delay"}
    assert refusal(rpc.publish.Publish, publish_pb2.PublishRequest(value=b"x")).fields == {"topic": "is missing"}
    far = consume_pb2.ConsumeRequest(
        topic=topic, start_position=consume_pb2.CONSUME_START_POSITION_OFFSET, start_offset=99
    )
    assert refusal(rpc.consume.Consume, far).code == grpc.StatusCode.OUT_OF_RANGE


def test_topics_delayed_messages_and_schemas_are_those_of_http(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, url = new_name("orders"), rpc_broker.url
    rpc.topics.CreateTopic(topic_pb2.CreateTopicRequest(name=topic, num_partitions=1))
    altered = rpc.topics.AlterTopic(topic_pb2.AlterTopicRequest(topic=topic, settings={"retention_hours": "24"}))
    assert altered.config["retention_hours"] in {"24", "24.0"}
    added = rpc.topics.AddPartitions(topic_pb2.AddPartitionsRequest(topic=topic, count=2))
    assert (added.old_partition_count, added.new_partition_count) == (1, 2)
    assert len(rpc.topics.ListPartitions(topic_pb2.ListPartitionsRequest(topic=topic)).partitions) == 2
    assert topic in rpc.topics.ListTopics(topic_pb2.ListTopicsRequest()).topics
    described = rpc.topics.DescribeTopic(topic_pb2.DescribeTopicRequest(topic=topic))
    assert described.partition_offsets["1"].latest == 0
    assert described.created_at.ToJsonString()[:19] == ask(url, "GET", f"/topics/{topic}").json["created_at"][:19]

    raw = types_pb2.Header(name="raw", value=b"\xff")
    request = publish_pb2.PublishRequest(topic=topic, value=b"\xfe", key=b"k", raw_headers=[raw], partition=1)
    request.delay.FromTimedelta(timedelta(hours=1))
    stored = rpc.publish.Publish(request)
    assert (stored.delayed, stored.partition) == (True, 1)
    where = {"topic": topic, "partition": 1, "offset": stored.offset}
    (waiting,) = rpc.delayed.ListDelayed(delayed_pb2.ListDelayedRequest(topic=topic)).messages
    assert (waiting.deliver_at, waiting.key) == (stored.deliver_at, b"k")
    before = delayed_pb2.ListDelayedRequest(topic=topic, due_to=stored.deliver_at)
    assert list(rpc.delayed.ListDelayed(before).messages) == []
    later = delayed_pb2.RescheduleDelayedRequest(**where, delay=Duration(seconds=7200))
    assert rpc.delayed.RescheduleDelayed(later).deliver_at.seconds > waiting.deliver_at.seconds
    assert rpc.delayed.CancelDelayed(delayed_pb2.CancelDelayedRequest(**where)).cancelled
    described = rpc.delayed.DescribeDelayed(delayed_pb2.DescribeDelayedRequest(**where))
    assert (described.state, described.key, described.value) == ("cancelled", b"k", b"\xfe")
    assert described.headers == {"raw": '{"value":"/w==","encoding":"base64"}'}

    subject = new_name("subject")
    text = '{"type": "record", "name": "Order", "fields": []}'
    number = rpc.schemas.RegisterSchema(schema_pb2.RegisterSchemaRequest(subject=subject, schema=text)).id
    assert rpc.schemas.GetSchema(schema_pb2.GetSchemaRequest(id=number)).schema
    latest = rpc.schemas.GetVersion(schema_pb2.GetVersionRequest(subject=subject, version="latest"))
    assert (latest.id, latest.version) == (number, 1)
    tested = schema_pb2.TestCompatibilityRequest(subject=subject, version="latest", schema=text)
    assert rpc.schemas.TestCompatibility(tested).is_compatible
    removed = schema_pb2.DeleteVersionRequest(subject=subject, version="1")
    assert rpc.schemas.DeleteVersion(removed).version == 1
    assert rpc.topics.DeleteTopic(topic_pb2.DeleteTopicRequest(topic=topic)).deleted


def test_transaction_counts_as_a_whole(rpc_broker: LocalBroker, rpc: Stubs, new_name: Names) -> None:
    topic, name = new_name("orders"), new_name("tx")
    create(rpc_broker.url, topic)
    made = rpc.transactions.InitProducer(transaction_pb2.InitProducerRequest(transactional_id=name))
    whose = {"transactional_id": name, "producer_id": made.producer_id, "epoch": made.epoch}
    begun = rpc.transactions.BeginTransaction(transaction_pb2.BeginTransactionRequest(**whose))
    one = publish_pb2.PublishRequest(
        topic=topic, value=b"1", producer_id=made.producer_id, producer_epoch=made.epoch, sequence=0
    )
    assert rpc.publish.Publish(one).offset == 0
    assert rpc.publish.Publish(one).duplicate
    found = rpc.transactions.DescribeTransaction(
        transaction_pb2.DescribeTransactionRequest(transaction_id=begun.transaction_id)
    ).transaction
    assert (found.state, found.timeout_ms, found.partitions[0].topic) == ("ongoing", 60_000, topic)
    position = transaction_pb2.TransactionOffset(topic=topic, partition=0, offset=0)
    group = new_name("group")
    rpc.transactions.AddOffsets(transaction_pb2.AddOffsetsRequest(**whose, group=group, offsets=[position]))
    assert read(rpc_broker.url, topic) == []
    ended = rpc.transactions.CommitTransaction(transaction_pb2.CommitTransactionRequest(**whose))
    assert (ended.epoch, ended.state, ended.transaction_id) == (made.epoch + 1, "complete_commit", begun.transaction_id)
    assert [message["value"] for message in read(rpc_broker.url, topic)] == ["1"]
    ended_before = refusal(rpc.transactions.BeginTransaction, transaction_pb2.BeginTransactionRequest(**whose))
    assert (ended_before.code, ended_before.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "transaction_not_open")
    whose["epoch"] = ended.epoch
    rpc.publish.PublishBatch(
        publish_pb2.PublishBatchRequest(
            topic=topic, messages=outgoing(b"2"), producer_id=made.producer_id, producer_epoch=ended.epoch, begin=True
        )
    )
    rpc.transactions.AbortTransaction(transaction_pb2.AbortTransactionRequest(**whose, reason="no"))
    assert len(read(rpc_broker.url, topic)) == 1
    rpc.transactions.InitProducer(transaction_pb2.InitProducerRequest(transactional_id=name))
    former = transaction_pb2.InitProducerRequest(
        transactional_id=name, producer_id=made.producer_id, epoch=ended.epoch + 1
    )
    assert refusal(rpc.transactions.InitProducer, former).reason == "producer_fenced"


def test_refused_acks_of_a_transaction_are_listed_and_a_known_member_goes_on(
    rpc_broker: LocalBroker, rpc: Stubs, new_name: Names
) -> None:
    topic, group, name, url = new_name("orders"), new_name("group"), new_name("tx"), rpc_broker.url
    create(url, topic)
    rpc.publish.PublishBatch(publish_pb2.PublishBatchRequest(topic=topic, messages=outgoing(b"1", b"2")))
    member = ask(url, "POST", f"/groups/{group}/join", {"topics": [topic], "start": "earliest"}).json["member_id"]
    stream = rpc.consume.Subscribe(consume_pb2.SubscribeRequest(topics=[topic], group_id=group, member_id=member))
    assert next(stream).assignment.member_id == member
    first, second = (next(one) for one in [messages_of(stream)] * 2)
    release = ack_pb2.ExtendVisibilityRequest(receipt_handle=first.receipt_handle, visibility_timeout=Duration())
    assert rpc.acks.ExtendVisibility(release).success
    made = rpc.transactions.InitProducer(transaction_pb2.InitProducerRequest(transactional_id=name))
    whose = {"transactional_id": name, "producer_id": made.producer_id, "epoch": made.epoch}
    rpc.transactions.BeginTransaction(transaction_pb2.BeginTransactionRequest(**whose))
    receipts = [first.receipt_handle, second.receipt_handle]
    added = rpc.transactions.AddAcks(transaction_pb2.AddAcksRequest(**whose, receipts=receipts))
    assert [(one.receipt_handle, one.error.reason) for one in added.failures] == [(receipts[0], "lease_expired")]
    assert added.transaction_id == f"{made.producer_id}-{made.epoch}"
    rpc.transactions.AbortTransaction(transaction_pb2.AbortTransactionRequest(**whose))
    stream.cancel()


def test_group_receives_settles_and_resets(rpc_broker: LocalBroker, rpc: Stubs, new_name: Names) -> None:
    topic, group, url = new_name("orders"), new_name("group"), rpc_broker.url
    create(url, topic)
    values = [b"ack", b"nack", b"reject", b"extend"]
    rpc.publish.PublishBatch(publish_pb2.PublishBatchRequest(topic=topic, messages=outgoing(*values)))
    stream = rpc.consume.Subscribe(consume_pb2.SubscribeRequest(topics=[topic], group_id=group, consumer_id="till"))
    assignment = next(stream).assignment
    assert [(one.topic, one.partition) for one in assignment.partitions] == [(topic, 0)]
    found = messages_of(stream)
    first, again, bad, slow = (next(found) for _ in values)
    assert [one.value for one in (first, again, bad, slow)] == values
    assert rpc.acks.Ack(ack_pb2.AckRequest(receipt_handle=first.receipt_handle)).success
    nack = ack_pb2.NackRequest(receipt_handle=again.receipt_handle, visibility_timeout=Duration())
    assert rpc.acks.Nack(nack).success
    rejected = rpc.acks.Reject(ack_pb2.RejectRequest(receipt_handle=bad.receipt_handle, reason="not mine"))
    assert rejected.dlq_topic == f"{topic}.dlq"
    longer = ack_pb2.ExtendVisibilityRequest(
        receipt_handle=slow.receipt_handle, visibility_timeout=Duration(seconds=600)
    )  # longer than a step of the machine's clock
    assert rpc.acks.ExtendVisibility(longer).new_deadline.seconds > slow.timestamp.seconds + 300
    retried = next(found)
    assert (retried.value, retried.retry_count) == (b"nack", 1)
    handles = [retried.receipt_handle, first.receipt_handle, slow.receipt_handle]
    counted = rpc.acks.BatchAck(ack_pb2.BatchAckRequest(group_id=group, receipt_handles=handles))
    assert (counted.success_count, [one.receipt_handle for one in counted.failures]) == (2, [first.receipt_handle])
    late = refusal(rpc.acks.Ack, ack_pb2.AckRequest(receipt_handle=first.receipt_handle))
    assert (late.code, late.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "lease_expired")
    stream.cancel()
    committed = rpc.offsets.FetchOffsets(offset_pb2.FetchOffsetsRequest(group_id=group)).offsets
    assert [(one.topic, one.offset) for one in committed] == [(topic, 4)]
    back = offset_pb2.ResetOffsetsRequest(
        group_id=group, topic=topic, strategy=offset_pb2.OFFSET_RESET_STRATEGY_EARLIEST, dry_run=True
    )
    (planned,) = rpc.offsets.ResetOffsets(back).results
    assert (planned.old_offset, planned.new_offset) == (4, 0)


def test_the_program_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs/grpc.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it is ours
    with LocalBroker(str(tmp_path / "data"), grpc__port="0") as broker:
        create(broker.url, "orders")
        assert names["copy_one_order"](broker.daemon.rpc_address) == b"paid"


def test_any_endpoint_is_called_by_its_path(rpc_broker: LocalBroker, rpc: Stubs) -> None:
    rows = rpc.admin.ListEndpoints(admin_pb2.ListEndpointsRequest()).endpoints
    paths = ask(rpc_broker.url, "GET", "/openapi.json").json["paths"]
    assert {row.path for row in rows} == set(paths)
    answer = rpc.admin.Call(admin_pb2.CallRequest(method="GET", path="/topics?internal=true"))
    assert b"__metadata" in answer.body
    wrong = admin_pb2.CallRequest(method="POST", path="/topics", body='{"nam": "orders"}')
    assert refusal(rpc.admin.Call, wrong).reason == "request_invalid"
    assert refusal(rpc.admin.Call, admin_pb2.CallRequest(method="GET", path="/x")).code is grpc.StatusCode.UNIMPLEMENTED
    assert rpc.health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.SERVING_STATUS_SERVING
    standard = standard_health_grpc.HealthStub(rpc.channel)
    for service in ("", "goqueue.v1.PublishService"):
        asked = standard_health.HealthCheckRequest(service=service)
        assert standard.Check(asked).status == standard_health.HealthCheckResponse.SERVING
