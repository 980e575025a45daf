"""A broker with groups and dead letters whose answers never change."""

from typing import Any

from goqueue.client.admin_requests import GroupDetails, TopicDetails
from tests.tui.fakes import FakeClient, topic_info

GROUPS = [
    GroupDetails(
        group_id="archive", state="empty", generation=3, rebalance_state="complete", topics=["orders"],
        total_lag=1_284_113, lag_seconds=91_234.5, incoming=812.4, condition="unattended",
    ),
    GroupDetails(
        group_id="billing", state="stable", generation=12, rebalance_state="complete", members=2,
        topics=["invoices", "payments"], total_lag=3_412, lag_seconds=83.2, rate=912.5, incoming=833.25,
        drain_seconds=43.1, in_flight=400, condition="behind",
    ),
    GroupDetails(
        group_id="fraud", state="rebalancing", generation=7, rebalance_state="pending_revoke", members=3,
        topics=["payments"], total_lag=214, lag_seconds=4.02, rate=101.0, incoming=102.75, in_flight=64,
        condition="keeping_up",
    ),
    GroupDetails(
        group_id="shipping", state="stable", generation=1, rebalance_state="complete", members=1,
        topics=["orders"], rate=17.4, incoming=17.4, drain_seconds=0.0, condition="keeping_up",
    ),
    GroupDetails(
        group_id="statistics", state="stable", generation=2, rebalance_state="complete", members=1,
        topics=["page-views"], total_lag=88_412, lag_seconds=1_733.0, rate=51.8, incoming=66.4, in_flight=200,
        lost=1_204, condition="falling_behind",
    ),
]  # fmt: skip


def _place(
    member: str | None, end: int, lag: int, seconds: float, *, waiting: int = 0, lost: int = 0
) -> dict[str, Any]:
    return {
        "member_id": member,
        "committed": end - lag,
        "end": end,
        "messages": lag,
        "seconds": seconds,
        "in_flight": min(lag, 80),
        "waiting": waiting,
        "lost": lost,
        "rate": 182.5 + end % 7,
        "incoming": 166.65,
        "drain_seconds": lag / 16 if lag else 0.0,
    }


FIRST, SECOND = "billing-3bc5b46a34cba5bd", "billing-6701ce6c5ea52f30"


def _member(name: str, partitions: list[str], heard: str, in_flight: int) -> dict[str, Any]:
    return {
        "member_id": name,
        "client_id": "till",
        "topics": ["invoices", "payments"],
        "assigned_partitions": partitions,
        "last_heartbeat": heard,
        "joined_at": "2025-12-31T21:14:05.000000000Z",
        "session_timeout": 30.0,
        "max_in_flight": 200,
        "in_flight": in_flight,
    }


def group(name: str) -> dict[str, Any]:
    is_moving = name == "fraud"
    return {
        "group_id": name,
        "state": "rebalancing" if is_moving else "stable",
        "generation": 12,
        "protocol": "cooperative",
        "assignment_strategy": "sticky",
        "order": "key",
        "rebalance_state": "pending_revoke" if is_moving else "complete",
        "members": [
            _member(
                FIRST, ["invoices-0", "payments-0", "payments-1", "payments-2"], "2025-12-31T23:59:58.000000000Z", 40
            ),
            _member(SECOND, ["payments-3"], "2025-12-31T23:59:35.000000000Z", 190),
        ],
        "lag": {
            "invoices": {"0": _place(FIRST, 41_207, 0, 0.0)},
            "payments": {
                "0": _place(FIRST, 3_292_181, 1_204, 41.7),
                "1": _place(FIRST, 3_309_181, 12, 0.4, waiting=12),
                "2": _place(FIRST, 3_326_181, 0, 0.0, lost=311),
                "3": _place(SECOND, 3_343_181, 2_196, 83.2),
            },
        },
        "total_lag": 3_412,
        "lag_seconds": 83.2,
        "drain_seconds": 137.25,
    }


def rebalances(times: int) -> dict[str, Any]:
    return {
        "total_rebalances": times,
        "successful_rebalances": times,
        "failed_rebalances": 0,
        "total_partitions_revoked": times * 2,
        "total_partitions_assigned": times * 3,
        "total_revocation_timeouts": 1 if times > 10 else 0,
        "last_rebalance_duration_ms": 21.4 + times,
        "average_rebalance_duration_ms": 44.25,
        "longest_rebalance_duration_ms": 1_204.5,
        "last_rebalance_at": "2025-12-31T23:41:07.000000000Z" if times else None,
        "rebalances_by_reason": {"join": times, "session_expired": times // 3} if times else {},
    }


ERRORS = {"no rule for the method 'voucher'": 1_204, "cents is null": 311, "": 3}


def letter(number: int) -> dict[str, Any]:
    error = list(ERRORS)[number % 3]
    return {
        "offset": number,
        "timestamp": f"2025-12-31T23:{number % 60:02d}:12.500000000Z",
        "key": f"order-{number:06d}",
        "value": f'{{"order": "order-{number:06d}", "cents": {number * 30}, "method": "voucher"}}',
        "priority": 2,
        "headers": {"source": "app", "dlq.topic": "payments", "dlq.error": error},
        "partition": number % 3,
        "origin_topic": "payments",
        "origin_partition": number % 3,
        "origin_offset": 9_000 + number,
        "group": "billing",
        "error": error,
        "attempts": 4,
        "first_time": "2025-12-31T22:58:01.000000000Z",
        "last_time": "2025-12-31T23:01:12.500000000Z",
    }


def cooperative_group(name: str) -> dict[str, Any]:
    moving = {FIRST: [{"topic": "payments", "partition": number} for number in (1, 2)]}
    return {"id": name, "partitions_to_revoke": moving if name == "fraud" else {}}


def rebalance_stats(name: str | None = None) -> dict[str, Any]:
    return rebalances(31 if name is None else len(name) * 2 if name != "archive" else 0)


def dead_letters(*_: Any, error: str | None = None, **__: Any) -> dict[str, Any]:
    found = [one for one in map(letter, range(60)) if error is None or error in one["error"]]
    return {"messages": found, "next": {"0": 60, "1": 0, "2": 0}, "complete": False}


REDRIVEN = {
    "moved": 0,
    "matched": 20,
    "scanned": 1_518,
    "remaining": 0,
    "complete": True,
    "next": {},
    "results": [
        {"partition": 0, "offset": number, "reason": "cents is null", "target_topic": "payments"}
        for number in range(20)
    ],
}


def reset_offsets(name: str, topic: str, _to: str, *, dry_run: bool) -> dict[str, Any]:
    held = group(name)["lag"][topic]
    moved = [{"partition": int(number), "before": one["committed"], "after": 12} for number, one in held.items()]
    return {"topic": topic, "dry_run": dry_run, "generation": 1, "partitions": moved}


class GroupClient(FakeClient):
    """A client of a broker with groups and dead letters."""

    def __init__(self) -> None:
        super().__init__()
        self.all_topics = [
            *self.all_topics,
            TopicDetails(name="orders.dlq", partitions=3, total_messages=0),
            TopicDetails(name="payments.dlq", partitions=3, total_messages=1_630, total_size_bytes=412_345),
        ]
        self.answers |= {
            "group_details": GROUPS,
            "group": group,
            "groups": [one.group_id for one in GROUPS],
            "cooperative_group": cooperative_group,
            "rebalance_stats": rebalance_stats,
            "topic": lambda name: topic_info(name, 540, total_messages=1_630, total_size_bytes=412_345),
            "dead_letter_errors": lambda topic: {
                "errors": ERRORS if topic == "payments.dlq" else {}, "next": {}, "complete": True,
            },
            "dead_letters": dead_letters,
            "health": {"timestamp": "2026-01-01T00:00:00.000000000Z"},
            "redrive": REDRIVEN,
            "reset_offsets": reset_offsets,
        }  # fmt: skip
