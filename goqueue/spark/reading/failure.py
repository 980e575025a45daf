"""Translate exceptions of Spark into errors of GoQueue.

An error of ours that is raised in a Python worker crosses the JVM as the text of a traceback. That ends with the class,
the sentence and the hint, from which `describe_failure` makes the error again, and which a person finds last.
"""

import re
import traceback
from typing import Any

from goqueue import errors
from goqueue.errors import GoQueueError, RequestInvalid, SparkFailed, SparkUnavailable

_MARK = "Hint: "
_SENTENCE_CHARACTERS_MAX = 1000
_SPACE_HINT = "make room where the result goes and where TMPDIR leads: Spark puts large sorts and joins there"
_MEMORY_HINT = "give it more memory, or read less at a time"
_LOST = (
    "Answer from Java side is empty",
    "Error while receiving",
    "Error while sending",
    "An error occurred while trying to connect to the Java server",
    "Connection refused",
    "Connection reset",
)


def is_spark_error(error: BaseException) -> bool:
    """Test if pyspark or a library below it raised this, or a connection broke under py4j."""
    if isinstance(error, ConnectionError):
        return any("py4j" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
    return any(kind.__module__.split(".")[0] in {"grpc", "py4j", "pyspark"} for kind in type(error).__mro__)


def is_connection_lost(error: BaseException) -> bool:
    """Test if the connection to the JVM is lost, and so perhaps the JVM."""
    named = isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"
    return named or any(phrase in str(error) for phrase in _LOST)


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """Return the KeyboardInterrupt that an error follows: after ^C pyspark fails on a connection in use."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause


def describe_failure(error: BaseException, last_words: str = "") -> GoQueueError:
    """Return an error of GoQueue for an exception of a session; `last_words` is the last output of its JVM."""
    if isinstance(error, GoQueueError):
        return error
    text = _text(error)
    kind = type(error).__name__
    if (ours := _carried_error(text)) is not None:
        return ours
    if (exhausted := _exhausted(text, last_words)) is not None:
        return exhausted
    if kind in {"AnalysisException", "ParseException"}:
        return RequestInvalid(_without_plan(text))
    if type(error).__module__.startswith(("pyspark.errors.exceptions.connect", "grpc", "pyspark.sql.connect")):
        return _connect_failure(text)
    if is_connection_lost(error):
        return SparkFailed(f"the JVM of Spark ended{last_words}")
    return SparkFailed(_summary(text, kind))


def _exhausted(text: str, last_words: str) -> GoQueueError | None:
    """Return the error for memory or disk space that ran out."""
    if "OutOfMemoryError" in text or "OutOfMemoryError" in last_words:
        return SparkFailed("Spark ran out of memory", hint=_MEMORY_HINT)
    if "No space left on device" in text:
        return SparkFailed("no space is left on the device", hint=_SPACE_HINT)
    if "Python worker exited unexpectedly" in text or "Python worker exited" in text:
        return SparkFailed("a Python worker of Spark was killed", hint=_MEMORY_HINT)
    return None


def _text(error: BaseException) -> str:
    java: Any = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    try:
        return f"{error}\n{java.toString()}"
    except Exception:  # the JVM that it lives in is gone
        return " ".join(str(part) for part in error.args)


def _carried_error(text: str) -> GoQueueError | None:
    """Return the error that a worker raised, from the end of its traceback."""
    found = list(re.finditer(rf"^goqueue\.errors\.(\w+): (.*)$(?:\n{_MARK}(.*)$)?", text, re.MULTILINE))
    return _made(*found[-1].groups()) if found else None


def _made(name: str, sentence: str, hint: str | None) -> GoQueueError | None:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, GoQueueError):
        return kind(sentence, hint=hint)
    return None


def _without_plan(text: str) -> str:
    """Return the sentence and its position, without the plan and the drawing of the query."""
    head = re.split(r";?\n\s*(?:'|\+-|== |!|[A-Z]\w+ \[)|\nJVM stacktrace", text, maxsplit=1)[0]
    return _one_line(re.sub(r"\s*SQLSTATE: \w+", "", head))


def _connect_failure(text: str) -> GoQueueError:
    if "UNAVAILABLE" in text or "failed to connect" in text:
        return SparkUnavailable(
            f"the Spark Connect server cannot be reached: {_detail(text)}", hint="look whether it runs, and its address"
        )
    if "PARSE_SYNTAX_ERROR" in text or "UNRESOLVED" in text or "NOT_FOUND" in text:
        return RequestInvalid(_without_plan(text))
    return SparkFailed(_summary(text, "SparkConnectException"))


def _detail(text: str) -> str:
    found = re.search(r'details = "([^"]*)"', text)
    return _one_line(found[1] if found else text.splitlines()[0])


def _summary(text: str, kind: str) -> str:
    """Return the last line of a traceback, or the deepest cause of a chain of Java exceptions."""
    python = re.findall(r"^((?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit)(?:: .*)?)$", text, re.MULTILINE)
    causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    failed = re.findall(r"Lost task .*?: ((?:\w+\.)+\w+: .*)$", text, re.MULTILINE)
    lines = [line.removeprefix(": ") for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling "):  # py4j's words; the exception follows
        lines = lines[1:]
    if "Traceback (most recent call last)" in text and python:
        told = python[-1]
    else:
        told = (causes[-1:] or failed[-1:] or lines[:1] or [kind])[0]
    return f"Spark failed: {_one_line(told)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE_CHARACTERS_MAX else f"{line[:_SENTENCE_CHARACTERS_MAX]}…"
