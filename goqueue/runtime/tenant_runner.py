"""Finishes deletions of tenants that the last stop of the broker interrupted."""

import asyncio
import logging
from contextlib import suppress

from goqueue.errors import GoQueueError
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.tenants")

_RETRY_SECONDS = 10.0  # after the disk has refused a deletion


class TenantRunner:
    """Runs until nothing is left to delete."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        tenants = self._runtime.broker.tenants
        assert tenants is not None, "the broker has tenants"
        while any(one.status == "deleting" for one in tenants.state.tenants.values()):
            try:
                await self._runtime.decide(tenants.resume(self._runtime.metrics.forget_topic))
            except GoQueueError as error:
                _log.warning("the deletion of a tenant is not finished yet: %s", error)
                await self._runtime.pause(_RETRY_SECONDS)

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
