"""Log lines: one record is one line, a blocked stream delays no caller, omitted lines are counted."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DiskFull
from goqueue.observe.logs import (
    REQUESTS,
    ROOT,
    VALUE_CHARACTERS_MAX,
    AccessLog,
    AnsweredRequest,
    LogFormat,
    RecentLogs,
    configure_logging,
    fields,
)
from goqueue.testing.clock import ManualClock

HOUSE = Path(__file__).resolve().parent.parent.parent
LOGGER = logging.getLogger(f"{ROOT}.tests")


@contextmanager
def logging_to(form: LogFormat, level: str = "info") -> Iterator[io.StringIO]:
    """A stream that holds everything once the block has ended."""
    stream = io.StringIO()
    logs = configure_logging(level, form, stream)
    try:
        yield stream
    finally:
        assert logs.close()


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def answered(status: int = 200, **changed: Any) -> AnsweredRequest:
    request = AnsweredRequest(
        "GET", "/topics/{topic}", "/topics/orders", status, 0.0123456, 10, 20, "127.0.0.1:5", "r1"
    )
    for name, value in changed.items():
        setattr(request, name, value)
    return request


def test_text_line_has_time_level_event_and_fields() -> None:
    with logging_to("text") as stream:
        LOGGER.info("topic %s", "created", extra=fields(topic="orders", partitions=3, ms=0.25, note="two words"))
    time, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == 'INFO    topic created topic=orders partitions=3 ms=0.25 note="two words"\n'


def test_json_line_is_an_object() -> None:
    with logging_to("json") as stream:
        LOGGER.warning("late", extra=fields(ms=1.5, big=float("inf"), none=None, where=Path("a"), event="mine"))
    (line,) = objects(stream)
    assert re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{9}Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "logger": "goqueue.tests",
        "event": "late",
        "ms": 1.5,
        "big": "inf",
        "none": None,
        "where": "a",
        "event_": "mine",
    }


def test_lines_below_the_level_are_not_written() -> None:
    with logging_to("text", "warning") as stream:
        LOGGER.info("quiet")
    assert stream.getvalue() == ""


def test_control_characters_are_escaped() -> None:
    with logging_to("text") as stream:
        LOGGER.info("a\r\nb", extra=fields(path="/\x1b[31m\u202e<b>", quote='a"b', empty=""))
    assert stream.getvalue().split(" ", 1)[1] == (
        'INFO    a\\r\\nb path="/\\x1b[31m\\u202e\\x3cb\\x3e" quote="a\\"b" empty=""\n'
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_long_values_are_truncated(form: LogFormat) -> None:
    with logging_to(form) as stream:
        LOGGER.info("x" * 1_000_000, extra=fields(path="y" * 1_000_000))
    assert len(stream.getvalue()) < 3 * VALUE_CHARACTERS_MAX


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_record_is_one_line(event: str, value: str) -> None:
    with logging_to("text") as text:
        LOGGER.info("%s", event, extra=fields(value=value))
    with logging_to("json") as lines:
        LOGGER.info("%s", event, extra=fields(value=value))
    assert len(text.getvalue().splitlines()) == 1
    assert text.getvalue().removesuffix("\n").isprintable()
    (line,) = objects(lines)
    assert (line["event"], line["value"]) == (event, value)


def test_known_errors_have_a_code_and_others_a_traceback() -> None:
    with logging_to("json") as stream:
        for error in (DiskFull("no space left on /data"), ZeroDivisionError("surprise")):
            try:
                raise error
            except (DiskFull, ZeroDivisionError):
                LOGGER.exception("failed")
    expected, surprise = objects(stream)
    assert (expected["error"], expected["code"]) == ("no space left on /data", "disk_full")
    assert "traceback" not in expected
    assert "test_logs.py" in surprise["traceback"]


def test_reconfiguration_moves_lines_to_the_new_stream() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs = configure_logging("info", "text", first)
    again = configure_logging("info", "text", second)
    LOGGER.info("moved")
    assert logs.close()
    assert again.close()
    assert first.getvalue() == ""


def test_blocked_stream_delays_no_caller_and_dropped_lines_are_counted() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        logs = configure_logging("info", "json", stream, queue_records=10)
        while logs.dropped < 5:  # the pipe takes some, the queue ten
            LOGGER.info("line")
        said = next(line for line in map(json.loads, reader) if line["event"] != "line")
        assert (said["event"], said["count"] > 0) == ("log lines dropped", True)
        assert logs.close()


def test_program_with_blocked_stderr_ends() -> None:
    program = """
import logging, os, sys
from goqueue.observe.logs import configure_logging
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
logs = configure_logging("info", "text", sys.stderr)
logging.getLogger("goqueue").info("lost line")
print(logs.close(seconds=0.01), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.read() == "False\n"
        assert process.wait() == 0


def test_closed_stream_is_ignored() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        logs = configure_logging("info", "text", stream)
        LOGGER.info("lost line")
        assert logs.close()


def test_nonblocking_stream_gets_complete_lines() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        logs = configure_logging("info", "json", cast("TextIO", stream))
        for number in range(1000):
            LOGGER.info("line", extra=fields(number=number))
        assert [json.loads(next(reader))["number"] for _ in range(1000)] == list(range(1000))
        assert logs.close()


def log_requests(access: AccessLog, *statuses: int) -> None:
    for status in statuses:
        if access.has_room(status):
            access.log(answered(status))


def test_access_log_line_fields() -> None:
    with logging_to("json") as stream:
        log_requests(AccessLog(LOGGER, clock=ManualClock()), 200)
    (line,) = objects(stream)
    assert {name: line[name] for name in list(line)[3:]} == {
        "event": "request",
        "method": "GET",
        "endpoint": "/topics/{topic}",
        "path": "/topics/orders",
        "status": 200,
        "ms": 12.346,
        "bytes_in": 10,
        "bytes_out": 20,
        "peer": "127.0.0.1:5",
        "request_id": "r1",
    }


def test_requests_beyond_the_rate_are_omitted_and_counted() -> None:
    clock = ManualClock()
    with logging_to("json") as stream:
        access = AccessLog(LOGGER, per_second=2, clock=clock)
        log_requests(access, *[200] * 7)
        clock.advance(0.5)
        log_requests(access, 200)
        clock.advance(0.5)
        log_requests(access, 200)
    lines = objects(stream)
    assert [line["event"] for line in lines] == ["request", "request", "requests omitted from the log", "request"]
    assert (lines[2]["answers"], lines[2]["failures"]) == (6, 0)


def test_failures_have_their_own_rate_limit() -> None:
    with logging_to("json") as stream:
        access = AccessLog(LOGGER, per_second=2, clock=ManualClock())
        log_requests(access, *[200] * 5, 500, 503, 500)
        access.report()
        access.report()
    lines = objects(stream)
    assert [line.get("status") for line in lines] == [200, 200, 500, 503, None]
    assert [line["level"] for line in lines] == ["info", "info", "warning", "warning", "warning"]
    assert (lines[4]["answers"], lines[4]["failures"]) == (3, 1)


# --- the last lines in memory ---


def recent(level: str = "debug", kept: int = 3) -> tuple[RecentLogs, io.StringIO]:
    """Log an error, a warning, another line and five requests; so many lines of each kind are kept."""
    logs, stream = RecentLogs(kept), io.StringIO()
    output = configure_logging(level, "text", stream, recent=logs)
    LOGGER.error("first failure", exc_info=DiskFull("no space left"))
    LOGGER.warning("slow %s", "disk", extra=fields(seconds=1.5))
    LOGGER.info("topic created")
    for number in range(5):
        logging.getLogger(REQUESTS).info("request", extra=fields(number=number))
    output.close()
    return logs, stream


def test_recent_lines_stay_when_many_requests_follow() -> None:
    logs, _ = recent()
    others = [(1, "first failure"), (2, "slow disk"), (3, "topic created")]
    found = [(line.number, line.event) for line in logs.read()]
    assert found == [*others, (6, "request"), (7, "request"), (8, "request")]
    assert [(line.number, line.event) for line in logs.read(requests=False)] == others
    assert [line.event for line in logs.read("warning")] == ["first failure", "slow disk"]
    assert [line.number for line in logs.read(after=5, limit=1)] == [8]
    assert logs.count == 8


def test_recent_lines_hold_text_and_no_error() -> None:
    failure, slow = recent()[0].read("warning")
    assert (failure.fields, failure.level) == ({"error": "no space left", "code": "disk_full"}, "error")
    assert (slow.fields, slow.logger, slow.time[-1]) == ({"seconds": 1.5}, "goqueue.tests", "Z")


def test_recent_lines_are_kept_at_the_levels_of_the_log() -> None:
    logs, stream = recent("error")
    assert [line.event for line in logs.read()] == ["first failure"]
    assert len(stream.getvalue().splitlines()) == 1
