"""The table of all endpoints. What each needs is in `goqueue/api/permissions.py`, without which the import fails."""

from dataclasses import replace

from goqueue import errors
from goqueue.api import (
    delayed,
    health,
    logs,
    merged_reading,
    operations,
    outgoing_message,
    publish_body,
    publishing,
    reading,
    scaling,
    segments,
    stats,
    topics,
)
from goqueue.api.alert_table import ALERT_ENDPOINTS
from goqueue.api.backup_table import BACKUP_ENDPOINTS
from goqueue.api.charging import CHARGES
from goqueue.api.cluster_table import CLUSTER_ENDPOINTS
from goqueue.api.endpoint import Endpoint
from goqueue.api.group_table import DELIVERY_ENDPOINTS, GROUP_ENDPOINTS
from goqueue.api.http.error_responses import (
    NO_GROUP,
    NO_PARTITION,
    NO_TOPIC,
    NOT_HERE,
    NOT_IN_TRANSACTION,
    UNREADABLE,
    UNWRITABLE,
)
from goqueue.api.permissions import PERMISSIONS
from goqueue.api.quota_table import QUOTA_ENDPOINTS
from goqueue.api.schemas_table import SCHEMA_ENDPOINTS
from goqueue.api.security_table import SECURITY_ENDPOINTS
from goqueue.api.tenant_table import TENANT_ENDPOINTS
from goqueue.api.trace_table import TRACE_ENDPOINTS
from goqueue.api.transaction_table import TRANSACTION_ENDPOINTS
from goqueue.broker.core.names import SECURITY
from goqueue.broker.schemas.logs import SCHEMAS
from goqueue.broker.tenants.logs import TENANTS
from goqueue.wire.headers import FRAMES, JSON, OCTETS

_MESSAGE = {"key": "order-17", "value": "paid", "headers": {"source": "till-3"}}
_STORED = {"results": [{"partition": 1, "offset": 41, "priority": 2, "delayed": False}]}
_NO_SEGMENT = (*NO_PARTITION, *NOT_HERE, errors.SegmentNotFound)
_DAMAGED = (*UNREADABLE, errors.RangeDamaged)
_NOT_THERE = (*NO_PARTITION, errors.DelayedNotFound)
_DECIDED = (*_NOT_THERE, errors.DelayedNotPending, *UNWRITABLE)
_ONE, _MANY = "/topics/{topic}/delayed/{partition}/{offset}", (*NO_PARTITION, *UNWRITABLE)


_LED = {
    "/admin/keys": SECURITY, "/admin/roles": SECURITY, "/admin/acls": SECURITY, "/admin/tenants": TENANTS,
    "/subjects": SCHEMAS, "/schemas": SCHEMAS, "/config": SCHEMAS, "/mode": SCHEMAS, "/compatibility": SCHEMAS,
    "/contexts": SCHEMAS,
}  # fmt: skip
"""The followed logs of a cluster that requests are about, by the beginnings of their paths."""
_QUESTIONS = {
    "POST /subjects/{subject}", "POST /compatibility/subjects/{subject}/versions/{version}",
    "POST /compatibility/subjects/{subject}/versions",
}  # fmt: skip
"""Requests that change nothing, although they are no GET."""
_REPEATABLE = {
    "POST /subjects/{subject}/versions", "PATCH /admin/tenants/{tenant}", "POST /admin/tenants/{tenant}/suspend",
    "POST /admin/tenants/{tenant}/activate", "POST /admin/tenants/{tenant}/disable",
}  # fmt: skip
"""Changes that do the same when they are made twice, besides those that are a PUT."""


def _coordinated(tag: str, name: str) -> tuple[type[errors.GoQueueError], ...]:
    """Return the errors of requests that one node of a cluster answers."""
    if tag == "delayed" and "{topic}" in name:
        return errors.NotLeader, errors.LeaderUnavailable
    if _led(name) and _is_change(name):
        return errors.LeaderUnavailable, errors.LeadershipLost
    return (errors.NotCoordinator, errors.LeaderUnavailable) if tag in ("groups", "delivery", "transactions") else ()


def _led(name: str) -> str:
    """Return the followed log that a request is about; empty if it is about none."""
    _, _, path = name.partition(" ")
    return next((log for beginning, log in _LED.items() if path == beginning or path.startswith(f"{beginning}/")), "")


def _is_change(name: str) -> bool:
    return not name.startswith("GET ") and name not in _QUESTIONS


def _tagged(tag: str, *rows: Endpoint) -> tuple[Endpoint, ...]:
    return tuple(_completed(tag, f"{row.method} {row.path}", row) for row in rows)


def _completed(tag: str, name: str, row: Endpoint) -> Endpoint:
    return replace(
        row,
        tag=tag,
        permission=PERMISSIONS[name],
        charge=CHARGES.get(name),
        led=_led(name),
        is_led_change=bool(_led(name)) and _is_change(name),
        is_repeatable=name in _REPEATABLE or row.method == "PUT",
        errors=(*row.errors, *_coordinated(tag, name)),
    )


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
        Endpoint("GET", "/stats/history", stats.history, "Rates, latencies, lag and disk over time", errors=NO_GROUP),
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
            errors=(*NO_TOPIC, errors.TopicExists, errors.LogExists, errors.SchemasUnavailable, *UNWRITABLE),
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
            body=topics.AlterTopicRequest,
            errors=(*NO_TOPIC, errors.SchemasUnavailable, errors.SettingsChanged, *UNWRITABLE),
            example={"retention_hours": 24},
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
            "Find the first offset at or after a time", errors=(*NO_PARTITION, *NOT_HERE, *_DAMAGED),
            answer_example={"partition": 0, "offset": 1024},
        ),
    ),
    *_tagged(
        "segments",
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/segments", segments.list_segments,
            "List the segments of a partition, oldest first",
            errors=(*NO_PARTITION, *NOT_HERE, errors.LogFenced, errors.LogClosed),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/aborted", segments.list_aborted,
            "List the offsets of aborted messages", errors=(*NO_PARTITION, *NOT_HERE, *_DAMAGED),
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
                *NOT_IN_TRANSACTION, *NO_PARTITION, errors.FrameInvalid, errors.ChecksumMismatch,
                errors.MessageTooLarge, errors.SequenceOutOfOrder, errors.PartitionCountStale, errors.BrokerOverloaded,
                errors.SchemaViolation, errors.SchemasUnavailable, errors.NotEnoughReplicas, errors.LeadershipLost,
                *NOT_HERE, *UNWRITABLE,
            ),
            example={"messages": [_MESSAGE]}, answer_example=_STORED,
        ),
        Endpoint(
            "GET", "/topics/{topic}/messages", merged_reading.read_topic,
            "Read messages of all partitions in time order", may_be_large=True, errors=(*NO_TOPIC, *_DAMAGED),
        ),
        Endpoint(
            "GET", "/topics/{topic}/partitions/{partition}/messages", reading.read,
            f"Read messages of one partition, as JSON or, with Accept {FRAMES}, as frames", may_be_large=True,
            is_hot=True, waits=True,
            errors=(*NO_PARTITION, errors.OffsetOutOfRange, errors.Behind, *NOT_HERE, *_DAMAGED),
        ),
    ),
    *_tagged("transactions", *TRANSACTION_ENDPOINTS),
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
    *_tagged("groups", *GROUP_ENDPOINTS),
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
    *_tagged("delivery", *DELIVERY_ENDPOINTS),
    *_tagged("traces", *TRACE_ENDPOINTS), *_tagged("alerts", *ALERT_ENDPOINTS),
    *_tagged("backups", *BACKUP_ENDPOINTS),
    *_tagged("cluster", *CLUSTER_ENDPOINTS),
    *_tagged("security", *SECURITY_ENDPOINTS),
    *_tagged("schemas", *SCHEMA_ENDPOINTS),
    *_tagged("tenants", *TENANT_ENDPOINTS, *QUOTA_ENDPOINTS),
)  # fmt: skip
