"""The calls about the state of the broker: what it holds, how fast it goes, what it thinks of itself."""

from typing import Any

import msgspec

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.endpoints import JSON, ask, decoded

_COMPACTION_SECONDS = 3600.0  # a topic of a terabyte takes a while


class TopicDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a row of the list of all.

    Rates are those of the last seconds; None of a topic beyond the thousand that the broker counts by name.
    """

    name: str
    partitions: int
    total_messages: int = 0
    total_size_bytes: int = 0
    created_at: str = ""
    config: dict[str, Any] = {}
    published_per_second: float | None = 0.0
    bytes_per_second: float | None = 0.0
    read_per_second: float | None = 0.0
    faults: int = 0
    """Partitions that take no messages."""
    held_back: int = 0
    """Offsets that readers do not see behind open transactions."""


class GroupDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a row of the list of all; `members` is how many there are."""

    group_id: str
    state: str = ""
    generation: int = 0
    rebalance_state: str = ""
    members: int = 0
    topics: list[str] = []
    total_lag: int = 0
    lag_seconds: float = 0.0
    rate: float = 0.0
    incoming: float = 0.0
    drain_seconds: float | None = None
    """Until nothing is left, if all goes on so; None: never."""
    in_flight: int = 0
    lost: int = 0


class _TopicRows(msgspec.Struct):
    details: list[TopicDetails]


class _GroupRows(msgspec.Struct):
    details: list[GroupDetails]


class _PartitionRows(msgspec.Struct):
    partitions: list[dict[str, Any]]


def topic_details(internal: bool) -> Call[list[TopicDetails]]:
    path = "/topics?details=true&internal=true" if internal else "/topics?details=true"
    return Call("GET", path, lambda answer: decoded(answer, _TopicRows).details, headers=JSON)


def partitions(topic: str) -> Call[list[dict[str, Any]]]:
    path = f"/topics/{quote(topic)}/partitions"
    return Call("GET", path, lambda answer: decoded(answer, _PartitionRows).partitions, headers=JSON)


def compact_topic(name: str) -> Call[dict[str, Any]]:
    """Compacting what is compact already changes nothing, so it may be asked for again."""
    call = ask("POST", f"/admin/topics/{quote(name)}/compact", dict[str, Any])
    return msgspec.structs.replace(call, patience=_COMPACTION_SECONDS)


def group_details(limit: int, after: str | None) -> Call[list[GroupDetails]]:
    behind = "" if after is None else f"&after={quote(after)}"
    path = f"/groups?details=true&limit={limit}{behind}"
    return Call("GET", path, lambda answer: decoded(answer, _GroupRows).details, headers=JSON)


def cooperative_group(name: str) -> Call[dict[str, Any]]:
    return ask("GET", f"/groups/{quote(name)}/cooperative", dict[str, Any])


def rebalance_stats(group: str | None) -> Call[dict[str, Any]]:
    path = "/rebalance/stats" if group is None else f"/groups/{quote(group)}/rebalance/stats"
    return ask("GET", path, dict[str, Any])


def priority_stats(topic: str | None, group: str | None) -> Call[dict[str, Any]]:
    chosen = "&".join(
        f"{name}={quote(text)}" for name, text in (("topic", topic), ("group", group)) if text is not None
    )
    return ask("GET", f"/priority/stats{'?' if chosen else ''}{chosen}", dict[str, Any])


def reliability() -> Call[dict[str, Any]]:
    return ask("GET", "/reliability/stats", dict[str, Any])


def stats() -> Call[dict[str, Any]]:
    return ask("GET", "/stats", dict[str, Any])


def history(seconds: int) -> Call[dict[str, Any]]:
    return ask("GET", f"/stats/history?seconds={seconds}", dict[str, Any])


def doctor() -> Call[dict[str, Any]]:
    return ask("GET", "/doctor", dict[str, Any])


def readiness() -> Call[dict[str, Any]]:
    return Call("GET", "/readyz?verbose=true", _readiness, headers=JSON)


def _readiness(answer: Answer) -> dict[str, Any]:
    """A broker that is not ready answers 503, and that is what was asked."""
    if answer.status == 503:
        try:
            said = msgspec.json.decode(answer.body, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise refusals.of_answer(answer) from None
        if "status" in said:
            return said
    return decoded(answer, dict[str, Any])
