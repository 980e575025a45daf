"""Writing rows into topics: each task is a producer of its own, which may be started again without harm.

What is sent cannot be taken back, so a write that fails leaves what its tasks have stored so far. Written again
under the same identity, that is stored no second time.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from goqueue.client import Client, address, admin_requests
from goqueue.client.admin_requests import TopicInfo
from goqueue.client.api_request import Sender, check_api_key
from goqueue.client.connection import Connection
from goqueue.client.servers import Servers
from goqueue.client.tls import tls_context
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.errors import (
    MessageTooLarge,
    ProducerFenced,
    RequestInvalid,
    SparkUnavailable,
    TopicExists,
    TopicNotFound,
)
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.spark.logs.port import PartitionRef
from goqueue.spark.sink.frames import EncodedFrames, encode
from goqueue.spark.sink.options import WriteOptions
from goqueue.spark.sink.producer import PipelinedConnection, TaskIdentity, TaskProducer, stream_identity, write_identity
from goqueue.spark.sink.rows import PartitionRouter, SinkRows, read_rows, split_large_batch
from goqueue.storage import frame

_CONNECT_SECONDS = 5.0
_OLDER = "a later micro-batch of this query has been written: its checkpoint is older than the topic"
_TAKEN_OVER = "the query was started again, or another write has the same transactional_id"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # what Spark tells the tasks of a streaming query


@dataclass(frozen=True)
class TaskWriteResult(WriterCommitMessage):
    """The number of messages that one task has stored, by partition."""

    counts: dict[PartitionRef, int] = field(default_factory=dict)


class GoQueueWriter(DataSourceArrowWriter):
    """A batch write. It is made once, on the driver, and its identity travels with it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._write = options.write_id or uuid4().hex
        if options.topic is not None:
            with client_of(options) as client:
                topic_to_write(client, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWriteResult:
        task = task_context().partitionId()
        return write(self._options, write_identity(self._write, task), task, iterator)


class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query. Nothing is left to commit: what a task reports is stored."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWriteResult:
        query, batch = query_and_batch()
        task = task_context().partitionId()
        return write(self._options, stream_identity(query, batch, task), task, iterator)


def query_and_batch() -> tuple[str, int]:
    """Return the query and the number of the micro-batch that this task works for."""
    context = task_context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise SparkUnavailable("Spark does not tell its tasks which query they work for")
    return query, int(batch)


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context


def client_of(options: WriteOptions) -> Client:
    return Client(
        options.url,
        options.delivery_seconds,
        connect_timeout=_CONNECT_SECONDS,
        api_key=options.token,
        tenant=options.tenant,
        tls=options.tls,
    )


def topic_to_write(client: Client, name: str) -> TopicInfo:
    """Return the topic; a broker with topics.auto_create creates it."""
    try:
        return client.topic(name)
    except TopicNotFound:
        try:
            client.call(admin_requests.create_on_publish(name))
        except TopicExists:  # another task was quicker
            pass
        except TopicNotFound as error:
            error.hint = "create it before it is written to, or let the broker create topics (topics.auto_create)"
            raise
        return client.topic(name)


def write(
    options: WriteOptions,
    who: TaskIdentity,
    task: int,
    batches: Iterator[pa.RecordBatch],
    whose: TransactionIdentity | None = None,
) -> TaskWriteResult:
    """Write all rows of a task, in their order; with `whose`, in that transaction."""
    with ExitStack() as owned:
        client = owned.enter_context(client_of(options))
        servers = Servers(address.parse_all(options.url))
        sender = Sender(check_api_key(options.token), options.tenant or None)
        connection = Connection(servers, _CONNECT_SECONDS, tls_context(servers.current, options.tls), sender)
        owned.callback(connection.close)
        wire = PipelinedConnection(connection, options.delivery_seconds)
        delivery = TaskProducer(client, wire, who, options.delivery_seconds, whose)
        outbox = _RowRouter(options.topic, client, delivery, task, 0 if whose is None else frame.TRANSACTIONAL)
        try:
            for batch in batches:
                for piece in split_large_batch(batch):
                    outbox.put(read_rows(piece))
            lanes = delivery.finish()
        except ProducerFenced as error:
            error.hint = _OLDER if whose is None else _TAKEN_OVER
            raise
    return TaskWriteResult({(lane.topic, lane.partition): lane.count for lane in lanes})


class _RowRouter:
    """Sorts rows by where they go. Those for one partition keep their order."""

    def __init__(self, topic: str | None, client: Client, delivery: TaskProducer, task: int, flags: int) -> None:
        self._topic = topic
        self._client = client
        self._delivery = delivery
        self._task = task
        self._flags = flags
        self._routers: dict[str, PartitionRouter] = {}

    def put(self, rows: SinkRows) -> None:
        if self._topic is not None:
            self._put(self._topic, rows)
            return
        assert rows.topics is not None, "the columns were checked"
        encoded = rows.topics.dictionary_encode()
        if encoded.null_count:
            raise RequestInvalid("a row has no topic", hint="fill the column, or give the option topic for all rows")
        names = encoded.dictionary.to_pylist()
        for number, name in enumerate(names):
            if len(names) == 1:
                self._put(name, rows)
            else:
                chosen = np.flatnonzero(np.array(encoded.indices) == number)
                given = None if rows.partitions is None else rows.partitions.take(pa.array(chosen))
                self._put(name, SinkRows(rows.messages.take(chosen), None, given))

    def _put(self, name: str, rows: SinkRows) -> None:
        messages = rows.messages
        if not len(messages):
            return
        router = self._routers.get(name)
        if router is None:
            router = self._routers[name] = PartitionRouter(topic_to_write(self._client, name), self._task)
        partitions = router.route(len(messages), messages.keys, rows.partitions)
        first = int(partitions[0])
        if (partitions == first).all():
            self._deliver(router.topic, first, encode(messages, self._flags))
            return
        order = np.argsort(partitions, kind="stable")
        frames = encode(messages.take(order), self._flags)
        numbers, starts = np.unique(partitions[order], return_index=True)
        ends = [*starts[1:].tolist(), len(messages)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            self._deliver(router.topic, number, frames.rows(start, end))

    def _deliver(self, topic: TopicInfo, partition: int, frames: EncodedFrames) -> None:
        largest = int(np.diff(frames.edges).max()) - FRAME_HEADER_BYTES
        if largest > topic.message_bytes_max:
            raise MessageTooLarge(
                f"a message has {largest} bytes, topic {topic.name} takes {topic.message_bytes_max}",
                hint="write less, or raise max_message_bytes of the topic",
            )
        self._delivery.add(topic.name, partition, frames)
