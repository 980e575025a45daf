"""All errors that GoQueue raises on purpose.

There are three kinds, by what must happen next: the request, command or file must change (`CallerError`), an operator
must act on the machine or its data (`OperatorError`), or the same request may succeed later (`TransientError`).

An error has a stable `code` for programs, a sentence with the offending value for people, and optionally a `hint`
with the next step. HTTP statuses and exit codes are assigned where they are used.
"""

from typing import Any, ClassVar, Self


class GoQueueError(Exception):
    """The base class of all errors that GoQueue raises on purpose."""

    code: ClassVar[str] = "error"
    """The name of the class in snake case: `TopicNotFound` has `topic_not_found`. The three kinds have none."""

    def __init_subclass__(cls) -> None:
        if cls.__base__ is not GoQueueError:
            cls.code = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__)[1:]

    def __init__(self, sentence: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.details = details
        self._notes: list[str] = []

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override] # what a traceback shows below the sentence
        return [*self._notes, f"Hint: {self.hint}"] if self.hint else self._notes

    def add_note(self, note: str, /) -> None:
        self._notes.append(note)

    def without_tracebacks(self) -> Self:
        """Drop the tracebacks of this error and of its causes.

        Their frames keep large objects alive, such as a request body, often in a reference cycle with the error.
        """
        error: BaseException | None = self
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.code}: {self.sentence}>"


class CallerError(GoQueueError):
    """The request, command or file is wrong; repeating it will not succeed."""


class OperatorError(GoQueueError):
    """The machine or its data needs an operator."""


class TransientError(GoQueueError):
    """The request is correct and may succeed when retried."""


class AlertsOff(CallerError):
    """The broker sends no alerts, because it has no webhook."""


class ClusterOff(CallerError):
    """The broker runs alone: it has no cluster settings."""


class ConfigInvalid(CallerError):
    """The configuration has problems; `details["problems"]` lists all of them."""


class ChecksumMismatch(CallerError):
    """The received bytes do not match their checksum."""


class DeadLetterFinal(CallerError):
    """A dead letter cannot be rejected: ack it or redrive it."""


class DelayedAmbiguous(CallerError):
    """Several partitions have a delayed message at this offset; `details["partitions"]` lists them."""


class BackupCancelled(CallerError):
    """The backup was cancelled before it was complete."""


class BackupNotFound(CallerError):
    """No backup has this id."""


class BackupsBusy(CallerError):
    """A backup, or the verification of one, is running."""


class BackupsOff(CallerError):
    """The broker has no target for backups."""


class DelayedNotFound(CallerError):
    """No delayed message is at this position, or its record has expired."""


class DelayedNotPending(CallerError):
    """The delayed message was already delivered, cancelled or expired; `details["state"]` says which."""


class TraceNotFound(CallerError):
    """Nothing is known of a message with this trace id, or at this position."""


class ClusterChangeRefused(CallerError):
    """The nodes of the cluster cannot be changed as asked now; nothing is changed."""


class ReassignmentNotFound(CallerError):
    """The cluster has no reassignment of this number, or has forgotten it."""


class ElectionRefused(CallerError):
    """The partition cannot get the leader that was asked for."""


class EndpointNotFound(CallerError):
    """No endpoint has this path."""


class FrameInvalid(CallerError):
    """The bytes are not valid frames; `details["position"]` is where they stop being valid."""


class GenerationStale(CallerError):
    """The member lost partitions since this generation; `details["generation"]` is the current one."""


class GroupFull(CallerError):
    """The group has the maximum number of members."""


class GroupMismatch(CallerError):
    """The group uses another assignment protocol than the joining member."""


class GroupNameInvalid(CallerError):
    """The text cannot be the name of a group."""


class GroupNotEmpty(CallerError):
    """The group has members, which the request does not allow."""


class GroupNotFound(CallerError):
    """No group has this name."""


class HostNotAllowed(CallerError):
    """The Host header does not name this broker, as in a DNS rebinding attack by a web page."""


class IsrChangeRefused(CallerError):
    """The controller refuses a change of the ISR; `details["reason"]` names what does not fit."""


class KeysWouldMove(CallerError):
    """This number of partitions would not keep the order of keys; `details["allowed"]` lists numbers that do."""


class KeyExists(CallerError):
    """A valid API key has this name."""


class KeyNotFound(CallerError):
    """No API key has this name or id."""


class LeaseExpired(CallerError):
    """The messages are not leased to this member: the lease expired, was settled, or never existed."""


class LastAdministrator(CallerError):
    """It would leave no valid API key with the role admin."""


class LogExists(CallerError):
    """A log with this name exists, or is still being deleted."""


class LogNameInvalid(CallerError):
    """The text cannot be the name of a log."""


class LogNotFound(CallerError):
    """No log has this name."""


class MediaTypeUnsupported(CallerError):
    """The content type of the body is missing, or not accepted by the endpoint."""


class MemberUnknown(CallerError):
    """The member is not, or no longer, in the group: it must join again."""


class MessageTooLarge(CallerError):
    """A message, or a part of it, is larger than allowed."""


class MethodNotAllowed(CallerError):
    """The path does not accept this method; `details["allowed"]` lists the accepted ones."""


class NodeNotFound(CallerError):
    """The cluster has no node with this id."""


class OffsetOutOfRange(CallerError):
    """The offset is outside the log; `details` has `first` and `next`, its first and next offset."""


class OperationNotFound(CallerError):
    """No recorded operation has this id."""


class OperationNotUndoable(CallerError):
    """The operation cannot be undone, or was undone already."""


class OperationOutdated(CallerError):
    """Undoing would do harm, since the same things have changed again."""


class OriginNotAllowed(CallerError):
    """A browser sent the request for a web page of another origin."""


class PartitionCountStale(CallerError):
    """The partitions of these messages were chosen by a former number of partitions: choose them again.

    `details` has the number of `partitions`, and how many of the messages were `stored` before it changed.
    """


class PartitionNotFound(CallerError):
    """The topic has no partition with this number."""


class PartitionNotOwned(CallerError):
    """The partition is assigned to another member, or to none yet."""


class PermissionDenied(CallerError):
    """No rule allows the API key this action, or one denies it; `details` has the action and the resource."""


class ProducerFenced(CallerError):
    """A newer producer with the same id has replaced this one."""


class ProducerNotFound(CallerError):
    """No producer has this producer id or transactional id."""


class QuotaReached(CallerError):
    """The tenant has as much of something as its quota allows; `details` has the quota, its limit, and what is left."""


class ReceiptInvalid(CallerError):
    """The text is not a receipt handle of this broker."""


class QueryTooLarge(CallerError):
    """A query in SQL would read more messages than its limit allows, which `details["limit"]` has."""


class RegistryValueInvalid(CallerError):
    """The text cannot be a subject, a version, a compatibility level or a mode; `details["field"]` says which."""


class RequestInvalid(CallerError):
    """A request has problems; `details["problems"]` lists all of them with their positions."""


class RequestTooLarge(CallerError):
    """The body of the request is larger than allowed."""


class RoleExists(CallerError):
    """A role has this name."""


class RoleInUse(CallerError):
    """The role is deleted only when no API key and no rule has it."""


class RoleNotFound(CallerError):
    """No role has this name."""


class RuleNotFound(CallerError):
    """No access rule has this id."""


class SchemaChangeRefused(CallerError):
    """The mode forbids the change, other schemas refer to the version, or an id or version has another schema."""


class SchemaDeletionRefused(CallerError):
    """It was soft-deleted already, or must be soft-deleted before it can be deleted permanently."""


class SchemaIncompatible(CallerError):
    """The schema breaks the compatibility level of its subject; `details["reasons"]` lists how."""


class SchemaInvalid(CallerError):
    """The text is not a schema of its format; `details` has the `path` and the `reason`."""


class SchemaNotFound(CallerError):
    """No schema has this id, or no version of the subject has this schema."""


class SchemaVersionNotFound(CallerError):
    """The subject has no version with this number."""


class SchemaViolation(CallerError):
    """Messages do not match the schemas of their topic, and none was stored; `details["problems"]` lists the first."""


class SegmentNotFound(CallerError):
    """No segment begins at this offset any more, or it was replaced."""


class SequenceOutOfOrder(CallerError):
    """A batch does not follow the previous one; `details["expected"]` is the expected sequence."""


class SubjectNotFound(CallerError):
    """No subject has this name."""


class SubjectSettingNotFound(CallerError):
    """The subject has no compatibility level or mode of its own; `details["field"]` says which."""


class TlsRequired(CallerError):
    """The request was not encrypted, and the address speaks TLS alone."""


class TenantBeingDeleted(CallerError):
    """The tenant is being deleted, and cannot be changed any more."""


class TenantDisabled(CallerError):
    """The tenant is disabled or being deleted: none of its requests is answered."""


class TenantExists(CallerError):
    """A tenant has this id, or names that begin with it are in use."""


class TenantNotFound(CallerError):
    """No tenant has this id."""


class TenantSuspended(CallerError):
    """The tenant is suspended: only lists and descriptions are answered."""


class TopicExists(CallerError):
    """A topic with this name exists."""


class SettingsChanged(CallerError):
    """The settings of the topic are others than the request expects. Nothing was changed."""


class SilenceNotFound(CallerError):
    """No silence has this number, or its time is over."""


class TopicNameInvalid(CallerError):
    """The text cannot be the name of a topic."""


class TopicNotFound(CallerError):
    """No topic has this name."""


class TransactionAborted(CallerError):
    """The transaction was aborted: by its timeout, by an operator, or by a restart of the broker."""


class TransactionFull(CallerError):
    """A limit of transactional ids, or of partitions and groups in one transaction, is reached."""


class TransactionNotOpen(CallerError):
    """The producer has no open transaction."""


class Unauthenticated(CallerError):
    """The request has no valid API key, and the broker needs one."""


class UnknownProducer(CallerError):
    """This data directory never assigned the producer id, so it has no messages of it."""


class ValueUnreadable(CallerError):
    """The value of a message is not the text or JSON that the program expects; `details` has its position."""


class AccessDenied(OperatorError):
    """The process has no permission to use a file or device."""


class AddressUnavailable(OperatorError):
    """The address to listen on is in use, or does not belong to this machine."""


class BackupDamaged(OperatorError):
    """A backup is not as it was written."""


class BackupKeyInvalid(OperatorError):
    """The key file of backups is missing, cannot be read, or may be read by others."""


class BackupKeyMismatch(OperatorError):
    """A backup is encrypted with a key that is not in the key file, or is not encrypted although there is one."""


class BackupTargetInvalid(OperatorError):
    """The target for backups cannot be used."""


class CertificateInvalid(OperatorError):
    """A certificate, its key or its authority is missing, broken, expired, or does not fit the others."""


class ClusterNodeMismatch(OperatorError):
    """The data directory belongs to another node, or the cluster's notes in it cannot be read."""


class ClusterRecordUnknown(OperatorError):
    """A later version has written a record of the cluster's log, or the record is damaged."""


class ClusterSecretInvalid(OperatorError):
    """The secret of the cluster cannot be read, or is too short."""


class DataDirectoryForeign(OperatorError):
    """The directory contains files that are not GoQueue's."""


class DataDirectoryInUse(OperatorError):
    """Another process uses the data directory."""


class DiskFailed(OperatorError):
    """The device failed to read, write or sync."""


class FormatUnsupported(OperatorError):
    """The format of the data is unknown to this version."""


class HandlerStuck(OperatorError):
    """More calls of a worker's handler than it has threads did not return in time."""


class LogFenced(OperatorError):
    """A write or sync failed; what is on the disk is unknown until the log is read again."""


class NotInCluster(OperatorError):
    """A cluster of several nodes does not serve this: it lacks replicas; `details["what"]` names it."""


class PathInvalid(OperatorError):
    """The path is missing, or is not a file or directory as expected."""


class RangeDamaged(OperatorError):
    """Stored bytes were changed or lost; `details` has the file, byte range and offsets."""


class RestoreImpossible(OperatorError):
    """A backup cannot be restored to this place."""


class SchemasUnavailable(OperatorError):
    """The packages that read schemas of a format are not installed."""


class SparkFailed(OperatorError):
    """A Spark job failed, or its JVM ended."""


class SparkUnavailable(OperatorError):
    """Spark cannot be started or reached: a package, Java or the cluster is missing."""


class SqlFailed(OperatorError):
    """A query in SQL could not be answered on this machine."""


class GrpcUnavailable(OperatorError):
    """The packages that speak gRPC are not installed."""


class SqlUnavailable(OperatorError):
    """The packages that answer queries in SQL are not installed."""


class TenantsOff(OperatorError):
    """The broker has no tenants: `tenants.enabled` is false."""


class Behind(TransientError):
    """This replica of the partition has not come as far as the read asks for; `details` has its `high_watermark`."""


class BrokerOverloaded(TransientError):
    """The broker processes as many requests as it accepts; `details["retry_after"]` is the wait in seconds."""


class BrokerStopping(TransientError):
    """The broker is shutting down."""


class BrokerUnreachable(TransientError):
    """No broker listens at the address, or the connection broke."""


class ControllerMoved(TransientError):
    """The node stopped being the controller before the record was committed: whether it counts is unknown."""


class ControllerUnavailable(TransientError):
    """The cluster has no controller now, this node is not the one, or it does not know yet what was decided."""


class DiskFull(TransientError):
    """The device has no space left."""


class FilesExhausted(TransientError):
    """The process or the machine has reached its limit of open files."""


class LeaderUnavailable(TransientError):
    """The partition has no leader now, or it is taking over. Nothing was stored."""


class LeadershipLost(TransientError):
    """The node stopped leading the partition before the messages were committed: whether they are stored is unknown."""


class LogClosed(TransientError):
    """The log is being deleted or opened again, or the broker is stopping."""


class NotCoordinator(TransientError):
    """Another node coordinates this group or transaction; `details` has its address."""


class NotEnoughReplicas(TransientError):
    """Fewer replicas are in sync than `min_isr` asks for. Nothing was stored."""


class NotLeader(TransientError):
    """Another node leads the partition; `details` has its address. Nothing was stored."""


class QuotaExceeded(TransientError):
    """The tenant is over a quota for now; `details` has the quota, its limit, what is left, and `retry_after`."""


class RequestTimedOut(TransientError):
    """The request or its answer took longer than the caller's timeout."""


class TopicBusy(TransientError):
    """The topic is being created or deleted."""


class TransactionPending(TransientError):
    """The transaction, or the one before it, is being committed or aborted."""
