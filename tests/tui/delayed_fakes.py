"""A broker with delayed messages and several priorities, whose answers never change."""

from typing import Any

from goqueue.clock import NANOSECONDS
from goqueue.errors import DelayedNotFound
from goqueue.quantities import format_time
from tests.tui.fakes import NOW_NS
from tests.tui.group_fakes import GroupClient

_ENDS = (10, 60, 600, 3_600, 21_600, 86_400, 7 * 86_400, 30 * 86_400, 366 * 86_400)
_COUNTS = {"reminders": (3, 14, 40, 61, 22, 87, 12, 0, 1), "orders": (0, 0, 0, 18, 4, 0, 0, 0, 0)}


def at(seconds: float) -> str:
    return format_time(NOW_NS + round(seconds * NANOSECONDS))


def timeline(topic: str) -> dict[str, Any]:
    counts, overdue = _COUNTS[topic], 2 if topic == "reminders" else 0
    ends = (0, *_ENDS)
    buckets = [
        {"from": at(begin), "to": at(end), "count": count}
        for begin, end, count in zip(ends, ends[1:], counts, strict=False)
    ]
    return {
        "pending": sum(counts) + overdue,
        "overdue": overdue,
        "next_due": at(-3.5) if overdue else at(1_260),
        "buckets": buckets,
    }


STATS: dict[str, Any] = {
    "pending_count": 264,
    "delivered_count": 18_204,
    "cancelled_count": 31,
    "expired_count": 2,
    "rescheduled_count": 7,
    "avg_delay": 5_412.75,
    "late_p50": 0.0042,
    "late_p99": 0.0138,
    "next_due": at(-3.5),
    "wheel": [
        {"level": level, "tick_ms": tick, "slots": 64, "entries": entries}
        for level, (tick, entries) in enumerate(((10.0, 3), (2_560.0, 54), (163_840.0, 194), (10_485_760.0, 12)))
    ],
    "parked": 1,
    "topics": {name: sum(counts) + 2 * (name == "reminders") for name, counts in _COUNTS.items()},
}


def delayed(number: int, state: str = "pending") -> dict[str, Any]:
    """The first two are overdue."""
    return {
        "topic": "reminders",
        "partition": number % 3,
        "offset": 40 + number,
        "deliver_at": at((-3.5, -1.25, 4, 9, 47)[number] if number < 5 else number * number * 13),
        "priority": number % 5,
        "state": state,
        "key": None if number == 3 else f"order-{number:06d}",
        "size": 171 + number * 9,
        "scheduled_at": at(-3_600 - number),
    }


def lanes(topic: str) -> dict[str, Any]:
    """The priorities of a topic: one of payments, three of others."""
    several = topic not in {"payments", "prices"}

    def lane(ready: int, enqueued: int, seconds: float) -> dict[str, Any]:
        return {
            "ready": ready,
            "in_flight": min(ready, 40),
            "waiting": 3 if ready > 1_000 else 0,
            "enqueued": enqueued,
            "dequeued": enqueued - ready,
            "last_served": at(-seconds) if enqueued else None,
            "avg_wait_time": seconds * 1.7 if enqueued else 0.0,
        }

    numbers = {
        "critical": lane(0, 1_204 if several else 0, 0.4),
        "high": lane(0, 0, 0),
        "normal": lane(12_413, 3_291_077, 1.2),
        "low": lane(0, 0, 0),
        "background": lane(871, 90_412, 14.8) if several else lane(0, 0, 0),
    }
    return {
        "messages_by_priority": {},
        "avg_wait_time_by_priority": {},
        "topics": {topic: {"0": numbers, "1": numbers}},
    }


def delayed_messages(_topic: str, limit: int = 100, skip: int = 0, **options: Any) -> dict[str, Any]:
    found = [delayed(number, options.get("state", "pending")) for number in range(60)]
    messages = found[skip : skip + limit]
    return {"messages": messages, "count": len(messages), "total": 60}


def delayed_message(topic: str, _partition: int, offset: int) -> dict[str, Any]:
    if not 0 <= offset - 40 < 60:
        raise DelayedNotFound(f"no message with the offset {offset} is scheduled in topic '{topic}'")
    return {
        **delayed(offset - 40),
        "timestamp": at(-3_600),
        "value": '{"order": "order-000002", "text": "your basket waits"}',
        "headers": {"source": "shop", "version": ["1", "2"]},
    }


class DelayedClient(GroupClient):
    """A client of a broker with delayed messages and several priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {
            "delay_stats": STATS,
            "delayed_timeline": timeline,
            "delayed": delayed_messages,
            "delayed_message": delayed_message,
            "cancel_delayed_where": lambda *_, dry_run, **__: {
                "matched": 61, "scanned": 242, "changed": 0 if dry_run else 61, "complete": True,
            },
            "priority_stats": lambda topic, *_: lanes(topic),
        }  # fmt: skip
