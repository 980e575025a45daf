"""The timer of access control, and the first API key."""

import asyncio
from collections.abc import Callable

from goqueue.broker.security.audit import AuditEntry
from goqueue.runtime.runtime import Runtime
from goqueue.security.roles import ADMIN

_BOOTSTRAP = "bootstrap"


class AccessRunner:
    """Calls `tick` at intervals until it is stopped."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick = tick
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._run)

    def _run(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._run)
        self._tick()

    def stop(self) -> None:
        self._timer.cancel()


async def create_bootstrap_key(runtime: Runtime) -> str:
    """Create the key with which the first administrator makes others; the name of a former one may be taken."""
    security = runtime.broker.security
    names = (
        _BOOTSTRAP if number == 1 else f"{_BOOTSTRAP}-{number}" for number in range(1, len(security.state.keys) + 2)
    )
    name = next(one for one in names if security.state.key_named(one) is None)
    _, text = await runtime.decide(security.create_key(name, [ADMIN], None, ""))
    assert text is not None, "it belongs to no certificate"
    runtime.broker.audit.record(AuditEntry("", "create the first key", name, "done"), lambda _: None)
    return text
