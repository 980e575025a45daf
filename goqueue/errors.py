"""Every error that GoQueue raises on purpose.

    GoQueueError
    ├── CallerError              whoever asked must ask differently
    │   ├── ConfigInvalid
    │   ├── FrameInvalid
    │   ├── LogExists
    │   ├── LogNameInvalid
    │   ├── LogNotFound
    │   ├── MessageTooLarge
    │   └── OffsetOutOfRange
    ├── OperatorError            somebody must look at the machine
    │   ├── AccessDenied
    │   ├── DataDirectoryForeign
    │   ├── DataDirectoryInUse
    │   ├── DiskFailed
    │   ├── FormatUnsupported
    │   ├── LogFenced
    │   ├── PathInvalid
    │   └── RangeDamaged
    └── TransientError           nobody: the same request may succeed later
        ├── DiskFull
        ├── FilesExhausted
        └── LogClosed

An error carries a stable `code` for programs, a sentence that names the offending value for
people, and where there is one a `hint` with the next step. What an error means in another
vocabulary (an HTTP status, an exit code) is decided by whoever speaks that vocabulary.
"""

from typing import Any, ClassVar


class GoQueueError(Exception):
    """The root: catch it to catch whatever GoQueue means to tell its user."""

    code: ClassVar[str] = "error"

    def __init__(self, sentence: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.details = details

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


class FrameInvalid(CallerError):
    """Bytes that should be frames are not; `details["position"]` says where."""

    code = "frame_invalid"


class LogExists(CallerError):
    code = "log_exists"


class LogNameInvalid(CallerError):
    code = "log_name_invalid"


class LogNotFound(CallerError):
    code = "log_not_found"


class MessageTooLarge(CallerError):
    code = "message_too_large"


class OffsetOutOfRange(CallerError):
    """`details` has `first` and `next`: the offsets that the log holds, and will hold next."""

    code = "offset_out_of_range"


class AccessDenied(OperatorError):
    code = "access_denied"


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


class DiskFull(TransientError):
    code = "disk_full"


class FilesExhausted(TransientError):
    """The process, or the machine, has as many files open as it may have."""

    code = "files_exhausted"


class LogClosed(TransientError):
    code = "log_closed"
