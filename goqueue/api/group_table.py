"""The rows of groups, and of the delivery of their messages."""

from goqueue import errors
from goqueue.api import dead_letters, groups, members, offsets, polling, settling, stats
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import NO_GROUP, NO_PARTITION, NO_TOPIC, UNWRITABLE
from goqueue.wire.headers import LEASES

_NO_MEMBER = (*NO_GROUP, errors.MemberUnknown)
_STALE = (*_NO_MEMBER, errors.GenerationStale)
_JOIN_ERRORS = (
    *NO_TOPIC, errors.GroupNameInvalid, errors.GroupMismatch, errors.GroupFull, *UNWRITABLE,
)  # fmt: skip
_RECEIPT_ERRORS = (errors.ReceiptInvalid, errors.LeaseExpired, *UNWRITABLE)
_POSITION_ERRORS = (*NO_PARTITION, errors.RangeDamaged, errors.OffsetOutOfRange)
_HANDLE, _MEMBER = "orders:1:41:1:30f1c2a4b5d6e7f8091a2b3c4d5e6f708", "till-3-8f14e45fceea167a"
_PLACE = {"topic": "orders", "partition": 0}
_JOIN = {"topics": ["orders"], "client_id": "till-3", "session_timeout": "30s"}

GROUP_ENDPOINTS = (
    Endpoint(
        "GET", "/groups", groups.list_groups, "List groups", answer_example={"groups": ["billing"]},
        errors=(errors.RangeDamaged, errors.DiskFailed, errors.FilesExhausted),
    ),
    Endpoint("GET", "/groups/{group}", groups.describe, "Describe a group: members and lag", errors=NO_GROUP),
    Endpoint(
        "PATCH", "/groups/{group}", groups.alter,
        "Change how a group retries messages, leases them and gives them up",
        errors=(*NO_GROUP, *UNWRITABLE), example={"max_retries": 5, "retry_delay": "2s"},
    ),
    Endpoint(
        "DELETE", "/groups/{group}", groups.delete, "Delete a group without members, and what it has read",
        errors=(*NO_GROUP, errors.GroupNotEmpty, *UNWRITABLE),
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
        "GET", "/groups/{group}/offsets", offsets.committed, "Committed offsets of a group", errors=NO_GROUP,
        answer_example={"offsets": {"orders": {"0": 41}}},
    ),
    Endpoint(
        "POST", "/groups/{group}/offsets", offsets.commit, "Commit offsets",
        errors=(*_STALE, *NO_PARTITION, errors.PartitionNotOwned, errors.OffsetOutOfRange, *UNWRITABLE),
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
        errors=NO_GROUP,
    ),
    Endpoint(
        "GET", "/groups/{group}/rebalance/stats", groups.rebalance_stats,
        "Rebalances of one group since the broker started", errors=NO_GROUP,
    ),
    Endpoint("GET", "/rebalance/stats", groups.rebalance_stats, "Rebalances of all groups since the start"),
)  # fmt: skip

DELIVERY_ENDPOINTS = (
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
        errors=(*NO_TOPIC, *NO_GROUP, errors.LogFenced, errors.LogClosed, errors.DiskFailed),
    ),
)  # fmt: skip
