"""The bridge of a broker with tenants: large requests and answers of calls are counted, and connections with calls.

gRPC tells nothing of connections: one counts for its tenant while it has calls under way.
"""

from collections import Counter
from typing import Any

from goqueue.api.http.error_responses import error_response
from goqueue.api.http.message import HttpResponse
from goqueue.broker.tenants.memory import TenantMemory
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.errors import BrokerOverloaded
from goqueue.limits import TENANT_BODY_BYTES
from goqueue.rpc.bridge import Exchange, LoopBridge


class TenantExchange(Exchange):
    """One request on its way, with the room that it and its answer have in the memory of a tenant."""

    __slots__ = ("memory", "request_bytes")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.memory: TenantMemory | None = None
        self.request_bytes = 0


class TenantLoopBridge(LoopBridge):
    """Asks the pipeline, within the memory of the tenant of each call."""

    exchange_type = TenantExchange

    def __init__(self, *given: Any, meters: TenantMeters, has_certificates: bool) -> None:
        super().__init__(*given, has_certificates=has_certificates)
        self._meters = meters
        self._calls: Counter[str] = Counter()
        """Calls under way by address of the client. Only the thread of the listener uses it."""

    # --- on the listener's loop ---

    def begin_call(self, peer: str) -> None:
        self._calls[peer] += 1
        if self._calls[peer] == 1:
            self._to_broker.add(self._meters.open_connection, peer)

    def end_call(self, peer: str) -> None:
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer]
            self._to_broker.add(self._meters.close_connection, peer)

    # --- on the broker's loop ---

    def _begin(self, exchange: Exchange) -> None:
        assert isinstance(exchange, TenantExchange), "the bridge has made it"
        request = exchange.request
        size = request.weight or len(request.body)
        if size > TENANT_BODY_BYTES and (share := self.state.share_of(request)) is not None:
            try:
                share.memory.check(size)
            except BrokerOverloaded as error:
                self._to_listener.add(self._deliver, exchange, error_response(error.without_tracebacks()))
                return
            share.memory.hold(size)
            exchange.memory, exchange.request_bytes = share.memory, size
        super()._begin(exchange)

    def _finish(self, exchange: Exchange, response: HttpResponse) -> None:
        self._release_request(exchange)
        super()._finish(exchange, response)

    def _hold_answer(self, exchange: Exchange, response: HttpResponse, size: int) -> None:
        share = None if response.is_essential else self.state.share_of(exchange.request)
        if share is not None:
            share.memory.check(size)
        super()._hold_answer(exchange, response, size)
        if share is not None:
            assert isinstance(exchange, TenantExchange), "the bridge has made it"
            share.memory.hold(size)
            exchange.memory = share.memory

    def _released(self, exchange: Exchange) -> None:
        if isinstance(exchange, TenantExchange) and exchange.memory is not None:
            exchange.memory.release(exchange.held_bytes)
            exchange.memory = None
        super()._released(exchange)

    def _count_abandoned(self, exchange: Exchange) -> None:
        super()._count_abandoned(exchange)
        self._release_request(exchange)

    @staticmethod
    def _release_request(exchange: Exchange) -> None:
        assert isinstance(exchange, TenantExchange), "the bridge has made it"
        if exchange.memory is not None:
            exchange.memory.release(exchange.request_bytes)
            exchange.memory, exchange.request_bytes = None, 0
