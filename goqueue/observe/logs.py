"""The daemon's log lines as text or JSON, written by a thread to a stream that may block.

Logging puts a record into a bounded queue. What must stay true: no call waits for the stream, one record is one line
whatever it holds, and dropped records are counted and reported once lines get through again.
"""

import json
import logging
import os
import select
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import Any, Literal, NamedTuple, TextIO

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import RECENT_LOG_LINES
from goqueue.quantities import TIME_NS_MAX, format_time

LogFormat = Literal["text", "json"]

ROOT = "goqueue"
REQUESTS = "goqueue.requests"
"""The logger of requests."""
QUEUE_RECORDS = 10_000  # a few MiB; some seconds at a very high rate
VALUE_CHARACTERS_MAX = 2_000  # of one value; longer ones are cut
STOP_SECONDS = 2.0  # how long the exiting program waits for a blocked stream


def fields(**values: Any) -> dict[str, Any]:
    """Return the fields of an event for `extra`: `logger.info("topic created", extra=fields(topic=name))`."""
    return {"fields": values}


class RecentLogLine(NamedTuple):
    """One line of the log; `number` counts the lines since startup."""

    number: int
    created: float
    severity: int
    """The number of its level, as the logging library has it."""
    level: str
    logger: str
    event: str
    fields: dict[str, Any]

    @property
    def time(self) -> str:
        return _format_created(self.created)


class RecentLogs:
    """The last lines of the log in memory, also while the stream is blocked.

    Problems (warnings and errors), requests and other lines are kept apart, so that none pushes out the others.
    """

    def __init__(self, kept: int = RECENT_LOG_LINES) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._problems, self._requests, self._others = (deque[RecentLogLine](maxlen=kept) for _ in range(3))

    def add(self, record: logging.LogRecord) -> None:
        """Keep a record as text: an error in it would keep everything that its functions hold."""
        fields = {name: _json_value(value) for name, value in _fields_of(record)}
        level, event = record.levelname.lower(), _cut(record.getMessage())
        with self._lock:
            self._count += 1
            line = RecentLogLine(self._count, record.created, record.levelno, level, record.name, event, fields)
            is_problem, is_request = record.levelno >= logging.WARNING, record.name == REQUESTS
            (self._problems if is_problem else self._requests if is_request else self._others).append(line)

    def read(
        self, level: str = "debug", *, after: int = 0, limit: int = RECENT_LOG_LINES, requests: bool = True
    ) -> list[RecentLogLine]:
        """Return the newest lines after that number, of a level or above, oldest first.

        Without `requests`, those of requests that did not fail are left out.
        """
        least = logging.getLevelNamesMapping()[level.upper()]
        with self._lock:
            kinds = (self._problems, self._others, *([self._requests] if requests else []))
            newest = list(merge(*map(reversed, kinds), key=lambda line: -line.number))
        found = (line for line in newest if line.number > after and line.severity >= least)
        return list(islice(found, limit))[::-1]

    @property
    def count(self) -> int:
        """The number of the newest line."""
        return self._count


class LogOutput:
    """Configured logging. `close` writes the remaining lines."""

    def __init__(self, handler: "_DroppingHandler", listener: "_Listener", logger: logging.Logger) -> None:
        self._handler = handler
        self._listener = listener
        self._logger = logger

    @property
    def dropped(self) -> int:
        """Number of records dropped since startup because the queue was full."""
        return self._handler.dropped

    def close(self, *, seconds: float = STOP_SECONDS) -> bool:
        """Stop logging, and leave the logger as a library's; return True if all lines were written in time."""
        self._logger.removeHandler(self._handler)
        if not self._logger.handlers:
            self._logger.addHandler(logging.NullHandler())  # without any, logging itself would write to stderr
            self._logger.setLevel(logging.NOTSET)
            self._logger.propagate = True
        return self._listener.end(seconds)


def configure_logging(
    level: str,
    form: LogFormat,
    stream: TextIO,
    *,
    recent: RecentLogs | None = None,
    queue_records: int = QUEUE_RECORDS,
) -> LogOutput:
    """Write everything below the logger `goqueue` to a stream, and keep the last lines in `recent`."""
    queue: Queue[logging.LogRecord | None] = Queue(queue_records)
    handler = _DroppingHandler(queue, recent or RecentLogs())
    listener = _Listener(queue, handler, _TextFormatter() if form == "text" else _JsonFormatter(), stream)
    logger = logging.getLogger(ROOT)
    for former in list(logger.handlers):
        logger.removeHandler(former)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    listener.start()
    return LogOutput(handler, listener, logger)


class _DroppingHandler(QueueHandler):
    """Queues records, and drops them while the queue is full; the recent ones are kept in any case."""

    def __init__(self, queue: "Queue[logging.LogRecord | None]", recent: RecentLogs) -> None:
        super().__init__(queue)
        self._queue = queue
        self._recent = recent
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Format the message now: its arguments may change before it is written."""
        record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        self._recent.add(record)
        try:
            self._queue.put_nowait(record)
        except Full:
            self.dropped += 1  # under the handler's lock


class _Listener(QueueListener):
    """The thread that writes. It may block forever in the stream, and nothing may wait for it then.

    So it holds no lock while it writes: it has no handler, since logging locks and flushes handlers at exit, and it
    bypasses the buffer of a stream that is a file.
    """

    def __init__(
        self,
        queue: "Queue[logging.LogRecord | None]",
        handler: _DroppingHandler,
        formatter: logging.Formatter,
        stream: TextIO,
    ) -> None:
        super().__init__(queue)
        self._queue = queue
        self._handler = handler
        self._formatter = formatter
        self._stream = stream
        self._reported = 0
        self._ended = threading.Event()

    def handle(self, record: logging.LogRecord) -> None:
        """Write a record, and before it the number of records dropped since the last one."""
        dropped = self._handler.dropped
        if dropped > self._reported:
            lost = logging.LogRecord(ROOT, logging.WARNING, "", 0, "log lines dropped", None, None)
            lost.created = record.created
            lost.fields = {"count": dropped - self._reported, "why": "the log stream is too slow"}
            self._reported = dropped
            self._write(lost)
        self._write(record)

    def end(self, seconds: float) -> bool:
        """Wait until the thread has written the queue; return False after `seconds`."""
        with suppress(Full):
            self._queue.put(None, timeout=seconds)
            return self._ended.wait(seconds)
        return False

    def _monitor(self) -> None:
        try:
            super()._monitor()  # type: ignore[misc]
        finally:
            self._ended.set()

    def _write(self, record: logging.LogRecord) -> None:
        """Write one line; a closed stream is ignored, since there is nowhere to report it."""
        with suppress(OSError, ValueError):
            line = self._formatter.format(record) + "\n"
            try:
                file = self._stream.fileno()
            except OSError:  # a stream in memory
                self._stream.write(line)
            else:
                _write_all(file, line.encode("utf-8", "backslashreplace"))


def _write_all(file: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(file, content) :]
        except BlockingIOError:  # another process made the shared terminal non-blocking
            select.select((), (file,), ())


class _TextFormatter(logging.Formatter):
    """`2026-03-01T12:00:00.000Z INFO    topic created topic=orders partitions=3`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [f"{_time_of(record)[:23]}Z", f"{record.levelname:<7}", escape_markup(record.getMessage())]
        words += [f"{name}={_text_value(value)}" for name, value in _fields_of(record)]
        return " ".join(words)


class _JsonFormatter(logging.Formatter):
    """One JSON object per line; fields cannot replace `event` and the other fixed keys."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(record.getMessage()),
        }
        for name, value in _fields_of(record):
            line[f"{name}_" if name in line else name] = _json_value(value)
        return json.dumps(line, allow_nan=False).translate(_MARKUP_IN_JSON)


def _time_of(record: logging.LogRecord) -> str:
    return _format_created(record.created)


def _format_created(created: float) -> str:
    return format_time(min(max(int(created * NANOSECONDS), 0), TIME_NS_MAX))


def _fields_of(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    yield from getattr(record, "fields", {}).items()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        yield "error", error
        if isinstance(error, GoQueueError):
            yield "code", error.code
        else:
            yield "traceback", "".join(traceback.format_exception(error))[-VALUE_CHARACTERS_MAX:]


_MARKUP = str.maketrans({mark: f"\\x{ord(mark):02x}" for mark in "<>&"})
_MARKUP_IN_JSON = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&"})


def escape_markup(text: str) -> str:
    """Make text safe for a terminal or HTML page: one line, control characters and markup escaped."""
    text = _cut(text)
    if not text.isprintable():
        text = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
    return text.translate(_MARKUP)


def _text_value(value: Any) -> str:
    """Format a value after `=`, in quotes where needed."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = escape_markup(str(value))
    if text and not any(mark in text for mark in ' "=\\'):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _json_value(value: Any) -> Any:
    """Return a value that JSON can hold, or its text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One answered request, as the access log needs it."""

    method: str
    endpoint: str
    """The template of the path."""
    path: str
    status: int
    seconds: float
    bytes_in: int
    bytes_out: int
    peer: str
    request_id: str


class AccessLog:
    """Logs one line per request up to a rate, then one line with the number of omitted ones.

    Failures of the broker (status 500 and above) have a budget of their own, so that many good requests never hide
    them, and many failures do not fill the disk.
    """

    def __init__(self, logger: logging.Logger, *, per_second: int = 100, clock: Clock) -> None:
        self._logger = logger
        self._per_second = per_second
        self._monotonic_ns = clock.monotonic_ns
        self._second_ends = 0
        self._left = [0, 0]
        """Lines left in this second: for answers, and for failures."""
        self._omitted = [0, 0]

    def has_room(self, status: int) -> bool:
        """Return whether an answer with this status gets a line in this second; if not, count it as omitted."""
        now = self._monotonic_ns()
        if now >= self._second_ends:
            self.report()
            self._second_ends = now + NANOSECONDS
            self._left = [self._per_second, self._per_second]
        failed = status >= 500
        if not self._left[failed]:
            self._omitted[failed] += 1
            return False
        self._left[failed] -= 1
        return True

    def log(self, request: AnsweredRequest) -> None:
        """Log an answered request that has room."""
        level = logging.WARNING if request.status >= 500 else logging.INFO
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "request", extra=_request_fields(request))

    def report(self) -> None:
        """Log the number of omitted requests. Called by the first request of the next second, and by a timer."""
        answers, failures = self._omitted
        if answers or failures:
            self._omitted = [0, 0]
            level = logging.WARNING if failures else logging.INFO
            self._logger.log(level, "requests omitted from the log", extra=fields(answers=answers, failures=failures))


def _request_fields(request: AnsweredRequest) -> dict[str, Any]:
    return fields(
        method=request.method,
        endpoint=request.endpoint,
        path=request.path,
        status=request.status,
        ms=round(request.seconds * 1000, 3),
        bytes_in=request.bytes_in,
        bytes_out=request.bytes_out,
        peer=request.peer,
        request_id=request.request_id,
    )
