"""The exit codes of all programs."""

from goqueue import errors

DONE = 0
FAILED = 1
USAGE = 2  # the command or the configuration is wrong
UNREACHABLE = 3
NOT_ALLOWED = 4
NOT_FOUND = 5  # or in conflict with what is there
TIMED_OUT = 6
INTERNAL_ERROR = 70
INTERRUPTED = 130
TERMINATED = 143

_CODES: dict[type[errors.GoQueueError], int] = {
    errors.AddressUnavailable: USAGE,
    errors.BackupKeyInvalid: USAGE,
    errors.BackupKeyMismatch: USAGE,
    errors.BackupTargetInvalid: USAGE,
    errors.ClusterNodeMismatch: USAGE,
    errors.ClusterSecretInvalid: USAGE,
    errors.CertificateInvalid: USAGE,
    errors.ConfigInvalid: USAGE,
    errors.DataDirectoryForeign: USAGE,
    errors.DataDirectoryInUse: USAGE,
    errors.FormatUnsupported: USAGE,
    errors.GroupNameInvalid: USAGE,
    errors.PathInvalid: USAGE,
    errors.QueryTooLarge: USAGE,
    errors.RequestInvalid: USAGE,
    errors.RestoreImpossible: USAGE,
    errors.SchemasUnavailable: USAGE,
    errors.SparkUnavailable: USAGE,
    errors.GrpcUnavailable: USAGE,
    errors.SqlUnavailable: USAGE,
    errors.TopicNameInvalid: USAGE,
    errors.BrokerUnreachable: UNREACHABLE,
    errors.AccessDenied: NOT_ALLOWED,
    errors.PermissionDenied: NOT_ALLOWED,
    errors.TenantDisabled: NOT_ALLOWED,
    errors.TenantSuspended: NOT_ALLOWED,
    errors.Unauthenticated: NOT_ALLOWED,
    errors.DelayedAmbiguous: NOT_FOUND,
    errors.DelayedNotFound: NOT_FOUND,
    errors.DelayedNotPending: NOT_FOUND,
    errors.ElectionRefused: NOT_FOUND,
    errors.IsrChangeRefused: NOT_FOUND,
    errors.EndpointNotFound: NOT_FOUND,
    errors.GroupFull: NOT_FOUND,
    errors.GroupMismatch: NOT_FOUND,
    errors.GroupNotEmpty: NOT_FOUND,
    errors.GroupNotFound: NOT_FOUND,
    errors.KeyExists: NOT_FOUND,
    errors.KeyNotFound: NOT_FOUND,
    errors.KeysWouldMove: NOT_FOUND,
    errors.LastAdministrator: NOT_FOUND,
    errors.LogExists: NOT_FOUND,
    errors.LogNotFound: NOT_FOUND,
    errors.NodeNotFound: NOT_FOUND,
    errors.OffsetOutOfRange: NOT_FOUND,
    errors.OperationNotFound: NOT_FOUND,
    errors.OperationNotUndoable: NOT_FOUND,
    errors.OperationOutdated: NOT_FOUND,
    errors.PartitionNotFound: NOT_FOUND,
    errors.ProducerFenced: NOT_FOUND,
    errors.ProducerNotFound: NOT_FOUND,
    errors.ReassignmentNotFound: NOT_FOUND,
    errors.RoleExists: NOT_FOUND,
    errors.RoleInUse: NOT_FOUND,
    errors.RoleNotFound: NOT_FOUND,
    errors.RuleNotFound: NOT_FOUND,
    errors.AlertsOff: NOT_FOUND,
    errors.BackupNotFound: NOT_FOUND,
    errors.BackupsBusy: NOT_FOUND,
    errors.BackupsOff: NOT_FOUND,
    errors.ClusterOff: NOT_FOUND,
    errors.SchemaDeletionRefused: NOT_FOUND,
    errors.SchemaNotFound: NOT_FOUND,
    errors.SchemaVersionNotFound: NOT_FOUND,
    errors.SilenceNotFound: NOT_FOUND,
    errors.SubjectNotFound: NOT_FOUND,
    errors.SubjectSettingNotFound: NOT_FOUND,
    errors.TenantBeingDeleted: NOT_FOUND,
    errors.TenantExists: NOT_FOUND,
    errors.TenantNotFound: NOT_FOUND,
    errors.TopicBusy: NOT_FOUND,
    errors.TopicExists: NOT_FOUND,
    errors.TopicNotFound: NOT_FOUND,
    errors.TraceNotFound: NOT_FOUND,
    errors.TransactionAborted: NOT_FOUND,
    errors.TransactionNotOpen: NOT_FOUND,
    errors.RequestTimedOut: TIMED_OUT,
}


def exit_code(error: errors.GoQueueError) -> int:
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)
