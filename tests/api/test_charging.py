"""The work of a handler that is charged for, and does not begin."""

import asyncio
import inspect

from goqueue.api.charging import _delayed
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.quotas import CONSUME_RATE, Quotas


def test_delayed_work_is_closed_when_its_client_leaves() -> None:
    async def read() -> None: ...

    async def leave() -> str:
        meter = TenantMeter("acme", Quotas({CONSUME_RATE: 1}), lambda: 0)
        meter.count_consumed(100, 100)
        work = read()
        delayed = _delayed(meter, 1, work)
        delayed.send(None)
        delayed.close()
        return inspect.getcoroutinestate(work)

    assert asyncio.run(leave()) == inspect.CORO_CLOSED
