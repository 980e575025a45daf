"""The endpoints of transactions."""

from goqueue import errors
from goqueue.api import producers, publish_body, transaction_list, transactions
from goqueue.api.endpoint import Endpoint

_UNAVAILABLE = (
    errors.LogFenced, errors.LogClosed, errors.DiskFull, errors.DiskFailed, errors.FilesExhausted,
    errors.BrokerStopping,
)  # fmt: skip
_NOT_ITS = (errors.ProducerNotFound, errors.UnknownProducer, errors.ProducerFenced, errors.TransactionPending)
_OPEN = (*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted, errors.TransactionFull)
_NO_TOPIC = (errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy, errors.PartitionNotFound)
_GROUP = (
    errors.GroupNameInvalid, errors.GroupNotFound, errors.GroupFull, errors.MemberUnknown, errors.GenerationStale,
    errors.PartitionNotOwned, errors.LeaseExpired, errors.ReceiptInvalid,
)  # fmt: skip
_ENDS = (*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted, *_UNAVAILABLE)
_WHOSE = {"producer_id": 7, "epoch": 3, "transactional_id": "orders-1"}
_ENDED = {"transaction_id": "7-3", "state": "complete_commit", "producer_id": 7, "epoch": 4}

TRANSACTION_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST", path="/producers/init", handler=producers.init,
        summary="A new producer id, or the next epoch of a transactional id", tag="transactions", permission="write",
        body=producers.NewProducer, answer=producers.ProducerIdentity,
        errors=(
            errors.ProducerFenced, errors.UnknownProducer, errors.TransactionFull, errors.TransactionPending,
            *_UNAVAILABLE,
        ),
        example={"transactional_id": "orders-1"},
        answer_example={
            "producer_id": 7, "epoch": 3, "transactional_id": "orders-1", "transaction_timeout_ms": 60000,
        },
    ),
    Endpoint(
        method="POST", path="/producers/{producer}/heartbeat", handler=producers.heartbeat,
        summary="A sign of life of a producer", tag="transactions", permission="write",
        body=producers.ProducerHeartbeat, answer=producers.HeartbeatTaken,
        errors=(*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted),
        example={"epoch": 3}, answer_example={"ok": True},
    ),
    Endpoint(
        method="POST", path="/transactions/begin", handler=transactions.begin, summary="Begin a transaction",
        tag="transactions", permission="write", body=transactions.Named, answer=transactions.Begun,
        errors=(*_OPEN, *_UNAVAILABLE), example=_WHOSE,
        answer_example={
            "transaction_id": "7-3", "state": "ongoing", "epoch": 3, "transaction_timeout_ms": 60000,
        },
    ),
    Endpoint(
        method="POST", path="/transactions/publish", handler=transactions.publish,
        summary="Publish a message in a transaction", tag="transactions", permission="write",
        body=transactions.PublishIn, answer=transactions.PublishedIn,
        body_bytes=None, decode_large=publish_body.decode_publish_in,
        errors=(
            *_OPEN, *_NO_TOPIC, errors.MessageTooLarge, errors.SequenceOutOfOrder, errors.BrokerOverloaded,
            *_UNAVAILABLE,
        ),
        example={"producer_id": 7, "epoch": 3, "topic": "orders", "key": "user-42", "value": "paid"},
        answer_example={"partition": 1, "offset": 1024, "duplicate": False, "delayed": False},
    ),
    Endpoint(
        method="POST", path="/transactions/add-partition", handler=transactions.add_partition,
        summary="Say that a transaction will write to a partition", tag="transactions", permission="write",
        body=transactions.AddPartition, answer=transactions.PartitionAdded,
        errors=(*_OPEN, *_NO_TOPIC, *_UNAVAILABLE),
        example={**_WHOSE, "topic": "orders", "partition": 1}, answer_example={"added": True, "transaction_id": "7-3"},
    ),
    Endpoint(
        method="POST", path="/transactions/offsets", handler=transactions.offsets,
        summary="Commit offsets of a group with the transaction", tag="transactions", permission="write",
        body=transactions.OffsetsIn, answer=transactions.OffsetsTaken,
        errors=(*_OPEN, *_NO_TOPIC, *_GROUP, errors.OffsetOutOfRange, *_UNAVAILABLE),
        example={"producer_id": 7, "epoch": 3, "group": "billing", "offsets": {"orders": {"0": 1024}}},
        answer_example={"ok": True, "transaction_id": "7-3"},
    ),
    Endpoint(
        method="POST", path="/transactions/acks", handler=transactions.acks,
        summary="Acknowledge messages with the transaction", tag="transactions", permission="write",
        body=transactions.AcksIn, answer=transactions.AcksTaken, errors=(*_OPEN, *_GROUP, *_UNAVAILABLE),
    ),
    Endpoint(
        method="POST", path="/transactions/join", handler=transactions.join,
        summary="Another producer for the same transaction", tag="transactions", permission="write",
        body=transactions.Join, answer=transactions.JoinedIn, errors=(*_OPEN, *_UNAVAILABLE), example=_WHOSE,
        answer_example={"member_id": 8, "transaction_id": "7-3"},
    ),
    Endpoint(
        method="POST", path="/transactions/commit", handler=transactions.commit,
        summary="Commit a transaction; answered when its messages can be read", tag="transactions", permission="write",
        body=transactions.Commit, answer=transactions.EndedAnswer, errors=_ENDS, example=_WHOSE,
        answer_example=_ENDED,
    ),
    Endpoint(
        method="POST", path="/transactions/abort", handler=transactions.abort,
        summary="Abort a transaction: nobody sees anything of it", tag="transactions", permission="write",
        body=transactions.Abort, answer=transactions.EndedAnswer, errors=_ENDS, example=_WHOSE,
        answer_example={**_ENDED, "state": "complete_abort"},
    ),
    Endpoint(
        method="GET", path="/transactions", handler=transaction_list.browse,
        summary="Transactions, the oldest first, and what they hold back", tag="transactions", permission="read",
        query=transaction_list.ListQuery, answer=transaction_list.TransactionList,
    ),
    Endpoint(
        method="GET", path="/transactions/stats", handler=transaction_list.stats,
        summary="Numbers of transactions", tag="transactions", permission="read",
        answer=transaction_list.TransactionStats,
    ),
    Endpoint(
        method="GET", path="/transactions/{transactional_id}", handler=transaction_list.describe,
        summary="The transaction of a transactional id, and how the one before it ended", tag="transactions",
        permission="read", answer=transaction_list.TransactionBody, errors=(errors.ProducerNotFound,),
    ),
)  # fmt: skip
