"""A broker with transactions in every state, whose answers never change."""

from typing import Any

from goqueue.errors import ProducerNotFound
from tests.tui.delayed_fakes import at
from tests.tui.group_fakes import GroupClient


def place(topic: str, partition: int, messages: int, held_back: int, delayed: bool = False) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "delayed": delayed,
        "first_offset": 3_292_000 + partition,
        "messages": messages,
        "held_back": held_back,
    }


def ended(transaction: str, reason: str = "", note: str = "") -> dict[str, Any]:
    return {
        "transaction_id": transaction,
        "state": "complete_abort" if reason else "complete_commit",
        "began_at": at(-95.5),
        "ended_at": at(-83),
        "reason": reason,
        "note": note,
    }


def transaction(name: str, number: int, state: str = "ongoing", age: float = 4.0, **told: Any) -> dict[str, Any]:
    """One that is well, but for what is said otherwise."""
    is_open = not state.startswith(("complete", "empty"))
    found: dict[str, Any] = {
        "transaction_id": f"{number}-3",
        "transactional_id": name,
        "producer_id": number,
        "epoch": 3,
        "state": state,
        "started_at": at(-age) if is_open else None,
        "partitions": [place("orders", 0, 2, 2)] if is_open else [],
        "groups": [],
        "members": [],
        "age_seconds": age if is_open else 0.0,
        "idle_seconds": 0.25,
        "timeout_seconds": 60.0,
        "expires_in_seconds": 59.75 if state == "ongoing" else None,
        "pledged": None,
        "reason": "",
        "obstacle": None,
        "last": None,
    } | told
    return found | {count: sum(one[count] for one in found["partitions"]) for count in ("messages", "held_back")}


OPEN = [
    transaction(
        "checkout-eu-7",
        7,
        age=96.4,
        idle_seconds=48.2,
        expires_in_seconds=11.8,
        partitions=[place("orders", 0, 2, 2), place("orders", 1, 12, 1_431), place("reminders", 2, 1, 1, delayed=True)],
        groups=["billing"],
        pledged={"billing": 14},
        last=ended("7-2", reason="till 4 hangs"),
    ),
    transaction("spark-nightly", 11, age=64.0, timeout_seconds=900.0, expires_in_seconds=836.0, members=[12, 13]),
    transaction("invoices-1", 21, "prepare_commit", 12.3, obstacle="a write failed: no space left on device"),
    transaction("prices", 22, "prepare_abort", 5.0, reason="nothing was heard of it for too long"),
    transaction("returns-2", 31, age=0.6, last=ended("31-2", note="batch 17")),
]
CLOSED = [
    transaction("audit", 41, "complete_abort", last=ended("41-2", reason="the broker was restarted")),
    transaction("idle-1", 42, "empty"),
]
STATS: dict[str, Any] = {
    "active_transactions": len(OPEN),
    "committed_total": 18_204,
    "aborted_total": 31,
    "avg_duration": 0.2144,
    "aborted_by_reason": {"asked": 20, "timeout": 9, "fenced": 2},
    "prepared": 2,
    "transactional_ids": len(OPEN) + len(CLOSED),
    "oldest_age_seconds": 96.4,
    "held_back": 1_442,
}


class TransactionClient(GroupClient):
    """A client of a broker with transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.open = OPEN
        self.total = len(OPEN)
        self.answers |= {
            "transactions": self._transactions,
            "transaction": self._transaction,
            "transaction_stats": lambda: {
                **STATS, "active_transactions": self.total, "prepared": STATS["prepared"] if self.total else 0,
            },
        }  # fmt: skip

    def _transactions(self, state: str, _: None, limit: int) -> list[dict[str, Any]]:
        return [*self.open, *(CLOSED if state == "all" else [])][:limit]

    def _transaction(self, transactional_id: str) -> dict[str, Any]:
        for one in (*self.open, *CLOSED):
            if one["transactional_id"] == transactional_id:
                return one
        raise ProducerNotFound(f"there is no transactional id '{transactional_id}'")
