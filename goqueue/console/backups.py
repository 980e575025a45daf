"""Backups as commands and the dashboard show them, and what people write about them."""

from collections.abc import Mapping
from typing import Any

from goqueue.console.formatting import format_size_rate
from goqueue.quantities import format_count, format_duration, format_size, quoted

ACTIVITIES = {"backup": "backing up", "restore": "restoring", "verification": "verifying"}
DAMAGED_HINT = (
    "make another backup with `goqueue-admin backup create`: it writes again what it needs of the damaged objects; "
    "then verify this one again"
)
INCOMPLETE = "incomplete backups lack logs that the broker could not open: `describe` names them"
NO_TARGET = "the broker has no target for backups: set `backup.target`, and restart it"
NO_SCHEDULE = "there is no schedule: set `backup.interval`, and restart the broker"


def progress_text(found: Mapping[str, Any]) -> str:
    """Return the share, the rate and the time left of what is running; what cannot be told yet is unknown."""
    done, total, rate, left = (
        found[name] for name in ("bytes_done", "bytes_total", "bytes_per_second", "seconds_left")
    )
    share = f"{100 * done // total} % of {format_size(total)}" if total else "size unknown"
    told_rate = format_size_rate(rate) if rate else "rate unknown"
    told_left = "time left unknown" if left is None else f"{format_duration(round(left))} left"
    return f"{share}, {told_rate}, {told_left}"


def size_text(size: int | None) -> str:
    return "-" if size is None else format_size(size)


def count_text(count: int | None) -> str:
    return "-" if count is None else format_count(count)


def parse_end_offset(text: str) -> tuple[int, int]:
    """Parse `0=1200`: a partition, and the offset before which it ends."""
    number, sign, offset = text.partition("=")
    if not (sign and all(one.isascii() and one.isdecimal() and len(one) < 19 for one in (number, offset))):
        raise ValueError(f"{quoted(text)} is not a partition and an offset")
    return int(number), int(offset)
