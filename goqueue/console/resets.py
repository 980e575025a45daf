"""What moving a group to other offsets means, and what is kept to undo it: for every program that does it."""

from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.quantities import format_count

KIND = "group-reset"

Row = dict[str, Any]


def row_of(group: str, topic: str, found: Mapping[str, Any], lag: Mapping[str, Mapping[str, Any]]) -> Row:
    """One partition of a dry run's answer; `lag` is that of the group as it is now."""
    partition = found["partition"]
    again, skipped = _cost(found["before"], found["after"], lag.get(topic, {}).get(str(partition)))
    return {
        "name": f"{group}/{topic}/{partition}",
        "group_id": group,
        "topic": topic,
        "partition": partition,
        "before": found["before"],
        "after": found["after"],
        "again": again,
        "skipped": skipped,
    }


def _cost(before: int | None, after: int, lag: Mapping[str, Any] | None) -> tuple[int, int]:
    """How many messages are read again and how many never, at most.

    A reset forgets what was done above the offset as well, so that even one forward has some read again.
    """
    if before is None or lag is None:
        return 0, 0
    ahead = max(lag["end"] - after, 0)
    done_above = max(lag["end"] - before - lag["messages"], 0)
    if after > before:
        return min(done_above, ahead), min(after - before, lag["messages"])
    return max(ahead - lag["messages"], 0), 0


def summary(rows: Sequence[Row]) -> str:
    """What a reset costs, in a sentence."""
    again, skipped = (sum(row[field] for row in rows) for field in ("again", "skipped"))
    if not again and not skipped:
        return "no message read again or skipped"
    words = {"read again": again, "skipped": skipped}
    told = [f"{format_count(count, 'message')} {word}" for word, count in words.items() if count]
    return f"at most {' and '.join(told)}"


def document(server: str, rows: Sequence[Row]) -> dict[str, Any]:
    """What `write_undo` is given, before the reset is asked for: where the group was, and where it is about to go."""
    return {"server": server, "offsets": _offsets(rows, "before"), "after": _offsets(rows, "after")}


def _offsets(rows: Sequence[Row], field: str) -> dict[str, dict[str, int | None]]:
    offsets: dict[str, dict[str, int | None]] = {}
    for row in rows:
        offsets.setdefault(row["topic"], {})[str(row["partition"])] = row[field]
    return offsets
