"""Writing in transactions: all rows of a micro-batch, or of a batch write, are seen at once or never.

The driver takes the transactional id over before the tasks begin, which aborts what another writer left open, and
it commits when all of them have succeeded. Each attempt of a task joins as a producer of its own. At the commit it is
said whose messages count: those of attempts that failed, or came second, are aborted with it.

What must stay true:

- A transaction is begun by the first rows of its batch, and the one before has ended by then. So when the broker's
  last commit was for this very batch, Spark only does not know it yet: then nothing is written again.
- Who was taken over from holds an epoch that is over. Nothing that it still does has an effect.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from goqueue.client import Client, transaction_requests
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.errors import GoQueueError, ProducerFenced
from goqueue.spark.sink.options import WriteOptions
from goqueue.spark.sink.producer import TaskIdentity, batch_note, parse_batch_note, write_note
from goqueue.spark.sink.writer import TaskWriteResult, client_of, query_and_batch, task_context, topic_to_write, write

_FAILED = "a task of the write failed"
_COMMITTED = "complete_commit"


@dataclass(frozen=True, slots=True)
class AcquiredTransaction:
    """The transaction that this write may begin."""

    whose: TransactionIdentity
    last: str
    """What the latest commit was for; nothing, where the transaction before was aborted."""


@dataclass(frozen=True)
class TransactionalWriteResult(WriterCommitMessage):
    """The messages that one attempt of a task has written, and its producer."""

    written: TaskWriteResult
    turn: AcquiredTransaction
    member: int
    note: str
    """What the transaction is for."""


@dataclass(frozen=True)
class SkippedWrite(WriterCommitMessage):
    """There was nothing to write, or it was written already."""


def acquire_transactional_id(options: WriteOptions) -> AcquiredTransaction:
    """Take over the transactional id; an open transaction is aborted."""
    name = options.transactional_id
    assert name is not None, "there is one, or the write is none of these"
    with client_of(options) as client:
        producer, epoch = client.call(transaction_requests.init(name, options.transaction_seconds))
        last = client.transaction(name)["last"]
    note = last["note"] if last is not None and last["state"] == _COMMITTED else ""
    return AcquiredTransaction(TransactionIdentity(name, producer, epoch), note)


def write_in(
    options: WriteOptions, turn: AcquiredTransaction, note: str, batches: Iterator[pa.RecordBatch]
) -> TransactionalWriteResult | SkippedWrite:
    """Write the rows of a task. A task without rows does not join, so that an empty batch makes no transaction."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return SkippedWrite()
    with client_of(options) as client:
        member = client.call(transaction_requests.join(turn.whose, begin=True))
    written = write(options, TaskIdentity(member), task_context().partitionId(), chain((first,), batches), turn.whose)
    return TransactionalWriteResult(written, turn, member, note)


def commit(options: WriteOptions, messages: "Sequence[WriterCommitMessage | None]") -> None:
    """Have count what these tasks have written."""
    joined = [message for message in messages if isinstance(message, TransactionalWriteResult)]
    if joined:
        members = [message.member for message in joined]
        with client_of(options) as client:
            client.call(transaction_requests.commit(joined[0].turn.whose, members, joined[0].note))


def abort(client: Client, whose: TransactionIdentity) -> None:
    """Have nothing of it count. If that cannot be said now, the next one who takes over says it."""
    with suppress(GoQueueError):
        client.call(transaction_requests.abort(whose, _FAILED))


class TransactionalWriter(DataSourceArrowWriter):
    """A batch write. It is made once, on the driver, and is pickled for tasks and for the commit."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._note = write_note(options.write_id or uuid4().hex)
        self._turn = acquire_transactional_id(options)
        if options.topic is not None:
            with client_of(options) as client:
                topic_to_write(client, options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionalWriteResult | SkippedWrite:
        if self._turn.last == self._note:
            return SkippedWrite()
        return write_in(self._options, self._turn, self._note, iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        commit(self._options, messages)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:  # noqa: ARG002
        with client_of(self._options) as client:
            abort(client, self._turn.whose)


class TransactionalStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query.

    For each micro-batch Spark makes one that leaves for the tasks, before they begin, and another one to commit it,
    which stays where it is. So the one that leaves takes over.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._turn: AcquiredTransaction | None = None

    def __getstate__(self) -> dict[str, object]:
        if self._turn is None:  # Spark asks twice
            self._turn = acquire_transactional_id(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TransactionalWriteResult | SkippedWrite:
        assert self._turn is not None, "it has been on its way"
        query, batch = query_and_batch()
        if _is_written(self._turn, query, batch):
            return SkippedWrite()
        return write_in(self._options, self._turn, batch_note(query, batch), iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: ARG002, N803
        commit(self._options, messages)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: ARG002, N803
        """Abort the transaction. Where no task has succeeded, the broker is asked for the epoch."""
        joined = [message.turn.whose for message in messages if isinstance(message, TransactionalWriteResult)]
        with suppress(GoQueueError), client_of(self._options) as client:
            for whose in joined[:1] or _open(client, self._options):
                abort(client, whose)


def _is_written(turn: AcquiredTransaction, query: str, batch: int) -> bool:
    """Test if the latest commit was for this micro-batch; an older one is refused, to not be written twice."""
    last = parse_batch_note(turn.last, query)
    if last is not None and last > batch:
        raise ProducerFenced(
            f"micro-batch {last} of this query was committed to {turn.whose.transactional_id}, this is {batch}",
            hint="its checkpoint is older than the topic: begin a new one, for another topic",
        )
    return last == batch


def _open(client: Client, options: WriteOptions) -> list[TransactionIdentity]:
    assert options.transactional_id is not None
    found = client.transaction(options.transactional_id)
    return [TransactionIdentity(found["transactional_id"], found["producer_id"], found["epoch"])] * (
        found["state"] == "ongoing"
    )
