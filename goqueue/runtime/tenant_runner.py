"""Finishes deletions of tenants that a stop of the broker or a failure has interrupted."""

import asyncio
import logging
from contextlib import suppress

from goqueue.errors import GoQueueError
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.tenants")

_RETRY_SECONDS = 10.0  # after the disk has refused a deletion


class TenantRunner:
    """Runs at the start and after a failure, until nothing is left to delete."""

    def __init__(self, runtime: Runtime) -> None:
        assert runtime.broker.tenants is not None, "the broker has tenants"
        self._runtime, self._tenants = runtime, runtime.broker.tenants
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())
        self._tenants.on_interrupted.subscribe(self._resume)

    def _resume(self) -> None:
        if self._task.done():
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        runtime, tenants = self._runtime, self._tenants
        while not runtime.is_stopping and any(one.status == "deleting" for one in tenants.state.tenants.values()):
            if not tenants.journal.is_led:  # the node that makes changes goes on
                return
            try:
                await runtime.decide(tenants.resume(runtime.metrics.forget_topic))
            except GoQueueError as error:
                _log.warning("the deletion of a tenant is not finished yet: %s", error)
                await runtime.pause(_RETRY_SECONDS)

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
