"""`goqueue-cli bench latency`: how long a message takes from one program to another."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from goqueue.console import exits, terminal
from goqueue.console.danger import ConfirmFlag, DryRunFlag
from goqueue.console.groups import UsageInvalid
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_count, format_duration, format_size
from goqueue_cli.bench import results
from goqueue_cli.bench.flags import DurationFlag, PartitionsFlag, SaveFlag, SizeFlag, TopicName, WarmUpFlag
from goqueue_cli.bench.ground import agree_to_load, ground, place_of
from goqueue_cli.bench.latencies import Latencies
from goqueue_cli.bench.results import Result

_PATIENCE_SECONDS = 10.0
"""For what is still under way when everything has been sent."""

_RATE_MIN = 0.01
_RATE_MAX = 50_000.0  # beyond, a single thread that sends one by one measures itself
_PERCENTILES = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p999_ms": 99.9}
_SIZE_BYTES_MIN = 28  # what a message says of itself: whose it is, and when it was to leave
_MS = 1e6

_Rate = Annotated[float, typer.Option(metavar="N", show_default="1000", help="How many messages are sent a second.")]


@session_flags
def latency(  # noqa: PLR0913 - flags, each given by name
    topic: TopicName = None,
    *,
    rate: _Rate = 1_000.0,
    duration: DurationFlag = 10.0,
    warm_up: WarmUpFlag = 1.0,
    size: SizeFlag = 100,
    partitions: PartitionsFlag = 1,
    save: SaveFlag = None,
    confirm: ConfirmFlag = None,
    dry_run: DryRunFlag = False,
    session: Session,
) -> None:
    """Measure how long messages take from being sent to being received.

    \b
      goqueue-cli bench latency
      goqueue-cli bench latency --rate 5000 --duration 30s
      goqueue-cli bench latency --rate 100 --save before.json

    Messages leave at fixed moments, whether or not the ones before are through, and their time counts from those
    moments: what had to wait is charged for it. Each is durable before it is received, by a reader that follows. Sender
    and receiver are threads of this process, whose own delay is part of what is measured: how late messages left is
    told apart. What the warm-up sends is not counted.
    """
    _check(rate, duration, size)
    results.check_place(save)
    plan = f"send {rate:,.10g} messages of {format_size(size)} a second to {place_of(topic, partitions)}"
    if not agree_to_load(session, plan, confirm=confirm, dry_run=dry_run):
        return
    from goqueue_cli.bench.journeys import Journeys  # noqa: PLC0415 - with the SDK
    from goqueue_cli.publishing.stream import Progress  # noqa: PLC0415

    with ground(session, topic, partitions) as place:
        journeys = Journeys(place.topic, size, rate, warm_up=warm_up, duration=duration)
        terminal.say(
            f"sending {rate:,.10g} messages of {format_size(size)} a second to {place.topic} "
            f"for {format_duration(duration)}, after {format_duration(warm_up)} to warm up"
        )
        progress = Progress("sent", lambda sent: sent / journeys.messages)
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
    _tell(session, found, journeys.arrived, save)
    if journeys.lost:
        terminal.say(f"{format_count(journeys.lost, 'message')} never arrived")
        raise typer.Exit(exits.FAILED)


def _check(rate: float, duration: float, size: int) -> None:
    if not _RATE_MIN <= rate <= _RATE_MAX:
        raise UsageInvalid(f"--rate is {rate:g}, and must be {_RATE_MIN} to {_RATE_MAX:,.0f}")
    if duration <= 0:
        raise UsageInvalid("--duration is 0, which leaves no time to measure")
    if size < _SIZE_BYTES_MIN:
        raise UsageInvalid(f"--size is {size}, and {_SIZE_BYTES_MIN} bytes are needed to say when a message was sent")


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


def _tell(session: Session, found: Result, arrived: Latencies, save: Path | None) -> None:
    results.tell(session, found, save)
    if session.for_people:
        from goqueue_cli.bench.picture import bars  # noqa: PLC0415

        is_unicode = sys.stdout is not None and "utf" in (sys.stdout.encoding or "").lower()
        terminal.write_lines(["", *bars(arrived, terminal.width(), block="█" if is_unicode else "#")])
