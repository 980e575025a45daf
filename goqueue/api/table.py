"""All endpoints. What a path does is said here and nowhere else."""

from goqueue import errors
from goqueue.api import doctor, health, publish_body, publishing, reading, segments, stats, topic_details, topics
from goqueue.api.endpoint import Endpoint
from goqueue.api.openapi import FRAMES
from goqueue.api.table_delayed import DELAY_ENDPOINTS
from goqueue.api.table_groups import GROUP_ENDPOINTS
from goqueue.api.table_transactions import TRANSACTION_ENDPOINTS

_MESSAGE = {"key": "order-17", "value": "paid", "headers": {"source": "till-3"}}
_STORED = {"results": [{"partition": 1, "offset": 41, "priority": 2, "delayed": False}]}
_NO_TOPIC = (errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy)
_UNAVAILABLE = (
    errors.LogFenced, errors.LogClosed, errors.DiskFull, errors.DiskFailed, errors.FilesExhausted,
    errors.BrokerStopping,
)  # fmt: skip
_NO_SEGMENT = (*_NO_TOPIC, errors.PartitionNotFound, errors.SegmentNotFound)
_UNREADABLE = (errors.LogFenced, errors.LogClosed, errors.RangeDamaged, errors.DiskFailed, errors.FilesExhausted)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET", path="/health", handler=health.health, summary="Health in a word", tag="health",
        answer=health.Health,
    ),
    Endpoint(
        method="GET", path="/healthz", handler=health.live, summary="Whether the process lives", tag="health",
        answer=health.Liveness,
    ),
    Endpoint(
        method="GET", path="/livez", handler=health.live, summary="Whether the process lives", tag="health",
        answer=health.Liveness,
    ),
    Endpoint(
        method="GET", path="/readyz", handler=health.ready, summary="Whether it takes messages", tag="health",
        query=health.ReadyQuery, answer=health.Readiness, unwell_status=503,
    ),
    Endpoint(
        method="GET", path="/version", handler=health.version, summary="What is running", tag="health",
        answer=health.Version,
    ),
    Endpoint(
        method="GET", path="/stats", handler=stats.stats, summary="Numbers of the broker and of all topics",
        tag="health", permission="read", answer=stats.Stats,
    ),
    Endpoint(
        method="GET", path="/stats/history", handler=stats.history, summary="The last minutes, second by second",
        tag="health", permission="read", query=stats.HistoryQuery, answer=stats.HistoryAnswer,
    ),
    Endpoint(
        method="GET", path="/doctor", handler=doctor.examine_broker,
        summary="What the broker finds when it looks at itself, and what to do", tag="health",
        permission="read", answer=doctor.DiagnosisBody,
    ),
    Endpoint(
        method="GET", path="/metrics", handler=health.metrics, summary="Metrics for Prometheus", tag="health",
        permission="read", answer_type="text/plain",
    ),
    Endpoint(
        method="GET", path="/openapi.json", handler=health.openapi, summary="This document", tag="health",
        answer_type="application/json",
    ),
    Endpoint(
        method="GET", path="/topics", handler=topic_details.list_topics,
        summary="Names of all topics, and with details their numbers", tag="topics", permission="read",
        query=topic_details.ListQuery, answer=topic_details.TopicNames,
        answer_example={"topics": ["orders", "payments"]},
    ),
    Endpoint(
        method="POST", path="/topics", handler=topics.create, summary="Create a topic", tag="topics",
        permission="admin", body=topics.NewTopic, answer=topics.TopicMade, status=201,
        errors=(
            errors.TopicNameInvalid,
            errors.TopicExists,
            errors.TopicNotFound,
            errors.TopicBusy,
            errors.LogExists,
            *_UNAVAILABLE,
        ),
        example={"name": "orders", "num_partitions": 6, "retention_hours": 72},
        answer_example={"name": "orders", "partitions": 6, "created": True},
    ),
    Endpoint(
        method="GET", path="/topics/{topic}", handler=topics.describe, summary="One topic", tag="topics",
        permission="read", answer=topics.TopicDescription, errors=_NO_TOPIC,
    ),
    Endpoint(
        method="DELETE", path="/topics/{topic}", handler=topics.delete, summary="Delete a topic and its messages",
        tag="topics", permission="admin", answer=topics.TopicRemoved,
        errors=(*_NO_TOPIC, *_UNAVAILABLE),
        answer_example={"deleted": True, "name": "orders", "delayed_deleted": 0},
    ),
    Endpoint(
        method="PATCH", path="/admin/topics/{topic}", handler=topics.alter, summary="Change a topic's settings",
        tag="topics", permission="admin", body=topics.TopicChanges, answer=topics.TopicDescription,
        errors=(*_NO_TOPIC, *_UNAVAILABLE),
        example={"retention_hours": 24},
    ),
    Endpoint(
        method="POST", path="/admin/topics/{topic}/compact", handler=topics.compact,
        summary="Compact a compacted topic now; the answer comes when that is done", tag="topics", permission="admin",
        answer=topics.Compaction, errors=(*_NO_TOPIC, errors.RangeDamaged, *_UNAVAILABLE),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions", handler=topics.list_partitions,
        summary="Positions and sizes of a topic's partitions", tag="topics", permission="read",
        answer=topics.PartitionList, errors=_NO_TOPIC,
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/offset", handler=topics.offset_at_time,
        summary="The first offset at or after a time", tag="topics", permission="read", query=topics.TimeQuery,
        answer=topics.OffsetAtTime,
        errors=(*_NO_TOPIC, errors.PartitionNotFound, *_UNREADABLE),
        answer_example={"partition": 0, "offset": 1024},
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/segments", handler=segments.list_segments,
        summary="The segments of a partition as far as readers see them, oldest first", tag="segments",
        permission="read", query=segments.SegmentsQuery, answer=segments.PartitionSegments,
        errors=(*_NO_TOPIC, errors.PartitionNotFound, errors.LogFenced, errors.LogClosed),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/aborted", handler=segments.list_aborted,
        summary="The offsets of messages whose transactions were aborted", tag="segments",
        permission="read", query=segments.AbortedQuery, answer=segments.PartitionAborted,
        errors=(*_NO_TOPIC, errors.PartitionNotFound, *_UNREADABLE),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/segments/{segment}/log",
        handler=segments.read_log, summary="Bytes of a segment as they are on disk; their checksums are not verified",
        tag="segments", permission="read", query=segments.LogQuery, answer_type=segments.OCTETS,
        may_be_large=True, errors=(*_NO_SEGMENT, *_UNREADABLE),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/segments/{segment}/index",
        handler=segments.read_index,
        summary="The index of a segment, 24 bytes an entry: offset, position and time, big-endian",
        tag="segments", permission="read", query=segments.SegmentQuery, answer_type=segments.OCTETS,
        errors=(*_NO_SEGMENT, *_UNREADABLE),
    ),
    Endpoint(
        method="POST", path="/topics/{topic}/messages", handler=publishing.publish, summary="Publish messages",
        tag="messages", permission="write", query=publishing.PublishQuery, body=publishing.PublishRequest, frames=True,
        body_bytes=None, decode_large=publish_body.decode_publish,
        answer=publishing.PublishAnswer,
        errors=(
            *_NO_TOPIC, errors.PartitionNotFound,
            errors.FrameInvalid, errors.ChecksumMismatch, errors.MessageTooLarge, errors.ProducerFenced,
            errors.SequenceOutOfOrder, errors.BrokerOverloaded, errors.ProducerNotFound, errors.UnknownProducer,
            errors.TransactionNotOpen, errors.TransactionAborted, errors.TransactionFull, errors.TransactionPending,
            *_UNAVAILABLE,
        ),
        example={"messages": [_MESSAGE]}, answer_example=_STORED,
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/messages", handler=reading.read_topic,
        summary="Messages of all partitions in the order of their times", tag="messages", permission="read",
        query=reading.TopicReadQuery, answer=reading.TopicMessages, may_be_large=True,
        errors=(*_NO_TOPIC, *_UNREADABLE),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/partitions/{partition}/messages", handler=reading.read,
        summary=f"Messages of one partition, as JSON or, with Accept {FRAMES}, as frames", tag="messages",
        permission="read", query=reading.ReadQuery, answer=reading.Messages, may_be_large=True,
        errors=(
            *_NO_TOPIC, errors.PartitionNotFound,
            errors.OffsetOutOfRange, *_UNREADABLE,
        ),
    ),
    *TRANSACTION_ENDPOINTS,
    *DELAY_ENDPOINTS,
    *GROUP_ENDPOINTS,
)  # fmt: skip
