"""The table of all endpoints. What each needs is in `goqueue/api/permissions.py`, without which the import fails."""

from dataclasses import replace

from goqueue import errors
from goqueue.api import (
    dead_letters,
    delayed,
    groups,
    health,
    logs,
    members,
    offsets,
    operations,
    outgoing_message,
    polling,
    publish_body,
    publishing,
    reading,
    scaling,
    segments,
    settling,
    stats,
    topics,
    transaction_list,
    transactions,
)
from goqueue.api.alert_table import ALERT_ENDPOINTS
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import NO_PARTITION, NO_TOPIC, UNREADABLE, UNWRITABLE
from goqueue.api.permissions import PERMISSIONS
from goqueue.api.schemas_table import SCHEMA_ENDPOINTS
from goqueue.api.security_table import SECURITY_ENDPOINTS
from goqueue.api.trace_table import TRACE_ENDPOINTS
from goqueue.wire.headers import FRAMES, JSON, LEASES, OCTETS

_MESSAGE = {"key": "order-17", "value": "paid", "headers": {"source": "till-3"}}
_STORED = {"results": [{"partition": 1, "offset": 41, "priority": 2, "delayed": False}]}
_NO_SEGMENT = (*NO_PARTITION, errors.SegmentNotFound)
_DAMAGED = (*UNREADABLE, errors.RangeDamaged)
_NOT_ITS = (errors.ProducerNotFound, errors.UnknownProducer, errors.ProducerFenced, errors.TransactionPending)
_OPEN = (*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted, errors.TransactionFull)
_GROUP = (
    errors.GroupNameInvalid, errors.GroupNotFound, errors.GroupFull, errors.MemberUnknown, errors.GenerationStale,
    errors.PartitionNotOwned, errors.LeaseExpired, errors.ReceiptInvalid,
)  # fmt: skip
_ENDS = (*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted, *UNWRITABLE)
_WHOSE = {"producer_id": 7, "epoch": 3, "transactional_id": "orders-1"}
_ENDED = {"transaction_id": "7-3", "state": "complete_commit", "producer_id": 7, "epoch": 4}
_NOT_THERE = (*NO_PARTITION, errors.DelayedNotFound)
_DECIDED = (*_NOT_THERE, errors.DelayedNotPending, *UNWRITABLE)
_ONE, _MANY = "/topics/{topic}/delayed/{partition}/{offset}", (*NO_PARTITION, *UNWRITABLE)
_NO_GROUP = (errors.GroupNameInvalid, errors.GroupNotFound)
_NO_MEMBER = (*_NO_GROUP, errors.MemberUnknown)
_STALE = (*_NO_MEMBER, errors.GenerationStale)
_JOIN_ERRORS = (*NO_TOPIC, errors.GroupNameInvalid, errors.GroupMismatch, errors.GroupFull, *UNWRITABLE)
_RECEIPT_ERRORS = (errors.ReceiptInvalid, errors.LeaseExpired, *UNWRITABLE)
_POSITION_ERRORS = (*NO_PARTITION, errors.RangeDamaged, errors.OffsetOutOfRange)
_HANDLE, _MEMBER = "orders:1:41:1:30f1c2a4b5d6e7f8091a2b3c4d5e6f708", "till-3-8f14e45fceea167a"
_PLACE = {"topic": "orders", "partition": 0}
_JOIN = {"topics": ["orders"], "client_id": "till-3", "session_timeout": "30s"}


def _tagged(tag: str, *rows: Endpoint) -> tuple[Endpoint, ...]:
    return tuple(replace(row, tag=tag, permission=PERMISSIONS[f"{row.method} {row.path}"]) for row in rows)


ENDPOINTS: tuple[Endpoint, ...] = (
    *_tagged(
        "health",
        Endpoint("GET", "/health", health.health, "Health of the broker"),
        Endpoint("GET", "/healthz", health.live, "Liveness probe"),
        Endpoint("GET", "/livez", health.live, "Liveness probe"),
        Endpoint(
            "GET", "/readyz", health.ready, "Readiness probe", answer=health.ReadinessResponse, unwell_status=503,
        ),
        Endpoint("GET", "/version", health.version, "Version of the broker"),
        Endpoint("GET", "/stats", stats.stats, "Statistics of the broker and of all topics"),
        Endpoint("GET", "/stats/history", stats.history, "Rates, latencies, lag and disk over time", errors=_NO_GROUP),
        Endpoint("GET", "/doctor", health.examine_broker, "Findings of the broker about itself, and what to do"),
        Endpoint("GET", "/logs", logs.recent_lines, "The last lines of the broker's log"),
        Endpoint("GET", "/metrics", health.metrics, "Metrics for Prometheus", answer_type="text/plain"),
        Endpoint("GET", "/openapi.json", health.openapi, "This OpenAPI document", answer_type=JSON),
    ),
    *_tagged(
        "topics",
        Endpoint("GET", "/topics", topics.list_topics, "List topics", answer_example={"topics": ["orders", "refunds"]}),
        Endpoint(
            "POST", "/topics", topics.create, "Create a topic", body=topics.CreateTopicRequest, status=201,
            errors=(*NO_TOPIC, errors.TopicExists, errors.LogExists, *UNWRITABLE),
            example={"name": "orders", "num_partitions": 6, "retention_hours": 72},
            answer_example={"name": "orders", "partitions": 6, "created": True, "operation": 17},
        ),
        Endpoint("GET", "/topics/{topic}", topics.describe, "Describe a topic", errors=NO_TOPIC),
        Endpoint(
            "DELETE", "/topics/{topic}", topics.delete, "Delete a topic and its messages",
            errors=(*NO_TOPIC, *UNWRITABLE),
            answer_example={"deleted": True, "name": "orders", "delayed_deleted": 0, "operation": 17},
        ),
        Endpoint(
            "PATCH", "/admin/topics/{topic}", topics.alter, "Change a topic's settings",
            body=topics.AlterTopicRequest, errors=(*NO_TOPIC, *UNWRITABLE), example={"retention_hours": 24},
        ),
        Endpoint(
            "POST", "/admin/topics/{topic}/compact", topics.compact, "Compact a topic now; answers when it is done",
            errors=(*NO_TOPIC, errors.RangeDamaged, *UNWRITABLE),
        ),
        Endpoint(
            "POST", "/admin/topics/{topic}/partitions", scaling.scale, "Add partitions to a topic",
            errors=(*NO_TOPIC, errors.KeysWouldMove, *UNWRITABLE), example={"count": 12},
            answer_example={
                "success": True, "topic_name": "orders", "old_partition_count": 6, "new_partition_count": 12,
                "partitions_added": 6, "dry_run": False, "operation": 17,
            },
        ),
        Endpoint(
            "GET", "/admin/topics/{topic}/scaling-status", scaling.status,
            "Added partitions of a topic, and the groups that do not read them yet", errors=NO_TOPIC,
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions", topics.list_partitions,
            "List the partitions of a topic, with positions and sizes", errors=NO_TOPIC,
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/offset", topics.offset_at_time,
            "Find the first offset at or after a time", errors=(*NO_PARTITION, *_DAMAGED),
            answer_example={"partition": 0, "offset": 1024},
        ),
    ),
    *_tagged(
        "segments",
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/segments", segments.list_segments,
            "List the segments of a partition, oldest first",
            errors=(*NO_PARTITION, errors.LogFenced, errors.LogClosed),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/aborted", segments.list_aborted,
            "List the offsets of aborted messages", errors=(*NO_PARTITION, *_DAMAGED),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/segments/{segment}/log", segments.read_log,
            "Bytes of a segment as they are on disk; their checksums are not verified", answer_type=OCTETS,
            may_be_large=True, errors=(*_NO_SEGMENT, *_DAMAGED),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/segments/{segment}/index", segments.read_index,
            "The index of a segment, 24 bytes an entry: offset, position and time, big-endian", answer_type=OCTETS,
            errors=(*_NO_SEGMENT, *_DAMAGED),
        ),
    ),
    *_tagged(
        "messages",
        Endpoint(
            "POST", "/topics/{topic}/messages", publishing.publish, "Publish messages", is_hot=True,
            body=outgoing_message.PublishRequest, frames=True, body_bytes=None,
            decode_large=publish_body.decode_publish,
            errors=(
                *_OPEN, *NO_PARTITION, errors.FrameInvalid, errors.ChecksumMismatch, errors.MessageTooLarge,
                errors.SequenceOutOfOrder, errors.PartitionCountStale, errors.BrokerOverloaded, *UNWRITABLE,
            ),
            example={"messages": [_MESSAGE]}, answer_example=_STORED,
        ),
        Endpoint(
            "GET", "/topics/{topic}/messages", reading.read_topic, "Read messages of all partitions in time order",
            may_be_large=True, errors=(*NO_TOPIC, *_DAMAGED),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/messages", reading.read,
            f"Read messages of one partition, as JSON or, with Accept {FRAMES}, as frames", may_be_large=True,
            is_hot=True, waits=True, errors=(*NO_PARTITION, errors.OffsetOutOfRange, *_DAMAGED),
        ),
    ),
    *_tagged(
        "transactions",
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
            errors=(*_NOT_ITS, errors.TransactionNotOpen, errors.TransactionAborted),
            example={"epoch": 3}, answer_example={"ok": True},
        ),
        Endpoint(
            "POST", "/transactions/begin", transactions.begin, "Begin a transaction",
            errors=(*_OPEN, *UNWRITABLE), example=_WHOSE,
            answer_example={"transaction_id": "7-3", "state": "ongoing", "epoch": 3, "transaction_timeout_ms": 60000},
        ),
        Endpoint(
            "POST", "/transactions/publish", transactions.publish, "Publish a message in a transaction",
            body_bytes=None, decode_large=publish_body.decode_publish_in,
            errors=(
                *_OPEN, *NO_PARTITION, errors.MessageTooLarge, errors.SequenceOutOfOrder, errors.BrokerOverloaded,
                *UNWRITABLE,
            ),
            example={"producer_id": 7, "epoch": 3, "topic": "orders", "key": "user-42", "value": "paid"},
            answer_example={"partition": 1, "offset": 1024, "duplicate": False, "delayed": False},
        ),
        Endpoint(
            "POST", "/transactions/add-partition", transactions.add_partition, "Add a partition to a transaction",
            errors=(*_OPEN, *NO_PARTITION, *UNWRITABLE),
            example={**_WHOSE, "topic": "orders", "partition": 1},
            answer_example={"added": True, "transaction_id": "7-3"},
        ),
        Endpoint(
            "POST", "/transactions/offsets", transactions.offsets, "Commit offsets of a group with the transaction",
            errors=(*_OPEN, *NO_PARTITION, *_GROUP, errors.OffsetOutOfRange, *UNWRITABLE),
            example={"producer_id": 7, "epoch": 3, "group": "billing", "offsets": {"orders": {"0": 1024}}},
            answer_example={"ok": True, "transaction_id": "7-3"},
        ),
        Endpoint(
            "POST", "/transactions/acks", transactions.acks, "Acknowledge messages with the transaction",
            errors=(*_OPEN, *_GROUP, *UNWRITABLE),
        ),
        Endpoint(
            "POST", "/transactions/join", transactions.join, "Add a producer to a transaction",
            errors=(*_OPEN, *UNWRITABLE), example=_WHOSE, answer_example={"member_id": 8, "transaction_id": "7-3"},
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
    ),
    *_tagged(
        "delayed",
        Endpoint(
            "GET", "/topics/{topic}/delayed", delayed.browse, "List delayed messages in the order of delivery",
            errors=(*NO_PARTITION, *UNREADABLE),
        ),
        Endpoint(
            "GET", "/topics/{topic}/delayed/timeline", delayed.timeline, "Count delayed messages by delivery time",
            errors=(*NO_TOPIC, *UNREADABLE),
        ),
        Endpoint(
            "GET", "/topics/{topic}/delayed/{offset}", delayed.find,
            "Find a delayed message by its offset in any partition", answer=delayed.DelayedMessageJson,
            errors=(*NO_TOPIC, errors.DelayedNotFound, errors.DelayedAmbiguous, *UNREADABLE),
        ),
        Endpoint(
            "GET", _ONE, delayed.describe, "Describe a delayed message", answer=delayed.DelayedMessageJson,
            errors=(*_NOT_THERE, *UNREADABLE),
        ),
        Endpoint(
            "DELETE", _ONE, delayed.cancel, "Cancel a delayed message", errors=_DECIDED,
            answer_example={"cancelled": True, "operation": 17},
        ),
        Endpoint(
            "PATCH", _ONE, delayed.reschedule, "Reschedule a delayed message", errors=_DECIDED,
            example={"delay": "1h"},
        ),
        Endpoint(
            "POST", _ONE + "/deliver", delayed.deliver, "Deliver a delayed message now",
            errors=_DECIDED, answer_example={"delivered": True},
        ),
        Endpoint(
            "POST", "/topics/{topic}/delayed/cancel", delayed.cancel_many, "Cancel all delayed messages that match",
            errors=_MANY, example={"filter": ["key=order-17"], "dry_run": True},
            answer_example={"matched": 3, "scanned": 120, "changed": 0, "complete": True, "operation": None},
        ),
        Endpoint(
            "POST", "/topics/{topic}/delayed/reschedule", delayed.reschedule_many,
            "Reschedule all delayed messages that match", errors=_MANY, example={"shift": "1h"},
        ),
        Endpoint(
            "POST", "/topics/{topic}/delayed/deliver", delayed.deliver_many,
            "Deliver all delayed messages that match now", errors=_MANY,
            example={"partition": 0, "limit": 100},
        ),
        Endpoint("GET", "/delay/stats", stats.delay_stats, "Statistics of delayed messages"),
    ),
    *_tagged(
        "groups",
        Endpoint(
            "GET", "/groups", groups.list_groups, "List groups", answer_example={"groups": ["billing"]},
            errors=(errors.RangeDamaged, errors.DiskFailed, errors.FilesExhausted),
        ),
        Endpoint("GET", "/groups/{group}", groups.describe, "Describe a group: members and lag", errors=_NO_GROUP),
        Endpoint(
            "PATCH", "/groups/{group}", groups.alter,
            "Change how a group retries messages, leases them and gives them up",
            errors=(*_NO_GROUP, *UNWRITABLE), example={"max_retries": 5, "retry_delay": "2s"},
        ),
        Endpoint(
            "DELETE", "/groups/{group}", groups.delete, "Delete a group without members, and what it has read",
            errors=(*_NO_GROUP, errors.GroupNotEmpty, *UNWRITABLE),
            answer_example={"deleted": True, "group_id": "billing", "operation": 17},
        ),
        Endpoint(
            "POST", "/groups/{group}/join", members.join,
            "Join a group; a partition is revoked when none of its messages is in flight", errors=_JOIN_ERRORS,
            example=_JOIN,
        ),
        Endpoint(
            "POST", "/groups/{group}/join/cooperative", members.join_cooperative,
            "Join a group as a member that confirms revoked partitions itself", errors=_JOIN_ERRORS, example=_JOIN,
        ),
        Endpoint(
            "POST", "/groups/{group}/heartbeat", members.heartbeat, "Send a heartbeat", errors=_STALE,
            example={"member_id": _MEMBER, "generation": 4},
            answer_example={"rebalance_required": False, "state": "stable", "generation": 4},
        ),
        Endpoint(
            "POST", "/groups/{group}/heartbeat/cooperative", members.heartbeat_cooperative,
            "Send a heartbeat; answers with the partitions to revoke and to keep", errors=_STALE,
            example={"member_id": _MEMBER, "generation": 4},
        ),
        Endpoint(
            "POST", "/groups/{group}/revoke", members.revoke,
            "Confirm revoked partitions; their messages in flight go to other members", errors=(*_STALE, *UNWRITABLE),
            example={"member_id": _MEMBER, "generation": 4, "revoked_partitions": [_PLACE]},
            answer_example={"status": "ok", "pending_count": 0, "rebalance_state": "complete", "generation": 5},
        ),
        Endpoint("GET", "/groups/{group}/assignment", members.assignment, "Assignment of a member", errors=_NO_MEMBER),
        Endpoint(
            "POST", "/groups/{group}/leave", members.leave,
            "Leave a group; its messages in flight go to other members at once", errors=(*_NO_MEMBER, *UNWRITABLE),
            example={"member_id": _MEMBER}, answer_example={"left": True},
        ),
        Endpoint(
            "POST", "/groups/{group}/leave/cooperative", members.leave, "Leave a group, like the endpoint above",
            errors=(*_NO_MEMBER, *UNWRITABLE), example={"member_id": _MEMBER}, answer_example={"left": True},
        ),
        Endpoint(
            "GET", "/groups/{group}/poll", polling.poll,
            f"Poll messages as a member, as JSON or, with Accept {LEASES}, as frames", may_be_large=True,
            waits=True, errors=(*_STALE, errors.RangeDamaged, *UNWRITABLE),
        ),
        Endpoint(
            "POST", "/groups/{group}/settle", settling.settle, "Settle messages by leases and ranges of offsets",
            is_hot=True, errors=(*_STALE, *UNWRITABLE),
            example={
                "member_id": _MEMBER, "acks": [{**_PLACE, "lease": _HANDLE.rpartition(":")[2], "ranges": [[41, 141]]}],
            },
            answer_example={"acks": [{}], "nacks": [], "rejects": [], "releases": [], "extensions": []},
        ),
        Endpoint(
            "GET", "/groups/{group}/offsets", offsets.committed, "Committed offsets of a group", errors=_NO_GROUP,
            answer_example={"offsets": {"orders": {"0": 41}}},
        ),
        Endpoint(
            "POST", "/groups/{group}/offsets", offsets.commit, "Commit offsets",
            errors=(*_STALE, errors.PartitionNotOwned, errors.OffsetOutOfRange, *UNWRITABLE),
            example={"member_id": _MEMBER, "generation": 4, "offsets": {"orders": {"0": 41}}},
            answer_example={"committed": True, "offsets": {"orders": {"0": 41}}},
        ),
        Endpoint(
            "POST", "/groups/{group}/offsets/reset", offsets.reset,
            "Reset the offsets of a group, with or without members",
            errors=(*_POSITION_ERRORS, errors.GroupNameInvalid, errors.OperationNotFound, *UNWRITABLE),
            example={"topic": "orders", "to": "time", "time": "2026-03-01T12:00:00Z", "dry_run": True},
        ),
        Endpoint(
            "GET", "/groups/{group}/cooperative", groups.cooperative, "Assignments and rebalances of a group",
            errors=_NO_GROUP,
        ),
        Endpoint(
            "GET", "/groups/{group}/rebalance/stats", groups.rebalance_stats,
            "Rebalances of one group since the broker started", errors=_NO_GROUP,
        ),
        Endpoint("GET", "/rebalance/stats", groups.rebalance_stats, "Rebalances of all groups since the start"),
    ),
    *_tagged(
        "operations",
        Endpoint("GET", "/operations", operations.browse, "List what operators changed, the newest first"),
        Endpoint(
            "GET", "/operations/{operation}", operations.describe, "Describe an operation: what was before, and after",
            may_be_large=True, errors=(errors.OperationNotFound,),
        ),
        Endpoint(
            "POST", "/operations/{operation}/undo", operations.undo,
            "Undo an operation, or show what that would change",
            errors=(
                errors.OperationNotFound, errors.OperationNotUndoable, errors.OperationOutdated, errors.GroupNotEmpty,
                *NO_PARTITION, *UNWRITABLE,
            ),
            example={"dry_run": True},
        ),
    ),
    *_tagged(
        "delivery",
        Endpoint(
            "POST", "/messages/ack", settling.ack, "Acknowledge messages", is_hot=True, errors=_RECEIPT_ERRORS,
            example={"receipt_handle": _HANDLE},
            answer_example={"acknowledged": True, "results": [{"receipt_handle": _HANDLE}]},
        ),
        Endpoint(
            "POST", "/messages/nack", settling.nack, "Nack messages: they are retried later", errors=_RECEIPT_ERRORS,
            example={"receipt_handle": _HANDLE, "delay": "5s", "reason": "no stock"},
            answer_example={"requeued": True, "results": [{"receipt_handle": _HANDLE}]},
        ),
        Endpoint(
            "POST", "/messages/reject", settling.reject, "Reject messages: they go to the dead-letter queue",
            errors=(*_RECEIPT_ERRORS, errors.DeadLetterFinal),
            example={"receipt_handle": _HANDLE, "reason": "no such customer"},
            answer_example={
                "rejected": True, "dlq_topic": "orders.dlq",
                "results": [{"receipt_handle": _HANDLE, "dlq_topic": "orders.dlq"}],
            },
        ),
        Endpoint(
            "POST", "/messages/visibility", settling.extend, "Extend the visibility timeout of messages",
            errors=_RECEIPT_ERRORS, example={"receipt_handle": _HANDLE, "timeout": "2m"},
        ),
        Endpoint(
            "GET", "/topics/{topic}/dead-letters", dead_letters.browse,
            "List dead letters that were not redriven, with their errors", errors=_POSITION_ERRORS,
        ),
        Endpoint(
            "GET", "/topics/{topic}/dead-letters/errors", dead_letters.errors, "Count dead letters by error",
            errors=_POSITION_ERRORS,
            answer_example={"errors": {"no such customer": 17}, "next": {"0": 17}, "complete": True},
        ),
        Endpoint(
            "POST", "/topics/{topic}/redrive", dead_letters.redrive,
            "Redrive dead letters to their topics, or to another topic",
            errors=(*_POSITION_ERRORS, errors.OperationNotFound, *UNWRITABLE),
            example={"error": "no such customer", "limit": 100, "rate": 50, "dry_run": True},
        ),
        Endpoint(
            "GET", "/reliability/stats", stats.reliability_stats,
            "Settled messages since the broker started, and messages in flight",
        ),
        Endpoint(
            "GET", "/priority/stats", stats.priority_stats, "Messages by priority: ready, in flight and delivered",
            errors=(*NO_TOPIC, *_NO_GROUP, errors.LogFenced, errors.LogClosed, errors.DiskFailed),
        ),
    ),
    *_tagged("traces", *TRACE_ENDPOINTS), *_tagged("alerts", *ALERT_ENDPOINTS),
    *_tagged("security", *SECURITY_ENDPOINTS),
    *_tagged("schemas", *SCHEMA_ENDPOINTS),
)  # fmt: skip
