"""Looks for findings at intervals, and sends the alerts that they become.

Without a webhook it does nothing. A delivery that fails is tried again, from one second to a minute later, until it
succeeds or nothing is left to say; examinations go on meanwhile. What was sent and the silences are in the file
`alerts` of the data directory: after a restart, nothing is sent twice, and what is over is resolved.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import AlertsOff, GoQueueError, RequestInvalid, SilenceNotFound
from goqueue.limits import ALERT_RETRY_SECONDS_MAX, ALERT_SILENCES_MAX
from goqueue.observe.alert_messages import test_notification, webhook_bodies
from goqueue.observe.alerts import AlertBook, AlertSettings, AlertState, Notification, Silence, firing_counts
from goqueue.observe.doctor import examine
from goqueue.runtime.doctor_facts import DoctorFactsCollector
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.webhook import Webhook, WebhookError
from goqueue.storage.disk import read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint

_log = logging.getLogger("goqueue.alerts")

_FIRST_RETRY_SECONDS = 1.0


class DeliveryStatus(NamedTuple):
    """Deliveries to the webhook."""

    delivered_ns: int | None = None
    """When the last one was accepted."""
    failures: int = 0
    """Failed attempts since then."""
    problem: str | None = None
    """Why the last attempt failed."""


class AlertRunner:
    """Owns the alerts and silences of a broker."""

    def __init__(
        self,
        runtime: Runtime,
        collector: DoctorFactsCollector,
        settings: AlertSettings,
        webhook: Webhook | None,
        interval: float,
    ) -> None:
        self.webhook = webhook
        self.delivery = DeliveryStatus()
        self.book = AlertBook(settings)
        self._settings = settings
        self._runtime = runtime
        self._collector = collector
        self._interval = interval
        self._source = ""
        self._stored = b""
        self._logged_problem = ""
        self._path: str
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._sending: asyncio.Lock
        self._storing: asyncio.Lock

    def start(self, source: str) -> None:
        """Start when the data directory is open. `source` names this broker in messages."""
        self._source = source
        self._sending, self._storing = asyncio.Lock(), asyncio.Lock()
        self._path = f"{self._runtime.store.path}/alerts"
        self.book = AlertBook(self._settings, self._load())
        if self.webhook is not None:
            self._task = asyncio.get_running_loop().create_task(self._keep_looking(self.webhook))

    async def stop(self) -> None:
        """Stop at once. A request that waits for the webhook is left behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if self._writing is not None:
                await asyncio.wait([self._writing])
            with suppress(GoQueueError):
                await self._store()

    # --- looking and sending ---

    async def _keep_looking(self, webhook: Webhook) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._interval
        while True:
            pause = next_look - loop.time()
            if self.delivery.failures:
                pause = min(pause, _retry_seconds(self.delivery.failures))
            await asyncio.sleep(max(0.0, pause))
            try:
                if loop.time() >= next_look:
                    next_look = loop.time() + self._interval
                    await self._look()
                await self._send_due(webhook)
            except Exception:
                _log.exception("alerts could not be looked for")

    async def _look(self) -> None:
        diagnosis = examine(await self._collector.facts())
        self.book.update(diagnosis.findings, self._runtime.clock.now_ns())
        self._runtime.metrics.alerts_firing = {str(one): count for one, count in firing_counts(self.book).items()}
        with suppress(GoQueueError):  # a full disk is no reason to send nothing; it is stored with the next change
            await self._store()

    async def _send_due(self, webhook: Webhook) -> None:
        due = self.book.due(self._runtime.clock.now_ns())
        if not due:
            if self.delivery.failures:
                self.delivery = DeliveryStatus(self.delivery.delivered_ns)
                self._logged_problem = ""
            return
        try:
            await self._deliver(webhook, due)
        except WebhookError:
            return
        self.book.delivered(due, self._runtime.clock.now_ns())
        with suppress(GoQueueError):
            await self._store()

    async def _deliver(self, webhook: Webhook, notifications: Sequence[Notification], *, is_test: bool = False) -> None:
        counts = self._runtime.metrics.alert_deliveries
        async with self._sending:
            try:
                await webhook.deliver(partial(webhook_bodies, webhook.kind, tuple(notifications), self._source))
            except WebhookError as error:
                counts["failed"] += 1
                if is_test:
                    _log.warning("the test alert could not be sent: %s", error)
                elif str(error) != self._logged_problem:
                    _log.warning("alerts could not be sent and are tried again: %s", error)
                    self._logged_problem = str(error)
                self.delivery = self.delivery._replace(failures=self.delivery.failures + 1, problem=str(error))
                raise
            counts["delivered"] += 1
            self._logged_problem = ""
            self.delivery = DeliveryStatus(self._runtime.clock.now_ns())

    async def test(self, sent_by: str) -> str | None:
        """Send a test message; return why it failed."""
        if self.webhook is None:
            raise AlertsOff(
                "the broker has no webhook, so it sends no alerts",
                hint="set alerts.webhook_file to a file with the webhook's address, and restart the broker",
            )
        try:
            notification = test_notification(self._runtime.clock.now_ns(), sent_by)
            await self._deliver(self.webhook, [notification], is_test=True)
        except WebhookError as error:
            return str(error)
        return None

    # --- silences ---

    async def silence(self, code: str, subject: str, seconds: float, created_by: str, reason: str) -> Silence:
        """Silence alerts, durably."""
        self._runtime.refuse_while_stopping()
        if not self.book.has_room:
            raise RequestInvalid(
                f"there are {ALERT_SILENCES_MAX} silences, which is the limit", hint="end one first", problems=()
            )
        now_ns = self._runtime.clock.now_ns()
        until_ns = now_ns + round(seconds * NANOSECONDS)
        made = self.book.add_silence(
            code, subject, until_ns=until_ns, now_ns=now_ns, created_by=created_by, reason=reason
        )
        try:
            await self._store()
        except GoQueueError:
            self.book.remove_silence(made.id)
            raise
        return made

    async def end_silence(self, number: int) -> Silence:
        """End a silence, durably."""
        self._runtime.refuse_while_stopping()
        gone = self.book.remove_silence(number)
        if gone is None:
            raise SilenceNotFound(
                f"there is no silence {number}", hint="`goqueue-admin alert list --silences` lists them"
            )
        try:
            await self._store()
        except GoQueueError:
            self.book.restore_silence(gone)
            raise
        return gone

    # --- the file ---

    def _load(self) -> AlertState:
        """Read what was stored; begin anew if that is damaged."""
        disk = self._runtime.disk
        try:
            if disk.kind(self._path) == "absent":
                return AlertState()
            facts = decode_checkpoint(read_all(disk, self._path))
            if facts is None:
                raise ValueError("its checksum does not match")
            return msgspec.convert(facts, AlertState)
        except (GoQueueError, ValueError) as error:
            _log.warning("the silences and sent alerts in %s cannot be read and are forgotten: %s", self._path, error)
            return AlertState()

    async def _store(self) -> None:
        """Write the state if it has changed."""
        async with self._storing:
            facts: dict[str, Any] = msgspec.to_builtins(self.book.state)
            encoded = msgspec.json.encode(facts)
            if encoded == self._stored:
                return
            self._writing = asyncio.get_running_loop().create_task(self._runtime.perform(self._write(facts)))
            await asyncio.shield(self._writing)  # a cancelled caller leaves no half of it behind
            self._stored = encoded

    def _write(self, facts: dict[str, Any]) -> Work[None]:
        yield partial(write_checkpoint, self._runtime.disk, self._path, **facts)


def _retry_seconds(failures: int) -> float:
    doublings: int = min(failures, 10) - 1
    return min(_FIRST_RETRY_SECONDS * (1 << doublings), ALERT_RETRY_SECONDS_MAX)
