"""What an error means in HTTP: the only place that knows."""

from typing import Any

import msgspec

from goqueue import errors
from goqueue.api.http.message import Response
from goqueue.errors import CallerError, GoQueueError, TransientError

_STATUS: dict[type[GoQueueError], int] = {
    errors.HostNotAllowed: 403,
    errors.OriginNotAllowed: 403,
    errors.DelayedNotFound: 404,
    errors.EndpointNotFound: 404,
    errors.GroupNotFound: 404,
    errors.LogNotFound: 404,
    errors.OffsetOutOfRange: 404,
    errors.PartitionNotFound: 404,
    errors.ProducerNotFound: 404,
    errors.SegmentNotFound: 404,
    errors.TopicNotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.RequestTimedOut: 408,
    errors.DeadLetterFinal: 409,
    errors.DelayedAmbiguous: 409,
    errors.DelayedNotPending: 409,
    errors.GenerationStale: 409,
    errors.GroupFull: 409,
    errors.GroupMismatch: 409,
    errors.GroupNotEmpty: 409,
    errors.LeaseExpired: 409,
    errors.LogExists: 409,
    errors.MemberUnknown: 409,
    errors.PartitionNotOwned: 409,
    errors.ProducerFenced: 409,
    errors.SequenceOutOfOrder: 409,
    errors.TopicBusy: 409,
    errors.TopicExists: 409,
    errors.TransactionAborted: 409,
    errors.TransactionFull: 409,
    errors.TransactionNotOpen: 409,
    errors.UnknownProducer: 409,
    errors.MessageTooLarge: 413,
    errors.RequestTooLarge: 413,
    errors.MediaTypeUnsupported: 415,
}
RETRY_AFTER_SECONDS = 1


def status_of(error: type[GoQueueError]) -> int:
    """Who must act decides: the caller (4xx), or an operator or nobody (503)."""
    return _STATUS.get(error, 400 if issubclass(error, CallerError) else 503)


class ErrorBody(msgspec.Struct, omit_defaults=True):
    error: str
    code: str
    hint: str | None = None
    details: dict[str, Any] | None = None


def told(error: GoQueueError) -> dict[str, Any]:
    """An error as it stands in an answer."""
    body: dict[str, Any] = {"error": error.sentence, "code": error.code}
    if error.hint is not None:
        body["hint"] = error.hint
    if details := {name: value for name, value in error.details.items() if name != "path"}:
        body["details"] = details
    return body


def refusal(error: GoQueueError) -> Response:
    """An error as the whole answer."""
    status = status_of(type(error))
    headers: tuple[tuple[str, str], ...] = ()
    if status in (429, 503):
        wait = error.details.get("retry_after", RETRY_AFTER_SECONDS if isinstance(error, TransientError) else 10)
        headers = (("retry-after", str(wait)),)
    if isinstance(error, errors.MethodNotAllowed):
        headers = (("allow", ", ".join(error.details["allowed"])),)
    return Response(status, msgspec.json.encode(told(error), enc_hook=str), headers=headers)


FAULT = Response(
    500,
    msgspec.json.encode(
        {
            "error": "the broker made a mistake while it answered this request",
            "code": "internal_error",
            "hint": "the broker's own log says more under this request's x-request-id",
        }
    ),
)
"""For a handler that raised: what went wrong is told to the operator and not to the client."""
