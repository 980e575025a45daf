"""Watching: events in a pipe, a table in place on a terminal, and waiting for what is to come."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from goqueue.console import watch
from goqueue.errors import BrokerUnreachable, RequestTimedOut, TopicNotFound
from tests.cli.programs import ROOT, environment
from tests.forked import Program

PROGRAM = (sys.executable, "-m", "tests.console.looking")


def a_look(*rows: tuple[str, int, str]) -> str:
    return json.dumps([{"name": name, "lag": lag, "state": state} for name, lag, state in rows])


@contextmanager
def watching(*words: str) -> Iterator[Program]:
    with Program(
        [*PROGRAM, *words], cwd=ROOT, env=environment(), text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def tell(process: Program, *looks: str) -> None:
    process.stdin.write("".join(f"{look}\n" for look in looks))


def lines(stream: IO[str] | None, count: int) -> list[str]:
    assert stream is not None
    return [stream.readline().rstrip("\n") for _ in range(count)]


def test_a_pipe_gets_a_line_for_each_change() -> None:
    with watching("table") as process:
        tell(process, a_look(("orders", 5, "stable"), ("b", 1, "empty")))
        assert lines(process.stdout, 3) == [
            "EVENT    NAME    LAG  STATE",
            "added    orders    5  stable",
            "added    b         1  empty",
        ]
        tell(process, a_look(("orders", 1234, "stable")), a_look(("orders", 1234, "stable")), a_look())
        assert lines(process.stdout, 3) == [
            "changed  orders  1234  stable",
            "removed  b          1  empty",
            "removed  orders  1234  stable",
        ]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            "jsonl",
            [
                '{"event":"added","name":"a","lag":1,"state":"stable"}',
                '{"event":"changed","name":"a","lag":2,"state":"stable"}',
            ],
        ),
        (
            "json",
            [
                '{"event":"added","name":"a","lag":1,"state":"stable"}',
                '{"event":"changed","name":"a","lag":2,"state":"stable"}',
            ],
        ),
        ("csv", ["event,name,lag,state,note", "added,a,1,stable,", "changed,a,2,stable,"]),
        ("yaml", ["- event: added", "  name: a", "  lag: 1", "  state: stable", "- event: changed"]),
        ("name", ["a", "a"]),
    ],
)
def test_every_form_for_programs_has_its_events(output: str, told: list[str]) -> None:
    with watching(output) as process:
        tell(process, a_look(("a", 1, "stable")), a_look(("a", 2, "stable")))
        assert lines(process.stdout, len(told)) == told


def test_a_broker_that_goes_away_is_told_once_and_waited_for() -> None:
    with watching("name") as process:
        tell(process, a_look(("a", 1, "x")), "away", "away", a_look(("a", 2, "x")))
        assert lines(process.stdout, 2) == ["a", "a"]
        assert lines(process.stderr, 2) == [
            "no broker answers; continuing when the broker answers",
            "the broker answers again",
        ]


@pytest.mark.parametrize(("looks", "code"), [(["away"], 3), ([a_look(("a", 1, "x")), "deleted"], 5)])
def test_what_cannot_pass_is_the_end(looks: list[str], code: int) -> None:
    with watching("name") as process:
        tell(process, *looks)
        assert process.wait() == code
        assert process.stderr.read().startswith("error: ")


def test_an_interruption_ends_a_watch_quietly_with_130() -> None:
    with watching("name") as process:
        tell(process, a_look(("a", 1, "x")))
        assert lines(process.stdout, 1) == ["a"]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == ""


class Terminal:
    """A program that watches on a terminal of some size."""

    def __init__(self, rows: int, columns: int, *words: str, **variables: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = Program(
            [*PROGRAM, *words], cwd=ROOT, env=environment(**variables), stdin=subprocess.PIPE, stdout=slave,
            stderr=subprocess.PIPE, text=True, bufsize=1, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def shows(self, end: str) -> str:
        """Return the output up to and including `end`."""
        shown = b""
        while not shown.endswith(end.encode()):
            shown += os.read(self.master, 1)
        return shown.decode().replace("\r\n", "\n")

    def frame(self) -> str:
        """Return the next frame, but those that only say for how long the test has not told its rows."""
        while "no answer for" in (shown := self.shows(FRAME)):
            continue
        return shown

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.master)


FRAME = "\x1b[J"


def test_a_terminal_gets_the_table_over_the_table_before() -> None:
    with Terminal(24, 80, "table") as terminal:
        tell(terminal.process, a_look(("orders", 5, "stable"), ("b", 1, "failed")))
        first = terminal.frame().splitlines()
        assert "every 10ms" in first[0]
        assert "\x1b[1;35mproduction\x1b[0m" in first[0], "a protected context is seen to be one"
        assert "\x1b[32mstable\x1b[0m" in first[2]
        assert "\x1b[1;31mfailed\x1b[0m" in first[3]
        tell(terminal.process, a_look(("orders", 6, "stable"), ("b", 1, "failed")))
        second = terminal.frame()
        assert second.startswith("\r\x1b[4A")
        assert "orders    \x1b[1;33m6\x1b[0m" in second, "what changed is marked"
        assert "\x1b[1;33m1" not in second
        tell(terminal.process, "away")
        assert "\x1b[1;31mno broker answers\x1b[0m" in terminal.frame()
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.process.wait() == 130
        assert terminal.process.stderr.read() == ""


def test_a_table_that_is_too_long_says_how_much_more_there_is() -> None:
    with Terminal(8, 30, "table") as terminal:
        tell(
            terminal.process,
            a_look(*((f"a-group-with-a-long-name-{number}", number, "stable") for number in range(20))),
        )
        frame = terminal.frame()
        assert frame.count("\n") == 7, "with the line of the cursor it is as high as the terminal"
        assert "… and 16 more\x1b[K" in frame
        assert "a-group-with-a-l…    0" in frame


def test_a_terminal_that_cannot_draw_gets_events_without_colours() -> None:
    with Terminal(24, 80, "table", TERM="dumb") as terminal:
        tell(terminal.process, a_look(("a", 1, "stable")), a_look(("a", 2, "stable")))
        assert terminal.shows("changed") == "EVENT    NAME  LAG  STATE\nadded    a       1  stable\nchanged"


def test_no_colour_leaves_the_drawing() -> None:
    with Terminal(24, 80, "table", NO_COLOR="1") as terminal:
        tell(terminal.process, a_look(("a", 1, "failed")))
        assert "\x1b[1;31m" not in terminal.frame()


def test_rows_keep_the_order_that_was_asked_for() -> None:
    with watching("name", "lag:desc") as process:
        tell(process, a_look(("a", 1, "x"), ("b", 9, "x"), ("c", 5, "x")))
        assert lines(process.stdout, 3) == ["b", "c", "a"]


def test_waiting_ends_when_it_is_so_and_passes_over_a_broker_that_is_away() -> None:
    answers: Iterator[tuple[bool, str] | Exception] = iter(
        [(False, "lag 5"), BrokerUnreachable("no broker answers"), (True, "lag 0")]
    )

    def look() -> tuple[bool, str]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch.wait("lag 0", look, timeout=60, every=0.001)
    assert list(answers) == []


def test_waiting_in_vain_says_how_far_it_was() -> None:
    with pytest.raises(RequestTimedOut, match="waited 10ms for lag 0 of billing: lag 5"):
        watch.wait("lag 0 of billing", lambda: (False, "lag 5"), timeout=0.01, every=0.001)


def test_waiting_for_what_is_not_there_is_refused() -> None:
    def look() -> tuple[bool, str]:
        raise TopicNotFound("there is no topic 'orders'")

    with pytest.raises(TopicNotFound):
        watch.wait("anything", look, timeout=60)
