"""`goqueue-cli bench latency`: measure the time from sending a message to receiving it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import Consent
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_duration, format_size
from goqueue_cli.bench import results
from goqueue_cli.bench.latencies import Latencies, bars
from goqueue_cli.bench.results import Result
from goqueue_cli.bench.target import (
    PartitionsFlag,
    SaveFlag,
    SizeFlag,
    TopicName,
    bench_target,
    confirm_load,
    describe_target,
    duration_flag,
)

_PATIENCE_SECONDS = 10.0
"""Maximum time to wait for messages after the last one was sent."""

_RATE_MIN = 0.01
_RATE_MAX = 50_000.0  # at a higher rate one sending thread measures itself
_PERCENTILES = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p999_ms": 99.9}
_SIZE_BYTES_MIN = 28  # the mark of the run and the time at which the message was to be sent
_MS = 1e6

_Rate = Annotated[float, typer.Option(metavar="N", show_default="1000", help="Messages per second.")]


@session_flags
def latency(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName = None,
    *,
    rate: _Rate = 1_000.0,
    duration: Annotated[float, duration_flag("--duration", "10s", "Time to measure, without the warm-up.")] = 10.0,
    warm_up: Annotated[float, duration_flag("--warm-up", "1s", "Time before messages are counted.")] = 1.0,
    size: SizeFlag = 100,
    partitions: PartitionsFlag = 1,
    save: SaveFlag = None,
    consent: Consent,
    session: Session,
) -> None:
    """Measure how long messages take from being sent to being received.

    \b
      goqueue-cli bench latency
      goqueue-cli bench latency --rate 5000 --duration 30s
      goqueue-cli bench latency --rate 100 --save before.json

    Messages are due at fixed times, whether or not earlier ones were received, and latency counts from those times, so
    that a delay counts for every message that it affects. Each message is durable before a following reader receives
    it. Sender and receiver are threads of this process; how late messages were sent is shown separately. The warm-up is
    not counted.
    """
    _check(rate, duration, size)
    results.check_place(save)
    plan = f"send {rate:,.10g} messages of {format_size(size)} a second to {describe_target(topic, partitions)}"
    if not confirm_load(session, plan, consent=consent):
        return
    from goqueue_cli.bench.open_load import OpenLoad  # noqa: PLC0415 - with the SDK
    from goqueue_cli.publishing.stream import PublishProgress  # noqa: PLC0415

    with bench_target(session, topic, partitions) as place:
        journeys = OpenLoad(place.topic, size, rate, warm_up=warm_up, duration=duration)
        terminal.say(
            f"sending {rate:,.10g} messages of {format_size(size)} a second to {place.topic} "
            f"for {format_duration(duration)}, after {format_duration(warm_up)} to warm up"
        )
        progress = PublishProgress("sent", lambda sent: sent / journeys.messages)
        producer = place.client.producer(linger=0)
        reader = place.client.reader(place.topic, start="latest", follow=True)
        try:
            journeys.run(producer, reader, _PATIENCE_SECONDS, lambda sent: progress.show(sent, sent))
        finally:
            progress.clear()
            producer.close(_PATIENCE_SECONDS if journeys.failure is None else 0.0)
        if journeys.failure is not None:
            raise journeys.failure
    settings = {
        "rate": rate, "duration_seconds": duration, "warm_up_seconds": warm_up,
        "size_bytes": size, "partitions": place.partitions,
    }  # fmt: skip
    figures = _figures(journeys.arrived, journeys.late) | {"lost": journeys.lost}
    found = results.result("latency", place.topic, settings, figures, histogram=_histogram(journeys.arrived))
    _write(session, found, journeys.arrived, save)
    if journeys.lost:
        terminal.say(f"{format_count(journeys.lost, 'message')} were never received")
        raise typer.Exit(exit_codes.FAILED)


def _check(rate: float, duration: float, size: int) -> None:
    if not _RATE_MIN <= rate <= _RATE_MAX:
        raise UsageInvalid(f"--rate is {rate:g}, and must be {_RATE_MIN} to {_RATE_MAX:,.0f}")
    if duration <= 0:
        raise UsageInvalid("--duration is 0, and must be above 0")
    if size < _SIZE_BYTES_MIN:
        raise UsageInvalid(f"--size is {size}, and {_SIZE_BYTES_MIN} bytes are needed for its timestamp")


def _figures(arrived: Latencies, late: Latencies) -> dict[str, float]:
    figures = {name: round(arrived.percentile(percent) / _MS, 4) for name, percent in _PERCENTILES.items()}
    return figures | {
        "max_ms": round(arrived.most / _MS, 4),
        "mean_ms": round(arrived.mean / _MS, 4),
        "late_p99_ms": round(late.percentile(99) / _MS, 4),
    }


def _histogram(latencies: Latencies) -> list[dict[str, float]]:
    return [
        {"from_ms": bucket.first / _MS, "to_ms": bucket.end / _MS, "messages": bucket.times}
        for bucket in latencies.buckets()
    ]


def _write(session: Session, found: Result, arrived: Latencies, save: Path | None) -> None:
    results.write_result(session, found, save)
    if session.for_people:
        is_unicode = sys.stdout is not None and "utf" in (sys.stdout.encoding or "").lower()
        terminal.write_lines(["", *bars(arrived, terminal.width(), blocks=is_unicode)])
