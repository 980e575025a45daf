"""What a client says of the transactions of all producers: the part of `Client` that is for operators."""

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from goqueue.client import transactions
from goqueue.client.calls import Call

T = TypeVar("T")


class Ledger(ABC):
    """Transactions by the transactional ids of their producers."""

    @abstractmethod
    def call(self, call: Call[T]) -> T:
        """Ask the broker."""

    def transactions(
        self, state: str | None = None, transactional_id: str | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Those that are open or being ended, with what each has touched and holds back.

        With a `state` those in it: "empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit",
        "complete_abort", or "all".
        """
        return self.call(transactions.listed(state, transactional_id, limit))

    def transaction(self, transactional_id: str) -> dict[str, Any]:
        """How it stands with one transactional id, and how its `last` transaction came to its end."""
        return self.call(transactions.one(transactional_id))

    def abort_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, reason: str | None = None
    ) -> dict[str, Any]:
        """Abort a transaction that somebody else has begun; whoever uses it is told the reason."""
        whose = transactions.Whose(transactional_id, producer_id, epoch)
        return self.call(transactions.aborted(whose, reason))

    def transaction_stats(self) -> dict[str, Any]:
        """How many are open, how many were committed and aborted, and how long they took."""
        return self.call(transactions.stats())
