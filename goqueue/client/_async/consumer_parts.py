"""The parts of a consumer that wait for the broker: one connection polls, one settles."""

import time
from typing import TypeVar

from goqueue.client.api_request import ApiRequest
from goqueue.client.async_connection import AsyncConnection
from goqueue.client.consumer_parts import NEVER, PollerCore, SettlementSenderCore, settlement_timeout
from goqueue.client.member_requests import ReceivedPoll, SettleResults
from goqueue.client.tasks import AsyncLock, sleep
from goqueue.errors import GoQueueError

T = TypeVar("T")


class AsyncPoller(PollerCore[AsyncConnection]):
    """Requests messages ahead, and takes the answer when it is wanted."""

    lock: AsyncLock

    async def ask(self, call: ApiRequest[ReceivedPoll]) -> None:
        """Send the request, unless one is under way."""
        if self._begin(call):
            try:
                await self._connection.send(call, time.monotonic() + self._timeout)
            except GoQueueError as error:
                self._failed = error

    async def take(self) -> tuple[ReceivedPoll, float] | None:
        """Wait for the answer. Return it and the earliest time at which its leases can have begun.

        None when no request is under way. The lock is held.
        """
        call = self._asked
        if call is None:
            return None
        if self._failed is not None:
            self._asked = None
            raise self._failed
        now = time.monotonic()
        has_arrived = self._connection.has_arrived()
        try:
            # The timeout counts from now: an answer that has arrived is not late.
            answer = await self._connection.receive(
                now + self._connection.attempt_seconds(call, call.patience + self._timeout)
            )
        except BaseException:
            self._forget_lost()
            raise
        return self._taken(call, answer, has_arrived)


class AsyncSettlementSender(SettlementSenderCore[AsyncConnection]):
    """Sends the settlements that the application noted, and all other requests but polls."""

    lock: AsyncLock

    # --- the lock is held ---

    async def settle(self, *, patient: bool = True) -> None:
        """Send what was noted, without waiting for the answer; the answer to the request before is taken first.

        Unless `patient`, do nothing while that has not arrived.
        """
        if not patient and self._current is not None and self._current.sent and not self._connection.has_arrived():
            return
        await self._finish()
        await self._send()

    async def _send(self, deadline: float = NEVER) -> None:
        call, current = self._next_call(deadline), self._current
        if call is None or current is None:
            return
        try:
            await self._connection.send(call, self._deadline)
        except GoQueueError as error:
            self._conclude(error)
        except BaseException:
            current.repeated = True
            raise
        else:
            current.sent = True

    async def _finish(self, deadline: float = NEVER) -> None:
        """Take the answer that is due, if one is."""
        current, call = self._current, self._call
        if current is None or call is None or not current.sent:
            return
        try:
            answer = await self._connection.receive(min(self._deadline, deadline))
            outcome: SettleResults | GoQueueError = self._connection.decode(call, answer)
        except GoQueueError as error:
            outcome = error
        except BaseException:
            if not self._connection.can_receive:
                current.sent, current.repeated = False, True
            raise
        self._conclude(outcome)

    # --- the lock is taken here ---

    async def call(self, call: ApiRequest[T], timeout: float | None = None) -> T:
        """Send another request, once."""
        async with self.lock:
            await self._finish()
            left = self._timeout + call.patience if timeout is None else timeout
            return self._connection.decode(call, await self._connection.exchange(call, left))

    async def flush(self, timeout: float) -> None:
        """Send everything that was noted before this call, and wait until it is durable."""
        deadline, gathered = time.monotonic() + timeout, False
        while True:
            async with self.lock:
                await self._finish(deadline)
                if self._current is None:
                    if gathered:
                        return
                    self._current = self._leases.gather(time.monotonic())
                    gathered = not self._leases.has_news
                if self._current is None:
                    return
                current = self._current
                await self._send(deadline)
                delay = current.not_before - time.monotonic() if not current.sent else 0.0
            if time.monotonic() + max(delay, 0.0) >= deadline and self._current is not None:
                raise settlement_timeout(timeout, current.failure)
            if delay > 0:
                await sleep(delay)
