"""`goqueue demo`: a broker that is used, to try things on."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated

import typer

from goqueue.client import Client
from goqueue.commands.staff import Staff
from goqueue.commands.traffic import TOPICS, Traffic
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.limits import PORT
from goqueue.quantities import format_count, format_duration, parse_duration

_TICK_SECONDS = 0.1
_STOP_SECONDS = 20.0
_END_OF_BANNER = "^C stops"


def demo(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="The port to listen on; unless given, 8080, or a free one where 8080 is taken.",
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after that long; without it, on ^C.")
    ] = None,
    rate: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="How many messages to publish in a second.")
    ] = 50,
) -> None:
    """Start a broker with lively traffic to try things on.

    \b
      goqueue demo
      goqueue demo --for 1m --rate 500
      goqueue demo --port 9000

    A shop that is not there takes orders and payments, and its pages are looked at. Of its groups two keep up and
    one does not; payments that cannot be worked with become dead letters. Everything is in a temporary directory,
    which is gone at the end.
    """
    seconds = None if duration is None else _seconds(duration)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with (
        tempfile.TemporaryDirectory(prefix="goqueue-demo-") as directory,
        suppress(KeyboardInterrupt),
        _broker(directory, (PORT, 0) if port is None else (port,)) as address,
        Client(address) as client,
    ):
        for topic, partitions in TOPICS.items():
            client.create_topic(topic, partitions)
        terminal.say(*_introduction(address))
        with Staff(address, rate):
            _run(client, rate, seconds)
    terminal.say("the demo has ended, and its data is gone")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"--for: {error}") from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _run(client: Client, rate: int, seconds: float | None) -> None:
    """Publish until the time is over or somebody interrupts it."""
    began = shown = time.monotonic()
    pause = threading.Event()
    with client.producer() as producer:
        traffic = Traffic(producer, rate)
        try:
            while True:
                now = time.monotonic()
                traffic.catch_up(now - began if seconds is None else min(now - began, seconds))
                if seconds is not None and now - began >= seconds:
                    break
                if now - shown >= 1:
                    shown = now
                    terminal.show_status(_status(traffic, now - began))
                pause.wait(_TICK_SECONDS)
        finally:
            terminal.show_status("")
            terminal.say(f"{_status(traffic, time.monotonic() - began)}; stopping")


def _status(traffic: Traffic, seconds: float) -> str:
    per_second = traffic.count / seconds if seconds else 0.0
    return f"{format_count(traffic.count, 'message')} in {format_duration(round(seconds, 1))}, {per_second:,.0f}/s"


def _introduction(address: str) -> list[str]:
    return [
        f"GoQueue is at {address}, and takes orders, payments and page views. Try, in another terminal:",
        "",
        f"  export GOQUEUE_SERVER={address}",
        "  goqueue-admin dashboard",
        "  goqueue-cli consume orders --follow",
        "  goqueue-cli consume payments --where json.method=voucher --last 5",
        "  goqueue-cli group list",
        "  goqueue-cli dlq errors payments",
        f"  curl '{address}/topics/page-views/partitions/0/messages?limit=3'",
        "",
        _END_OF_BANNER,
    ]


# --- the broker ---


@contextmanager
def _broker(directory: str, ports: Sequence[int]) -> Iterator[str]:
    """A broker on the first port that can be had. Yields its address."""
    for port in ports:
        process = _start(directory, port)
        narrator = threading.Thread(target=_pass_on, args=(process,), daemon=True)
        try:
            lines = list(_banner(process))
            if lines and lines[-1] == _END_OF_BANNER:
                narrator.start()
                yield lines[0].split()[-1]
                return
        finally:
            _stop(process)
            if narrator.ident is not None:
                narrator.join()
        if port != ports[-1]:
            reason = lines[0].removeprefix("error: ") if lines else f"nobody came up at port {port}"
            terminal.say(f"{reason}; the demo takes a free port, --port chooses another")
    terminal.say(*lines)  # why it did not start, as it tells it
    raise typer.Exit(process.returncode)


def _start(directory: str, port: int) -> "subprocess.Popen[str]":
    """In a process of its own, which a ^C in this terminal does not reach."""
    command = [sys.executable, "-P", "-m", "goqueue", "serve", "--data-dir", os.path.join(directory, "data")]
    return subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")},
        start_new_session=True,
    )


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _banner(process: "subprocess.Popen[str]") -> Iterator[str]:
    """All of it, or what a broker that does not start tells."""
    for line in _narration(process):
        yield line
        if line == _END_OF_BANNER:
            return
    process.wait()


def _pass_on(process: "subprocess.Popen[str]") -> None:
    """What the broker tells after its banner."""
    for line in _narration(process):
        if line != "stopped cleanly":
            terminal.show_status("")  # which comes again with the next look
            terminal.say(line)


def _narration(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stderr is not None
    return map(str.rstrip, process.stderr)
