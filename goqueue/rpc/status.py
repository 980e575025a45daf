"""Errors of endpoints as a gRPC status: the code, the sentence, and details for programs.

The details have an `ErrorInfo` whose reason is the stable code of the error, as over HTTP, and whose metadata has the
hint; a `RetryInfo` where a retry makes sense; and a `BadRequest` that names the fields of an invalid request.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import grpc
import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from goqueue.api.http.message import HttpResponse
from goqueue.rpc.v1 import types_pb2
from goqueue.wire.headers import RETRY_AFTER

DOMAIN = "goqueue"
DETAILS = "grpc-status-details-bin"

Code = grpc.StatusCode

BY_STATUS = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    405: Code.UNIMPLEMENTED,
    408: Code.DEADLINE_EXCEEDED,
    409: Code.FAILED_PRECONDITION,
    412: Code.ABORTED,
    413: Code.INVALID_ARGUMENT,
    415: Code.INVALID_ARGUMENT,
    421: Code.FAILED_PRECONDITION,
    422: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    500: Code.INTERNAL,
    503: Code.UNAVAILABLE,
}
BY_CODE = {
    "behind": Code.OUT_OF_RANGE,
    "broker_overloaded": Code.RESOURCE_EXHAUSTED,
    "endpoint_not_found": Code.UNIMPLEMENTED,
    "key_exists": Code.ALREADY_EXISTS,
    "log_exists": Code.ALREADY_EXISTS,
    "offset_out_of_range": Code.OUT_OF_RANGE,
    "producer_fenced": Code.ABORTED,
    "role_exists": Code.ALREADY_EXISTS,
    "topic_exists": Code.ALREADY_EXISTS,
    "transaction_aborted": Code.ABORTED,
}

E = types_pb2.ErrorCode
CLASSES = {
    "topic_not_found": E.ERROR_CODE_TOPIC_NOT_FOUND,
    "topic_exists": E.ERROR_CODE_TOPIC_ALREADY_EXISTS,
    "partition_not_found": E.ERROR_CODE_PARTITION_NOT_FOUND,
    "group_not_found": E.ERROR_CODE_GROUP_NOT_FOUND,
    "member_unknown": E.ERROR_CODE_NOT_GROUP_MEMBER,
    "generation_stale": E.ERROR_CODE_INVALID_GENERATION,
    "message_too_large": E.ERROR_CODE_MESSAGE_TOO_LARGE,
    "frame_invalid": E.ERROR_CODE_INVALID_MESSAGE,
    "request_invalid": E.ERROR_CODE_INVALID_MESSAGE,
    "schema_violation": E.ERROR_CODE_INVALID_MESSAGE,
    "receipt_invalid": E.ERROR_CODE_RECEIPT_HANDLE_INVALID,
    "lease_expired": E.ERROR_CODE_RECEIPT_HANDLE_EXPIRED,
    "offset_out_of_range": E.ERROR_CODE_MESSAGE_NOT_FOUND,
    "producer_not_found": E.ERROR_CODE_TRANSACTION_NOT_FOUND,
    "transaction_aborted": E.ERROR_CODE_TRANSACTION_TIMEOUT,
    "producer_fenced": E.ERROR_CODE_PRODUCER_FENCED,
    "transaction_not_open": E.ERROR_CODE_INVALID_TXN_STATE,
    "broker_stopping": E.ERROR_CODE_BROKER_NOT_AVAILABLE,
    "broker_overloaded": E.ERROR_CODE_BROKER_NOT_AVAILABLE,
}
"""Classes of errors that clients of the fixed enumeration know."""


class CallFailure(NamedTuple):
    """An error with what a client gets of it."""

    code: grpc.StatusCode
    sentence: str
    reason: str
    details: dict[str, str]
    retry_seconds: float | None = None
    problems: tuple[tuple[str, str], ...] = ()
    """Fields of the request, and what is wrong with each."""

    @property
    def metadata(self) -> tuple[tuple[str, bytes], ...]:
        """The trailing metadata with all details."""
        status = Status(code=self.code.value[0], message=self.sentence)
        found: list[Any] = [ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.details)]
        if self.retry_seconds is not None:
            wait = RetryInfo()
            wait.retry_delay.FromTimedelta(timedelta(seconds=self.retry_seconds))
            found.append(wait)
        if self.problems:
            fields = [BadRequest.FieldViolation(field=place, description=text) for place, text in self.problems]
            found.append(BadRequest(field_violations=fields))
        for one in found:
            packed = AnyMessage()
            packed.Pack(one)
            status.details.append(packed)
        return ((DETAILS, status.SerializeToString()),)

    @property
    def error(self) -> types_pb2.Error:
        """The error as a part of a response."""
        found = types_pb2.Error(
            code=CLASSES.get(self.reason, E.ERROR_CODE_UNSPECIFIED),
            message=self.sentence,
            details=self.details,
            reason=self.reason,
        )
        if self.retry_seconds is not None:
            found.retry_after.FromTimedelta(timedelta(seconds=self.retry_seconds))
        return found


class CallFailed(Exception):
    """Ends a call with an error."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


def invalid_request(field: str, problem: str, hint: str = "") -> CallFailed:
    """Return the error for a field that no endpoint gets to see."""
    details = {"hint": hint} if hint else {}
    sentence = f"{field} {problem}"
    return CallFailed(
        CallFailure(Code.INVALID_ARGUMENT, sentence, "request_invalid", details, None, ((field, problem),))
    )


def failure_of(response: HttpResponse) -> CallFailure:
    """Return the failure that a response reports."""
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = {}
    retry = next((float(value) for name, value in response.headers if name == RETRY_AFTER), None)
    return described_failure(found if isinstance(found, dict) else {}, response.status, retry)


def described_failure(found: Mapping[str, Any], status: int = 409, retry_seconds: float | None = None) -> CallFailure:
    """Return the failure of a JSON object with an error, as a whole answer or as a part of one."""
    reason = str(found.get("code", "internal_error"))
    given = found.get("details") or {}
    details = {name: _text(value) for name, value in given.items() if name not in {"problems", "retry_after"}}
    if hint := found.get("hint"):
        details["hint"] = str(hint)
    problems = [one for one in given.get("problems", ()) if isinstance(one, dict)]
    return CallFailure(
        BY_CODE.get(reason) or BY_STATUS.get(status, Code.UNKNOWN),
        str(found.get("error") or found.get("message") or f"the broker answered with status {status}"),
        reason,
        details,
        retry_seconds,
        tuple((str(one.get("place", "")), str(one.get("problem", ""))) for one in problems),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
