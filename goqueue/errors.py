"""Every error that GoQueue raises on purpose.

    GoQueueError
    ├── CallerError              whoever asked must ask differently
    │   ├── ChecksumMismatch
    │   ├── ConfigInvalid
    │   ├── DeadLetterFinal
    │   ├── DelayedAmbiguous
    │   ├── DelayedNotFound
    │   ├── DelayedNotPending
    │   ├── EndpointNotFound
    │   ├── FrameInvalid
    │   ├── GenerationStale
    │   ├── GroupFull
    │   ├── GroupMismatch
    │   ├── GroupNameInvalid
    │   ├── GroupNotEmpty
    │   ├── GroupNotFound
    │   ├── HostNotAllowed
    │   ├── LeaseExpired
    │   ├── LogExists
    │   ├── LogNameInvalid
    │   ├── LogNotFound
    │   ├── MediaTypeUnsupported
    │   ├── MemberUnknown
    │   ├── MessageTooLarge
    │   ├── MethodNotAllowed
    │   ├── OffsetOutOfRange
    │   ├── OriginNotAllowed
    │   ├── PartitionNotFound
    │   ├── PartitionNotOwned
    │   ├── ProducerFenced
    │   ├── ProducerNotFound
    │   ├── ReceiptInvalid
    │   ├── RequestInvalid
    │   ├── RequestTooLarge
    │   ├── SegmentNotFound
    │   ├── SequenceOutOfOrder
    │   ├── TopicExists
    │   ├── TopicNameInvalid
    │   ├── TopicNotFound
    │   ├── TransactionAborted
    │   ├── TransactionFull
    │   ├── TransactionNotOpen
    │   └── UnknownProducer
    ├── OperatorError            somebody must look at the machine
    │   ├── AccessDenied
    │   ├── AddressUnavailable
    │   ├── DataDirectoryForeign
    │   ├── DataDirectoryInUse
    │   ├── DiskFailed
    │   ├── FormatUnsupported
    │   ├── LogFenced
    │   ├── PathInvalid
    │   ├── RangeDamaged
    │   ├── SparkFailed
    │   └── SparkUnavailable
    └── TransientError           nobody: the same request may succeed later
        ├── BrokerOverloaded
        ├── BrokerStopping
        ├── BrokerUnreachable
        ├── DiskFull
        ├── FilesExhausted
        ├── LogClosed
        ├── RequestTimedOut
        ├── TopicBusy
        └── TransactionPending

An error carries a stable `code` for programs, a sentence that names the offending value for
people, and where there is one a `hint` with the next step. What an error means in another
vocabulary (an HTTP status, an exit code) is decided by whoever speaks that vocabulary.
"""

from typing import Any, ClassVar, Self


class GoQueueError(Exception):
    """The root: catch it to catch whatever GoQueue means to tell its user."""

    code: ClassVar[str] = "error"

    def __init__(self, sentence: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.details = details

    def without_frames(self) -> Self:
        """Drop the tracebacks of this error and of its causes.

        Their frames hold what was being worked on, such as the body of a request, often in a cycle with the error.
        """
        error: BaseException | None = self
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.code}: {self.sentence}>"


class CallerError(GoQueueError):
    """The request, the command or the file is wrong; the same one will never succeed."""


class OperatorError(GoQueueError):
    """The machine or its data needs a person."""


class TransientError(GoQueueError):
    """Nothing is wrong with the request: it may succeed when tried again."""


class ConfigInvalid(CallerError):
    """The configuration has problems; `details["problems"]` lists all of them."""

    code = "config_invalid"


class ChecksumMismatch(CallerError):
    """What arrived is not what its checksum says was sent."""

    code = "checksum_mismatch"


class DeadLetterFinal(CallerError):
    """A dead letter has no dead letters of its own: it is acknowledged, or sent back to where it came from."""

    code = "dead_letter_final"


class DelayedAmbiguous(CallerError):
    """Several partitions have a scheduled message with that offset; `details["partitions"]` says which."""

    code = "delayed_ambiguous"


class DelayedNotFound(CallerError):
    """No scheduled message has that place, or it has been forgotten since it was settled."""

    code = "delayed_not_found"


class DelayedNotPending(CallerError):
    """What became of the message cannot be changed any more; `details["state"]` says it."""

    code = "delayed_not_pending"


class EndpointNotFound(CallerError):
    """No endpoint has this path."""

    code = "endpoint_not_found"


class FrameInvalid(CallerError):
    """Bytes that should be frames are not; `details["position"]` says where."""

    code = "frame_invalid"


class GenerationStale(CallerError):
    """The member lost something since the generation it speaks of; `details["generation"]` is the one to speak of."""

    code = "generation_stale"


class GroupFull(CallerError):
    code = "group_full"


class GroupMismatch(CallerError):
    """The group works in another way than whoever joins asks for."""

    code = "group_mismatch"


class GroupNameInvalid(CallerError):
    code = "group_name_invalid"


class GroupNotEmpty(CallerError):
    code = "group_not_empty"


class GroupNotFound(CallerError):
    code = "group_not_found"


class HostNotAllowed(CallerError):
    """The request names a host that is no name of this broker, as a page does whose name was rebound to it."""

    code = "host_not_allowed"


class LeaseExpired(CallerError):
    """The messages are not leased to whoever speaks of them: too late, done already, or never given."""

    code = "lease_expired"


class LogExists(CallerError):
    code = "log_exists"


class LogNameInvalid(CallerError):
    code = "log_name_invalid"


class LogNotFound(CallerError):
    code = "log_not_found"


class MediaTypeUnsupported(CallerError):
    """The content type of a body is missing, or is none that the endpoint takes."""

    code = "media_type_unsupported"


class MemberUnknown(CallerError):
    """No member of the group, or not any more: it has to join again."""

    code = "member_unknown"


class MessageTooLarge(CallerError):
    code = "message_too_large"


class MethodNotAllowed(CallerError):
    """The path is right, the method is not; `details["allowed"]` lists those that are."""

    code = "method_not_allowed"


class OffsetOutOfRange(CallerError):
    """`details` has `first` and `next`: the offsets that the log holds, and will hold next."""

    code = "offset_out_of_range"


class OriginNotAllowed(CallerError):
    """A browser sent the request for a page of another site."""

    code = "origin_not_allowed"


class PartitionNotFound(CallerError):
    code = "partition_not_found"


class PartitionNotOwned(CallerError):
    """Another member has the partition, or nobody yet."""

    code = "partition_not_owned"


class ProducerFenced(CallerError):
    """A newer incarnation of the same producer has taken over."""

    code = "producer_fenced"


class ProducerNotFound(CallerError):
    """No producer has this id, or this transactional id."""

    code = "producer_not_found"


class ReceiptInvalid(CallerError):
    """Not a receipt handle that this broker could have given."""

    code = "receipt_invalid"


class RequestInvalid(CallerError):
    """A request has problems; `details["problems"]` lists all of them, each with its place."""

    code = "request_invalid"


class RequestTooLarge(CallerError):
    code = "request_too_large"


class SegmentNotFound(CallerError):
    """No segment begins at this offset any more, or another one stands in its place."""

    code = "segment_not_found"


class SequenceOutOfOrder(CallerError):
    """A batch does not follow the one before; `details["expected"]` is the sequence that would."""

    code = "sequence_out_of_order"


class TopicExists(CallerError):
    code = "topic_exists"


class TopicNameInvalid(CallerError):
    code = "topic_name_invalid"


class TopicNotFound(CallerError):
    code = "topic_not_found"


class TransactionAborted(CallerError):
    """It has come to its end otherwise: its time was over, somebody ended it, or the broker was restarted."""

    code = "transaction_aborted"


class TransactionFull(CallerError):
    """One more transactional id, or one more partition or group of a transaction, would be too many."""

    code = "transaction_full"


class TransactionNotOpen(CallerError):
    """Nothing has begun, or it is over."""

    code = "transaction_not_open"


class UnknownProducer(CallerError):
    """The producer id was never given out from this data directory, so that nothing of it is stored there."""

    code = "unknown_producer"


class AccessDenied(OperatorError):
    code = "access_denied"


class AddressUnavailable(OperatorError):
    """The address to listen on is taken, or is not this machine's."""

    code = "address_unavailable"


class DataDirectoryForeign(OperatorError):
    """The directory holds something, and it is not ours."""

    code = "data_directory_foreign"


class DataDirectoryInUse(OperatorError):
    code = "data_directory_in_use"


class DiskFailed(OperatorError):
    code = "disk_failed"


class FormatUnsupported(OperatorError):
    code = "format_unsupported"


class LogFenced(OperatorError):
    """A write or a sync failed, so what the disk holds is unknown until it is read again."""

    code = "log_fenced"


class PathInvalid(OperatorError):
    """Something other than a file or directory stands where one was expected, or nothing does."""

    code = "path_invalid"


class RangeDamaged(OperatorError):
    """Stored bytes are not what was written; `details` has the file, byte range and offsets."""

    code = "range_damaged"


class SparkFailed(OperatorError):
    """Spark gave up on what it was doing, or its JVM ended."""

    code = "spark_failed"


class SparkUnavailable(OperatorError):
    """Spark cannot be started here, or not be reached: a package or Java is missing, or a cluster."""

    code = "spark_unavailable"


class BrokerOverloaded(TransientError):
    """As much is under way as the broker takes on; `details["retry_after"]` says how many seconds to wait."""

    code = "broker_overloaded"


class BrokerStopping(TransientError):
    code = "broker_stopping"


class BrokerUnreachable(TransientError):
    """No answer came: nobody listens there, or the connection broke."""

    code = "broker_unreachable"


class DiskFull(TransientError):
    code = "disk_full"


class FilesExhausted(TransientError):
    """The process, or the machine, has as many files open as it may have."""

    code = "files_exhausted"


class LogClosed(TransientError):
    code = "log_closed"


class RequestTimedOut(TransientError):
    """The request, or the answer to it, took longer than whoever waited was willing to."""

    code = "request_timed_out"


class TopicBusy(TransientError):
    """The topic is being created or deleted."""

    code = "topic_busy"


class TransactionPending(TransientError):
    """How it ends is decided, and is still being carried out; or another one has to come to its end first."""

    code = "transaction_pending"
