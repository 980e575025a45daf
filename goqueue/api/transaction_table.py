"""The rows of producers and transactions."""

from goqueue import errors
from goqueue.api import publish_body, transaction_list, transactions
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import NO_PARTITION, NOT_IN_TRANSACTION, NOT_THE_PRODUCER, UNWRITABLE

_GROUP = (
    errors.GroupNameInvalid, errors.GroupNotFound, errors.GroupFull, errors.MemberUnknown, errors.GenerationStale,
    errors.PartitionNotOwned, errors.LeaseExpired, errors.ReceiptInvalid,
)  # fmt: skip
_ENDS = (*NOT_THE_PRODUCER, errors.TransactionNotOpen, errors.TransactionAborted, *UNWRITABLE)
_WHOSE = {"producer_id": 7, "epoch": 3, "transactional_id": "orders-1"}
_ENDED = {"transaction_id": "7-3", "state": "complete_commit", "producer_id": 7, "epoch": 4}

TRANSACTION_ENDPOINTS = (
    Endpoint(
        "POST", "/producers/init", transactions.init, "A new producer id, or the next epoch of a transactional id",
        errors=(
            errors.ProducerFenced, errors.UnknownProducer, errors.TransactionFull, errors.TransactionPending,
            *UNWRITABLE,
        ),
        example={"transactional_id": "orders-1"},
        answer_example={
            "producer_id": 7, "epoch": 3, "transactional_id": "orders-1", "transaction_timeout_ms": 60000,
        },
    ),
    Endpoint(
        "POST", "/producers/{producer}/heartbeat", transactions.heartbeat, "Send a producer heartbeat",
        errors=(*NOT_THE_PRODUCER, errors.TransactionNotOpen, errors.TransactionAborted),
        example={"epoch": 3}, answer_example={"ok": True},
    ),
    Endpoint(
        "POST", "/transactions/begin", transactions.begin, "Begin a transaction",
        errors=(*NOT_IN_TRANSACTION, *UNWRITABLE), example=_WHOSE,
        answer_example={"transaction_id": "7-3", "state": "ongoing", "epoch": 3, "transaction_timeout_ms": 60000},
    ),
    Endpoint(
        "POST", "/transactions/publish", transactions.publish, "Publish a message in a transaction",
        body_bytes=None, decode_large=publish_body.decode_publish_in,
        errors=(
            *NOT_IN_TRANSACTION, *NO_PARTITION, errors.MessageTooLarge, errors.SequenceOutOfOrder,
            errors.BrokerOverloaded, errors.SchemaViolation, errors.SchemasUnavailable, *UNWRITABLE,
        ),
        example={"producer_id": 7, "epoch": 3, "topic": "orders", "key": "user-42", "value": "paid"},
        answer_example={"partition": 1, "offset": 1024, "duplicate": False, "delayed": False},
    ),
    Endpoint(
        "POST", "/transactions/add-partition", transactions.add_partition, "Add a partition to a transaction",
        errors=(*NOT_IN_TRANSACTION, *NO_PARTITION, *UNWRITABLE),
        example={**_WHOSE, "topic": "orders", "partition": 1},
        answer_example={"added": True, "transaction_id": "7-3"},
    ),
    Endpoint(
        "POST", "/transactions/offsets", transactions.offsets, "Commit offsets of a group with the transaction",
        errors=(*NOT_IN_TRANSACTION, *NO_PARTITION, *_GROUP, errors.OffsetOutOfRange, *UNWRITABLE),
        example={"producer_id": 7, "epoch": 3, "group": "billing", "offsets": {"orders": {"0": 1024}}},
        answer_example={"ok": True, "transaction_id": "7-3"},
    ),
    Endpoint(
        "POST", "/transactions/acks", transactions.acks, "Acknowledge messages with the transaction",
        errors=(*NOT_IN_TRANSACTION, *_GROUP, *UNWRITABLE),
    ),
    Endpoint(
        "POST", "/transactions/join", transactions.join, "Add a producer to a transaction",
        errors=(*NOT_IN_TRANSACTION, *UNWRITABLE), example=_WHOSE,
        answer_example={"member_id": 8, "transaction_id": "7-3"},
    ),
    Endpoint(
        "POST", "/transactions/commit", transactions.commit,
        "Commit a transaction; answers when its messages can be read", errors=_ENDS,
        example=_WHOSE, answer_example=_ENDED,
    ),
    Endpoint(
        "POST", "/transactions/abort", transactions.abort, "Abort a transaction: its messages are not delivered",
        errors=_ENDS, example=_WHOSE, answer_example={**_ENDED, "state": "complete_abort"},
    ),
    Endpoint("GET", "/transactions", transaction_list.browse, "List transactions, the oldest first"),
    Endpoint("GET", "/transactions/stats", transaction_list.stats, "Statistics of transactions"),
    Endpoint(
        "GET", "/transactions/{transactional_id}", transaction_list.describe,
        "Describe the transaction of a transactional id", errors=(errors.ProducerNotFound,),
    ),
)  # fmt: skip
