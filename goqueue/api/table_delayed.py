"""The endpoints of delayed messages."""

from goqueue import errors
from goqueue.api import delayed, rescheduling
from goqueue.api.endpoint import Endpoint

_NO_TOPIC = (errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy)
_UNAVAILABLE = (
    errors.LogFenced, errors.LogClosed, errors.DiskFull, errors.DiskFailed, errors.FilesExhausted,
    errors.BrokerStopping,
)  # fmt: skip
_READ = (errors.LogFenced, errors.LogClosed, errors.DiskFailed, errors.FilesExhausted)
_NOT_THERE = (*_NO_TOPIC, errors.PartitionNotFound, errors.DelayedNotFound)
_DECIDED = (*_NOT_THERE, errors.DelayedNotPending, *_UNAVAILABLE)
_ONE = "/topics/{topic}/delayed/{partition}/{offset}"
_MANY = (*_NO_TOPIC, errors.PartitionNotFound, *_UNAVAILABLE)

DELAY_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET", path="/topics/{topic}/delayed", handler=delayed.browse,
        summary="Delayed messages in the order of their times", tag="delayed", permission="read",
        query=delayed.ListQuery, answer=delayed.DelayedList,
        errors=(*_NO_TOPIC, errors.PartitionNotFound, *_READ),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/delayed/timeline", handler=delayed.timeline,
        summary="How many delayed messages are due when", tag="delayed", permission="read",
        query=delayed.TimelineQuery, answer=delayed.TimelineAnswer, errors=(*_NO_TOPIC, *_READ),
    ),
    Endpoint(
        method="GET", path="/topics/{topic}/delayed/{offset}", handler=delayed.find,
        summary="The delayed message with this offset, whatever its partition", tag="delayed", permission="read",
        answer=delayed.DelayedMessage,
        errors=(*_NO_TOPIC, errors.DelayedNotFound, errors.DelayedAmbiguous, *_READ),
    ),
    Endpoint(
        method="GET", path=_ONE, handler=delayed.describe, summary="A delayed message, and what it holds",
        tag="delayed", permission="read", answer=delayed.DelayedMessage, errors=(*_NOT_THERE, *_READ),
    ),
    Endpoint(
        method="DELETE", path=_ONE, handler=rescheduling.cancel, summary="Cancel a delayed message", tag="delayed",
        permission="write", answer=rescheduling.Cancelled, errors=_DECIDED, answer_example={"cancelled": True},
    ),
    Endpoint(
        method="PATCH", path=_ONE, handler=rescheduling.reschedule, summary="Deliver a delayed message at another time",
        tag="delayed", permission="write", body=rescheduling.NewTime, answer=delayed.DelayedBody, errors=_DECIDED,
        example={"delay": "1h"},
    ),
    Endpoint(
        method="POST", path=_ONE + "/deliver", handler=rescheduling.deliver, summary="Deliver a delayed message now",
        tag="delayed", permission="write", answer=rescheduling.Delivered, errors=_DECIDED,
        answer_example={"delivered": True},
    ),
    Endpoint(
        method="POST", path="/topics/{topic}/delayed/cancel", handler=rescheduling.cancel_many,
        summary="Cancel all delayed messages that fit", tag="delayed", permission="write", body=rescheduling.Selection,
        answer=rescheduling.Changed, errors=_MANY, example={"filter": ["key=order-17"], "dry_run": True},
        answer_example={"matched": 3, "scanned": 120, "changed": 0, "complete": True},
    ),
    Endpoint(
        method="POST", path="/topics/{topic}/delayed/reschedule", handler=rescheduling.reschedule_many,
        summary="Deliver all delayed messages that fit at another time", tag="delayed", permission="write",
        body=rescheduling.Rescheduling, answer=rescheduling.Changed, errors=_MANY, example={"shift": "1h"},
    ),
    Endpoint(
        method="POST", path="/topics/{topic}/delayed/deliver", handler=rescheduling.deliver_many,
        summary="Deliver all delayed messages that fit now", tag="delayed", permission="write",
        body=rescheduling.Selection, answer=rescheduling.Changed, errors=_MANY, example={"partition": 0, "limit": 100},
    ),
    Endpoint(
        method="GET", path="/delay/stats", handler=delayed.stats, summary="Numbers of all delayed messages",
        tag="delayed", permission="read", answer=delayed.DelayStats,
    ),
)  # fmt: skip
