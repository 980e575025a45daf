"""HTTP statuses and bodies of errors."""

from math import ceil
from typing import Any

import msgspec
from msgspec import Struct

from goqueue import errors
from goqueue.api.http.message import HttpResponse
from goqueue.errors import CallerError, GoQueueError, TransientError

_STATUS: dict[type[GoQueueError], int] = {
    kind: status
    for status, kinds in {
        401: (errors.Unauthenticated,),
        403: (
            errors.HostNotAllowed, errors.OriginNotAllowed, errors.PermissionDenied, errors.TenantDisabled,
            errors.TenantSuspended,
        ),
        404: (
            errors.BackupNotFound, errors.DelayedNotFound, errors.EndpointNotFound,
            errors.GroupNotFound, errors.KeyNotFound, errors.LogNotFound, errors.NodeNotFound,
            errors.OffsetOutOfRange, errors.OperationNotFound, errors.PartitionNotFound, errors.ProducerNotFound,
            errors.ReassignmentNotFound,
            errors.RoleNotFound, errors.RuleNotFound, errors.SchemaDeletionRefused, errors.SchemaNotFound,
            errors.SchemaVersionNotFound, errors.SegmentNotFound,
            errors.SilenceNotFound, errors.SubjectNotFound, errors.SubjectSettingNotFound,
            errors.TenantNotFound, errors.TopicNotFound, errors.TraceNotFound,
        ),
        405: (errors.MethodNotAllowed,),
        408: (errors.RequestTimedOut,),
        409: (
            errors.AlertsOff, errors.BackupCancelled, errors.BackupsBusy, errors.BackupsOff, errors.Behind,
            errors.ClusterChangeRefused, errors.ClusterOff,
            errors.DeadLetterFinal, errors.DelayedAmbiguous, errors.DelayedNotPending, errors.ElectionRefused,
            errors.GenerationStale,
            errors.GroupFull, errors.GroupMismatch, errors.GroupNotEmpty, errors.IsrChangeRefused,
            errors.KeyExists, errors.KeysWouldMove,
            errors.CertificateInvalid, errors.LastAdministrator, errors.LeaseExpired,
            errors.LogExists, errors.MemberUnknown, errors.OperationNotUndoable, errors.OperationOutdated,
            errors.PartitionCountStale, errors.PartitionNotOwned, errors.ProducerFenced, errors.RoleExists,
            errors.RoleInUse, errors.SchemaIncompatible, errors.SequenceOutOfOrder, errors.TenantBeingDeleted,
            errors.TenantExists,
            errors.TopicBusy, errors.TopicExists, errors.TransactionAborted, errors.TransactionFull,
            errors.TransactionNotOpen, errors.UnknownProducer,
        ),
        412: (errors.SettingsChanged,),
        413: (errors.MessageTooLarge, errors.RequestTooLarge),
        415: (errors.MediaTypeUnsupported,),
        421: (errors.NotCoordinator, errors.NotLeader),
        422: (
            errors.RegistryValueInvalid, errors.SchemaChangeRefused, errors.SchemaInvalid, errors.SchemaViolation,
        ),
        429: (errors.QuotaExceeded, errors.QuotaReached),
    }.items()
    for kind in kinds
}  # fmt: skip
RETRY_AFTER_SECONDS = 1

# Errors that several endpoints have in common.
NO_TOPIC = (errors.TopicNameInvalid, errors.TopicNotFound, errors.TopicBusy)
NO_PARTITION = (*NO_TOPIC, errors.PartitionNotFound)
NOT_HERE = (errors.NotLeader, errors.LeaderUnavailable)
"""In a cluster, of a partition that another node answers for."""
NO_GROUP = (errors.GroupNameInvalid, errors.GroupNotFound)
NOT_THE_PRODUCER = (errors.ProducerNotFound, errors.UnknownProducer, errors.ProducerFenced, errors.TransactionPending)
NOT_IN_TRANSACTION = (
    *NOT_THE_PRODUCER,
    errors.TransactionNotOpen,
    errors.TransactionAborted,
    errors.TransactionFull,
)
UNWRITABLE = (
    errors.LogFenced, errors.LogClosed, errors.DiskFull, errors.DiskFailed, errors.FilesExhausted,
    errors.BrokerStopping,
)  # fmt: skip
UNREADABLE = (errors.LogFenced, errors.LogClosed, errors.DiskFailed, errors.FilesExhausted)


def status_of(error: type[GoQueueError]) -> int:
    """Return the HTTP status of an error: 4xx if the caller must act, 503 otherwise."""
    return _STATUS.get(error, 400 if issubclass(error, CallerError) else 503)


class ErrorJson(Struct, omit_defaults=True):
    error: str
    code: str
    hint: str | None = None
    details: dict[str, Any] | None = None


def error_json(error: GoQueueError) -> ErrorJson:
    details = {name: value for name, value in error.details.items() if name != "path"}
    return ErrorJson(error.sentence, error.code, error.hint, details or None)


def error_response(error: GoQueueError) -> HttpResponse:
    """Return an error as a response."""
    status = status_of(type(error))
    headers: tuple[tuple[str, str], ...] = ()
    if status in (429, 503):
        wait = error.details.get("retry_after", RETRY_AFTER_SECONDS if isinstance(error, TransientError) else 10)
        headers = (("retry-after", str(ceil(wait))),)
    if isinstance(error, errors.MethodNotAllowed):
        headers = (("allow", ", ".join(error.details["allowed"])),)
    if status == 401:
        headers = (("www-authenticate", "Bearer"),)
    return HttpResponse(status, msgspec.json.encode(error_json(error), enc_hook=str), headers=headers)


INTERNAL_ERROR = HttpResponse(
    500,
    msgspec.json.encode(
        {
            "error": "the broker made a mistake while it answered this request",
            "code": "internal_error",
            "hint": "the broker's own log says more under this request's x-request-id",
        }
    ),
)
"""The response if a handler raises: the broker's log has the error, the client does not get it."""
