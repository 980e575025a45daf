"""Flags of several benchmarks."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from goqueue.console.groups import UsageInvalid
from goqueue.limits import MIB
from goqueue.quantities import format_duration, format_size, parse_duration, parse_size

_SIZE_BYTES_MAX = MIB
_SECONDS_MAX = 3_600.0


def _size(text: str | int) -> int:
    try:
        size = parse_size(str(text))
    except ValueError as error:
        raise UsageInvalid(f"--size: {error}") from None
    if not 1 <= size <= _SIZE_BYTES_MAX:
        raise UsageInvalid(f"--size is {text}, and must be 1 to {format_size(_SIZE_BYTES_MAX)}")
    return size


def _seconds_of(flag: str) -> Callable[[str | float], float]:
    def seconds(text: str | float) -> float:
        try:
            found = parse_duration(str(text))
        except ValueError as error:
            raise UsageInvalid(f"{flag}: {error}") from None
        if found > _SECONDS_MAX:
            raise UsageInvalid(f"{flag} is {text}, and must be {format_duration(_SECONDS_MAX)} at most")
        return found

    return seconds


TopicName = Annotated[
    str | None, typer.Argument(metavar="[TOPIC]", help="The topic; without one, a new one that is deleted at the end.")
]
MessagesFlag = Annotated[
    int, typer.Option(metavar="N", min=1, max=1_000_000_000, help="How many messages are counted.")
]
SizeFlag = Annotated[int, typer.Option(metavar="SIZE", parser=_size, help="The size of each value, as in 1KiB.")]
PartitionsFlag = Annotated[int, typer.Option(metavar="N", min=1, help="How many a new topic has.")]
DurationFlag = Annotated[
    float,
    typer.Option(
        metavar="DURATION",
        parser=_seconds_of("--duration"),
        show_default="10s",
        help="How long to measure, without the warm-up.",
    ),
]
WarmUpFlag = Annotated[
    float,
    typer.Option(
        "--warm-up",
        metavar="DURATION",
        parser=_seconds_of("--warm-up"),
        show_default="1s",
        help="How long not to count before that.",
    ),
]
SaveFlag = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep the result, for `goqueue-cli bench compare`.")
]
