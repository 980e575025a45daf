"""Log lines: one record is one line, a stuck stream holds nobody up, and what is left out is said."""

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
from goqueue.observe.logs import ROOT, VALUE_CHARACTERS_MAX, AccessLog, Answered, Form, configure, fields
from goqueue.testing.clock import ManualClock

HOUSE = Path(__file__).resolve().parent.parent.parent
LOGGER = logging.getLogger(f"{ROOT}.tests")


@contextmanager
def logging_to(form: Form, level: str = "info") -> Iterator[io.StringIO]:
    """A stream that holds everything once the block has ended."""
    stream = io.StringIO()
    logs = configure(level, form, stream)
    try:
        yield stream
    finally:
        assert logs.close()


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def answered(status: int = 200, **changed: Any) -> Answered:
    request = Answered("GET", "/topics/{topic}", "/topics/orders", status, 0.0123456, 10, 20, "127.0.0.1:5", "r1")
    for name, value in changed.items():
        setattr(request, name, value)
    return request


def test_a_line_for_people_has_time_level_event_and_fields() -> None:
    with logging_to("text") as stream:
        LOGGER.info("topic %s", "created", extra=fields(topic="orders", partitions=3, ms=0.25, note="two words"))
    time, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == 'INFO    topic created topic=orders partitions=3 ms=0.25 note="two words"\n'


def test_a_line_for_programs_is_an_object() -> None:
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


def test_nothing_that_a_terminal_or_a_page_obeys_gets_through() -> None:
    with logging_to("text") as stream:
        LOGGER.info("a\r\nb", extra=fields(path="/\x1b[31m\u202e<b>", quote='a"b', empty=""))
    assert stream.getvalue().split(" ", 1)[1] == (
        'INFO    a\\r\\nb path="/\\x1b[31m\\u202e\\x3cb\\x3e" quote="a\\"b" empty=""\n'
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_value_without_end_is_cut(form: Form) -> None:
    with logging_to(form) as stream:
        LOGGER.info("x" * 1_000_000, extra=fields(path="y" * 1_000_000))
    assert len(stream.getvalue()) < 3 * VALUE_CHARACTERS_MAX


@given(st.text(max_size=20), st.text(max_size=20))
def test_whatever_is_logged_is_one_line(event: str, value: str) -> None:
    with logging_to("text") as text:
        LOGGER.info("%s", event, extra=fields(value=value))
    with logging_to("json") as lines:
        LOGGER.info("%s", event, extra=fields(value=value))
    assert len(text.getvalue().splitlines()) == 1
    assert text.getvalue().removesuffix("\n").isprintable()
    (line,) = objects(lines)
    assert (line["event"], line["value"]) == (event, value)


def test_an_error_is_told_by_its_sentence_and_code_and_a_surprise_with_where_it_arose() -> None:
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


def test_configuring_again_moves_all_lines_to_the_new_stream() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs = configure("info", "text", first)
    again = configure("info", "text", second)
    LOGGER.info("moved")
    assert logs.close()
    assert again.close()
    assert first.getvalue() == ""


def test_a_stuck_stream_holds_nobody_up_and_what_was_lost_is_said() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        logs = configure("info", "json", stream, queue_records=10)
        while logs.dropped < 5:  # the pipe takes some, the queue ten
            LOGGER.info("line")
        said = next(line for line in map(json.loads, reader) if line["event"] != "line")
        assert (said["event"], said["count"] > 0) == ("log lines dropped", True)
        assert logs.close()


def test_a_program_whose_stderr_is_stuck_still_ends() -> None:
    program = """
import logging, os, sys
from goqueue.observe.logs import configure
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
logs = configure("info", "text", sys.stderr)
logging.getLogger("goqueue").info("nobody reads this")
print(logs.close(seconds=0.01), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.read() == "False\n"
        assert process.wait() == 0


def test_a_stream_that_is_gone_is_no_reason_to_stop() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        logs = configure("info", "text", stream)
        LOGGER.info("nobody listens")
        assert logs.close()


def test_a_stream_that_does_not_block_gets_every_line_whole() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        logs = configure("info", "json", cast("TextIO", stream))
        for number in range(1000):
            LOGGER.info("line", extra=fields(number=number))
        assert [json.loads(next(reader))["number"] for _ in range(1000)] == list(range(1000))
        assert logs.close()


def test_a_request_is_one_line() -> None:
    with logging_to("json") as stream:
        AccessLog(LOGGER, clock=ManualClock()).log(answered())
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


def test_under_load_some_are_left_out_and_counted() -> None:
    clock = ManualClock()
    with logging_to("json") as stream:
        access = AccessLog(LOGGER, per_second=2, clock=clock)
        for _ in range(7):
            access.log(answered())
        clock.advance(0.5)
        access.log(answered())
        clock.advance(0.5)
        access.log(answered())
    lines = objects(stream)
    assert [line["event"] for line in lines] == ["request", "request", "requests left out of the log", "request"]
    assert (lines[2]["answers"], lines[2]["failures"]) == (6, 0)


def test_a_flood_of_answers_hides_no_failure_and_failures_are_bounded_too() -> None:
    with logging_to("json") as stream:
        access = AccessLog(LOGGER, per_second=2, clock=ManualClock())
        for _ in range(5):
            access.log(answered())
        for status in (500, 503, 500):
            access.log(answered(status))
        access.report()
        access.report()
    lines = objects(stream)
    assert [line.get("status") for line in lines] == [200, 200, 500, 503, None]
    assert [line["level"] for line in lines] == ["info", "info", "warning", "warning", "warning"]
    assert (lines[4]["answers"], lines[4]["failures"]) == (3, 1)
