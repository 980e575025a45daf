"""What a client does with delayed messages until they are delivered: the part of `AsyncClient` that is about them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

from goqueue.client import delays
from goqueue.client.calls import Call
from goqueue.client.due import Delay, DeliverAt
from goqueue.client.times import Moment

T = TypeVar("T")


class AsyncSchedule(ABC):
    """Delayed messages by their place in the delayed log, and many of them by filters.

    Where several are chosen, `filters` are as for a reader, `due_from` and (without it) `due_to` bound when they are
    due, and with `dry_run` nothing happens but counting. The answer says how many `matched`, were `scanned` and have
    `changed`, and whether it is `complete`: one request goes on for some twenty seconds.
    """

    @abstractmethod
    async def call(self, call: Call[T]) -> T:
        """Ask the broker."""

    async def delayed(  # noqa: PLR0913 - wishes, mostly given by name
        self,
        topic: str,
        limit: int = 100,
        skip: int = 0,
        partition: int | None = None,
        state: str | None = None,
        filters: Iterable[str] | str = (),
        *,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
    ) -> dict[str, Any]:
        """Delayed messages of a topic as they become due: `messages`, their `count`, and the `total` of pending ones.

        `state` is "pending" where nothing is said, "delivered", "cancelled" or "expired".
        """
        wishes = {"partition": partition, "state": state, "due_from": due_from, "due_to": due_to}
        return await self.call(delays.listed(topic, limit, skip, wishes, filters))

    async def delayed_message(self, topic: str, partition: int | None, offset: int) -> dict[str, Any]:
        """One of them with its value and headers. Without a partition, the one that has this offset in any of them."""
        return await self.call(delays.message(topic, partition, offset))

    async def cancel_delayed(self, topic: str, partition: int, offset: int) -> dict[str, Any]:
        """Never deliver it. One that is not pending any more is refused."""
        return await self.call(delays.cancel(topic, partition, offset))

    async def reschedule_delayed(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> dict[str, Any]:
        """Deliver it so long from now, or at that time; gives it as it is in the list then."""
        return await self.call(delays.reschedule(topic, partition, offset, delay, deliver_at))

    async def deliver_delayed(self, topic: str, partition: int, offset: int) -> dict[str, Any]:
        """Deliver it now; it is durable in the topic when this returns."""
        return await self.call(delays.deliver(topic, partition, offset))

    async def cancel_delayed_where(
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Never deliver those that fit."""
        wishes = {"partition": partition, "due_from": due_from, "due_to": due_to, "limit": limit, "dry_run": dry_run}
        return await self.call(delays.cancel_where(topic, filters, wishes))

    async def reschedule_delayed_where(  # noqa: PLR0913 - as above
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        shift: Delay | None = None,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Deliver those that fit so long from now, at that time, or by a `shift` later: "1h", or "-5m" for earlier."""
        wishes = {"partition": partition, "due_from": due_from, "due_to": due_to, "limit": limit, "dry_run": dry_run}
        return await self.call(delays.reschedule_where(topic, filters, wishes, delay, deliver_at, shift))

    async def deliver_delayed_where(
        self,
        topic: str,
        filters: Iterable[str] | str = (),
        *,
        partition: int | None = None,
        due_from: Moment | None = None,
        due_to: Moment | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Deliver those that fit now."""
        wishes = {"partition": partition, "due_from": due_from, "due_to": due_to, "limit": limit, "dry_run": dry_run}
        return await self.call(delays.deliver_where(topic, filters, wishes))

    async def delayed_timeline(self, topic: str, buckets: int | None = None) -> dict[str, Any]:
        """How many are due when: `pending`, `overdue`, `next_due`, and `buckets` that grow from seconds to a year."""
        return await self.call(delays.timeline(topic, buckets))

    async def delay_stats(self) -> dict[str, Any]:
        """What is pending, what became of the others since the broker started, and how late they were."""
        return await self.call(delays.stats())
