"""The daemon's log lines: for people as text, for programs as JSON, on a stream that may be stuck.

Whoever logs puts a record into a bounded queue and goes on; a thread of its own writes. What must stay true:
no call here waits for the stream, one record is one line whatever it holds, and what was lost is counted
and said as soon as lines get through again.
"""

import json
import logging
import os
import select
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import Any, Literal, TextIO

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.quantities import TIME_NS_MAX, format_time

Form = Literal["text", "json"]

ROOT = "goqueue"
QUEUE_RECORDS = 10_000  # some seconds of a flood, a few MiB of memory
VALUE_CHARACTERS_MAX = 2_000  # of one value; longer ones end in an ellipsis
STOP_SECONDS = 2.0  # how long the end of the program waits for lines that a stuck stream does not take


def fields(**values: Any) -> dict[str, Any]:
    """What belongs to an event: `logger.info("topic created", extra=fields(topic=name))`."""
    return {"fields": values}


class Logs:
    """Logging that has been configured. `close` writes what is left, for as long as the stream takes it."""

    def __init__(self, handler: "_DroppingHandler", listener: "_Listener", logger: logging.Logger) -> None:
        self._handler = handler
        self._listener = listener
        self._logger = logger

    @property
    def dropped(self) -> int:
        """Records that found the queue full, since the start."""
        return self._handler.dropped

    def close(self, *, seconds: float = STOP_SECONDS) -> bool:
        """Whether everything was written before the time was over."""
        self._logger.removeHandler(self._handler)
        self._logger.addHandler(logging.NullHandler())  # without any, logging itself would write to stderr
        return self._listener.end(seconds)


def configure(level: str, form: Form, stream: TextIO, *, queue_records: int = QUEUE_RECORDS) -> Logs:
    """Send everything below the logger `goqueue` to a stream."""
    queue: Queue[logging.LogRecord | None] = Queue(queue_records)
    handler = _DroppingHandler(queue)
    listener = _Listener(queue, handler, _TextFormatter() if form == "text" else _JsonFormatter(), stream)
    logger = logging.getLogger(ROOT)
    for former in list(logger.handlers):
        logger.removeHandler(former)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    listener.start()
    return Logs(handler, listener, logger)


class _DroppingHandler(QueueHandler):
    """Drops what the queue has no room for."""

    def __init__(self, queue: "Queue[logging.LogRecord | None]") -> None:
        super().__init__(queue)
        self._queue = queue
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """As it is, with its sentence made: what it was made of may have changed by the time it is written."""
        record.msg, record.args = record.getMessage(), None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self._queue.put_nowait(record)
        except Full:
            self.dropped += 1  # under the handler's lock


class _Listener(QueueListener):
    """The thread that writes. When the stream is stuck it is left behind, and nothing may wait for it.

    So it holds no lock while it writes: it has no handler, since logging locks and flushes those at the end of
    the program, and it goes around the buffer of a stream that is a file.
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
        self._told = 0
        self._ended = threading.Event()

    def handle(self, record: logging.LogRecord) -> None:
        """Write a record; say before it how many there should have been in between."""
        dropped = self._handler.dropped
        if dropped > self._told:
            lost = logging.LogRecord(ROOT, logging.WARNING, "", 0, "log lines dropped", None, None)
            lost.created = record.created
            lost.fields = {"count": dropped - self._told, "why": "the stream takes lines too slowly"}
            self._told = dropped
            self._write(lost)
        self._write(record)

    def end(self, seconds: float) -> bool:
        """Let the thread write what is queued; leave it behind when that takes too long."""
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
        """A stream that is gone is no reason to stop, and there is nowhere left to say so."""
        with suppress(OSError, ValueError):
            line = self._formatter.format(record) + "\n"
            try:
                file = self._stream.fileno()
            except OSError:  # it is in memory
                self._stream.write(line)
            else:
                _write_all(file, line.encode("utf-8", "backslashreplace"))


def _write_all(file: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(file, content) :]
        except BlockingIOError:  # whoever shares the terminal with us has made it so
            select.select((), (file,), ())


class _TextFormatter(logging.Formatter):
    """`2026-03-01T12:00:00.000Z INFO    topic created topic=orders partitions=3`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [f"{_time_of(record)[:23]}Z", f"{record.levelname:<7}", harmless(record.getMessage())]
        words += [f"{name}={_written(value)}" for name, value in _fields_of(record)]
        return " ".join(words)


class _JsonFormatter(logging.Formatter):
    """The same as an object; the fields stand beside the event and cannot replace it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(record.getMessage()),
        }
        for name, value in _fields_of(record):
            line[f"{name}_" if name in line else name] = _plain(value)
        return json.dumps(line, allow_nan=False).translate(_MARKUP_IN_JSON)


def _time_of(record: logging.LogRecord) -> str:
    return format_time(min(max(int(record.created * NANOSECONDS), 0), TIME_NS_MAX))


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


def harmless(text: str) -> str:
    """One line that a terminal or a page shows and does not obey: what they would is shown as its escape."""
    text = _cut(text)
    if not text.isprintable():
        text = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
    return text.translate(_MARKUP)


def _written(value: Any) -> str:
    """A value after its `=`: in quotes where its end could not be seen otherwise."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = harmless(str(value))
    if text and not any(mark in text for mark in ' "=\\'):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _plain(value: Any) -> Any:
    """A value that JSON has; everything else as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


@dataclass(slots=True)  # not frozen, which would cost more than all the rest of a line that is left out
class Answered:
    """A request with its answer."""

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
    """One line for each request, until there are too many; then a line that says how many were left out.

    Failures of the broker (status 500 and above) have a budget of their own, so that a flood of good requests
    hides none of them, and a flood of failures does not fill the disk either.
    """

    def __init__(self, logger: logging.Logger, *, per_second: int = 100, clock: Clock) -> None:
        self._logger = logger
        self._per_second = per_second
        self._monotonic_ns = clock.monotonic_ns
        self._second_ends = 0
        self._left = [0, 0]
        """How many lines this second still has: for answers, and for failures."""
        self._left_out = [0, 0]

    def log(self, request: Answered) -> None:
        """Say that a request was answered, or count that it was not said."""
        now = self._monotonic_ns()
        if now >= self._second_ends:
            self.report()
            self._second_ends = now + NANOSECONDS
            self._left = [self._per_second, self._per_second]
        failed = request.status >= 500
        if not self._left[failed]:
            self._left_out[failed] += 1
            return
        self._left[failed] -= 1
        level = logging.WARNING if failed else logging.INFO
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "request", extra=_told(request))

    def report(self) -> None:
        """Say what was left out. The next second's first request does it, and so may any timer."""
        answers, failures = self._left_out
        if answers or failures:
            self._left_out = [0, 0]
            level = logging.WARNING if failures else logging.INFO
            self._logger.log(level, "requests left out of the log", extra=fields(answers=answers, failures=failures))


def _told(request: Answered) -> dict[str, Any]:
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
