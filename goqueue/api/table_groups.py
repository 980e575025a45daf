"""The endpoints of groups: a part of the table."""

from goqueue import errors
from goqueue.api import deadletters, group_details, groups, members, offsets, polling, priorities, settling
from goqueue.api.endpoint import Endpoint
from goqueue.api.openapi import LEASES

_UNAVAILABLE = (
    errors.LogFenced, errors.LogClosed, errors.DiskFull, errors.DiskFailed, errors.FilesExhausted,
    errors.BrokerStopping,
)  # fmt: skip
_NO_GROUP = (errors.GroupNameInvalid, errors.GroupNotFound)
_NO_MEMBER = (*_NO_GROUP, errors.MemberUnknown)
_STALE = (*_NO_MEMBER, errors.GenerationStale)
_JOIN_ERRORS = (
    errors.GroupNameInvalid, errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy, errors.GroupMismatch,
    errors.GroupFull, *_UNAVAILABLE,
)  # fmt: skip
_RECEIPT_ERRORS = (errors.ReceiptInvalid, errors.LeaseExpired, *_UNAVAILABLE)
_DEAD_LETTER_ERRORS = (
    errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy, errors.PartitionNotFound, errors.RangeDamaged,
    errors.OffsetOutOfRange,
)  # fmt: skip
_HANDLE = "orders:1:41:1:30f1c2a4b5d6e7f8091a2b3c4d5e6f708"
_MEMBER = "till-3-8f14e45fceea167a"
_PLACE = {"topic": "orders", "partition": 0}
_JOIN = {"topics": ["orders"], "client_id": "till-3", "session_timeout": "30s"}

GROUP_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET", path="/groups", handler=group_details.list_groups,
        summary="Names of all groups, and with details how each is doing", tag="groups", permission="read",
        query=group_details.GroupsQuery, answer=group_details.GroupNames, answer_example={"groups": ["billing"]},
        errors=(errors.RangeDamaged, errors.DiskFailed, errors.FilesExhausted),
    ),
    Endpoint(
        method="GET", path="/groups/{group}", handler=groups.describe,
        summary="A group: its members, and how far behind they are", tag="groups", permission="read",
        answer=groups.GroupDescription, errors=_NO_GROUP,
    ),
    Endpoint(
        method="DELETE", path="/groups/{group}", handler=groups.delete,
        summary="Delete a group without members, and what it has read", tag="groups", permission="admin",
        answer=groups.GroupRemoved, errors=(*_NO_GROUP, errors.GroupNotEmpty, *_UNAVAILABLE),
        answer_example={"deleted": True, "group_id": "billing"},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/join", handler=members.join,
        summary="Become a member, or join again; a partition is given up as soon as nothing of it is in hand",
        tag="groups", permission="read", body=members.JoinRequest, answer=members.Joined, errors=_JOIN_ERRORS,
        example=_JOIN,
    ),
    Endpoint(
        method="POST", path="/groups/{group}/join/cooperative", handler=members.join_cooperative,
        summary="The same for a member that says itself when it has given a partition up", tag="groups",
        permission="read", body=members.JoinRequest, answer=members.Joined, errors=_JOIN_ERRORS, example=_JOIN,
    ),
    Endpoint(
        method="POST", path="/groups/{group}/heartbeat", handler=members.heartbeat, summary="A sign of life",
        tag="groups", permission="read", body=members.HeartbeatRequest, answer=members.Heartbeat, errors=_STALE,
        example={"member_id": _MEMBER, "generation": 4},
        answer_example={"rebalance_required": False, "state": "stable", "generation": 4},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/heartbeat/cooperative", handler=members.heartbeat_cooperative,
        summary="A sign of life; the answer says what to give up and what there is", tag="groups", permission="read",
        body=members.HeartbeatRequest, answer=members.CooperativeHeartbeat, errors=_STALE,
        example={"member_id": _MEMBER, "generation": 4},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/revoke", handler=members.revoke,
        summary="Give up partitions that were asked for; what is in hand there goes to others", tag="groups",
        permission="read", body=members.RevokeRequest, answer=members.Revoked, errors=(*_STALE, *_UNAVAILABLE),
        example={"member_id": _MEMBER, "generation": 4, "revoked_partitions": [_PLACE]},
        answer_example={"status": "ok", "pending_count": 0, "rebalance_state": "complete", "generation": 5},
    ),
    Endpoint(
        method="GET", path="/groups/{group}/assignment", handler=members.assignment, summary="What a member has",
        tag="groups", permission="read", query=members.AssignmentQuery, answer=members.Assignment, errors=_NO_MEMBER,
    ),
    Endpoint(
        method="POST", path="/groups/{group}/leave", handler=members.leave,
        summary="Leave; what is in hand goes to others at once", tag="groups", permission="read",
        body=members.LeaveRequest, answer=members.Left, errors=(*_NO_MEMBER, *_UNAVAILABLE),
        example={"member_id": _MEMBER}, answer_example={"left": True},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/leave/cooperative", handler=members.leave, summary="The same",
        tag="groups", permission="read", body=members.LeaveRequest, answer=members.Left,
        errors=(*_NO_MEMBER, *_UNAVAILABLE), example={"member_id": _MEMBER}, answer_example={"left": True},
    ),
    Endpoint(
        method="GET", path="/groups/{group}/poll", handler=polling.poll,
        summary=f"Messages for a member, as JSON or, with Accept {LEASES}, as frames", tag="groups",
        permission="read", query=polling.PollQuery, answer=polling.Polled, may_be_large=True,
        errors=(*_STALE, errors.RangeDamaged, *_UNAVAILABLE),
    ),
    Endpoint(
        method="POST", path="/groups/{group}/settle", handler=settling.settle,
        summary="All that a member has to say of its messages, by leases and ranges", tag="groups",
        permission="read", body=settling.SettleRequest, answer=settling.SettleAnswer, errors=(*_STALE, *_UNAVAILABLE),
        example={
            "member_id": _MEMBER,
            "acks": [{**_PLACE, "lease": _HANDLE.rpartition(":")[2], "ranges": [[41, 141]]}],
        },
        answer_example={"acks": [{}], "nacks": [], "rejects": [], "releases": [], "extensions": []},
    ),
    Endpoint(
        method="GET", path="/groups/{group}/offsets", handler=offsets.committed,
        summary="Below which offsets everything is done with", tag="groups", permission="read",
        query=offsets.OffsetsQuery, answer=offsets.CommittedOffsets, errors=_NO_GROUP,
        answer_example={"offsets": {"orders": {"0": 41}}},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/offsets", handler=offsets.commit,
        summary="Everything below these offsets is done with", tag="groups", permission="read",
        body=offsets.CommitRequest, answer=offsets.CommitAnswer,
        errors=(*_STALE, errors.PartitionNotOwned, errors.OffsetOutOfRange, *_UNAVAILABLE),
        example={"member_id": _MEMBER, "generation": 4, "offsets": {"orders": {"0": 41}}},
        answer_example={"committed": True, "offsets": {"orders": {"0": 41}}},
    ),
    Endpoint(
        method="POST", path="/groups/{group}/offsets/reset", handler=offsets.reset,
        summary="Have a group read on from elsewhere, while it is at work too", tag="groups", permission="admin",
        body=offsets.ResetRequest, answer=offsets.ResetAnswer,
        errors=(
            errors.GroupNameInvalid, errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy,
            errors.PartitionNotFound, errors.OffsetOutOfRange, errors.RangeDamaged, *_UNAVAILABLE,
        ),
        example={"topic": "orders", "to": "time", "time": "2026-03-01T12:00:00Z", "dry_run": True},
    ),
    Endpoint(
        method="GET", path="/groups/{group}/cooperative", handler=groups.cooperative,
        summary="Who has what, and how rebalances went", tag="groups", permission="read",
        answer=groups.CooperativeGroup, errors=_NO_GROUP,
    ),
    Endpoint(
        method="GET", path="/groups/{group}/rebalance/stats", handler=groups.rebalance_stats,
        summary="Rebalances of one group since the broker started", tag="groups", permission="read",
        answer=groups.RebalanceNumbers, errors=_NO_GROUP,
    ),
    Endpoint(
        method="GET", path="/rebalance/stats", handler=groups.rebalance_stats,
        summary="Rebalances of all groups since the broker started", tag="groups", permission="read",
        answer=groups.RebalanceNumbers,
    ),
    Endpoint(
        method="POST", path="/messages/ack", handler=settling.ack, summary="These messages are done with",
        tag="delivery", permission="read", body=settling.Receipts, answer=settling.Acknowledged,
        errors=_RECEIPT_ERRORS, example={"receipt_handle": _HANDLE},
        answer_example={"acknowledged": True, "results": [{"receipt_handle": _HANDLE}]},
    ),
    Endpoint(
        method="POST", path="/messages/nack", handler=settling.nack, summary="Try these messages again later",
        tag="delivery", permission="read", body=settling.NackRequest, answer=settling.Requeued,
        errors=_RECEIPT_ERRORS, example={"receipt_handle": _HANDLE, "delay": "5s", "reason": "no stock"},
        answer_example={"requeued": True, "results": [{"receipt_handle": _HANDLE}]},
    ),
    Endpoint(
        method="POST", path="/messages/reject", handler=settling.reject,
        summary="These messages go to the dead letters", tag="delivery", permission="read",
        body=settling.RejectRequest, answer=settling.Rejected, errors=(*_RECEIPT_ERRORS, errors.DeadLetterFinal),
        example={"receipt_handle": _HANDLE, "reason": "no such customer"},
        answer_example={
            "rejected": True, "dlq_topic": "orders.dlq",
            "results": [{"receipt_handle": _HANDLE, "dlq_topic": "orders.dlq"}],
        },
    ),
    Endpoint(
        method="POST", path="/messages/visibility", handler=settling.extend,
        summary="These messages are lent for longer", tag="delivery", permission="read",
        body=settling.VisibilityRequest, answer=settling.Extended, errors=_RECEIPT_ERRORS,
        example={"receipt_handle": _HANDLE, "timeout": "2m"},
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/dead-letters", handler=deadletters.browse,
        summary="Dead letters that were not sent back, and how they failed", tag="delivery", permission="read",
        query=deadletters.DeadLettersQuery, answer=deadletters.DeadLetters, errors=_DEAD_LETTER_ERRORS,
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/dead-letters/errors", handler=deadletters.errors,
        summary="Why dead letters have failed, and how many", tag="delivery", permission="read",
        answer=deadletters.ErrorsAnswer, errors=_DEAD_LETTER_ERRORS,
        answer_example={"errors": {"no such customer": 17}, "next": {"0": 17}, "complete": True},
    ),
    Endpoint(
        method="POST", path="/topics/{topic}/redrive", handler=deadletters.redrive,
        summary="Send dead letters back to where they came from, or elsewhere", tag="delivery", permission="write",
        body=deadletters.RedriveRequest, answer=deadletters.RedriveAnswer,
        errors=(*_DEAD_LETTER_ERRORS, *_UNAVAILABLE),
        example={"error": "no such customer", "limit": 100, "rate": 50, "dry_run": True},
    ),
    Endpoint(
        method="GET", path="/reliability/stats", handler=settling.stats,
        summary="What became of messages since the broker started, and what is in hand", tag="delivery",
        permission="read", answer=settling.ReliabilityStats,
    ),
    Endpoint(
        method="GET", path="/priority/stats", handler=priorities.stats,
        summary="What is ready, in hand and was handed out of each priority", tag="delivery",
        permission="read", query=priorities.PriorityQuery, answer=priorities.PriorityStats,
        errors=(
            errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy, errors.GroupNotFound,
            errors.GroupNameInvalid, errors.LogFenced, errors.LogClosed, errors.DiskFailed,
        ),
    ),
)  # fmt: skip
