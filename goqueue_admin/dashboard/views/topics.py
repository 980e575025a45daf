"""Topics and their partitions, as the columns of their tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.table import Column

if TYPE_CHECKING:
    from goqueue.client.insight import TopicDetails


def topic_columns() -> tuple["Column[TopicDetails]", ...]:
    return (
        Column("NAME", lambda one: one.name, width=16, grows=True, tone=_topic_tone),
        Column("PARTS", lambda one: one.partitions, numbers.count, 5, right=True, rank=4),
        Column("MESSAGES", lambda one: one.total_messages, numbers.count, 13, right=True, moves=True, rank=1),
        Column("SIZE", lambda one: one.total_size_bytes, numbers.size, 8, right=True, rank=3),
        Column("IN", lambda one: one.published_per_second, numbers.rate, 7, right=True, moves=True),
        Column("OUT", lambda one: one.read_per_second, numbers.rate, 7, right=True, moves=True, rank=2),
        Column("WRITTEN", lambda one: one.bytes_per_second, numbers.size_rate, 10, right=True, rank=6),
        Column("FAULTS", lambda one: one.faults or None, numbers.count, 6, right=True, rank=5, tone=lambda _: "bad"),
        Column("CLEANUP", lambda one: _setting(one, "cleanup"), width=8, rank=7),
        Column("KEPT", lambda one: _setting(one, "retention_hours"), "{:g}h".format, 7, rank=8, right=True),
        Column("CREATED", lambda one: one.created_at[:10] or None, width=10, rank=9),
    )


def _topic_tone(topic: "TopicDetails") -> str:
    return "bad" if topic.faults else ""


def _setting(topic: "TopicDetails", name: str) -> Any:
    return topic.config.get(name)


Partition = Mapping[str, Any]


def partition_key(one: Partition) -> str:
    return str(one["partition"])


def partition_columns() -> tuple[Column[Partition], ...]:
    return (
        Column("PARTITION", lambda one: one["partition"], width=9, right=True),
        Column("EARLIEST", lambda one: one.get("earliest"), numbers.count, 13, right=True, rank=2),
        Column("LATEST", lambda one: one.get("latest"), numbers.count, 13, right=True, moves=True),
        Column("SIZE", lambda one: one.get("size_bytes"), numbers.size, 8, right=True, rank=3),
        Column("SEGMENTS", lambda one: one.get("segments"), numbers.count, 8, right=True, rank=6),
        Column("UNSYNCED", _unsynced, numbers.count, 8, right=True, rank=5, tone=lambda _: "muted"),
        Column("LEADER", lambda one: one.get("leader"), width=6, right=True, rank=7),
        Column("STATE", _state, width=6, rank=4, grows=True, tone=_state_tone),
    )


def _unsynced(one: Partition) -> int | None:
    """What was written, and is not yet on the disk for certain."""
    end, durable = one.get("log_end"), one.get("durable_end")
    return end - durable if isinstance(end, int) and isinstance(durable, int) else None


def _state(one: Partition) -> str:
    if one.get("fault"):
        return f"◆ {one['fault']}"
    held = held_back(one)
    return f"◐ {numbers.count(held)} held back" if held else "● ok"


def _state_tone(one: Partition) -> str:
    return "bad" if one.get("fault") else "accent" if held_back(one) else "good"


def held_back(one: Partition) -> int:
    """Messages that nobody sees before a transaction ends."""
    end, stable = one.get("high_watermark"), one.get("last_stable")
    return max(0, end - stable) if isinstance(end, int) and isinstance(stable, int) else 0
