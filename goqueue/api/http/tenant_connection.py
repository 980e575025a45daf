"""Connections of a broker with tenants: what a tenant sends and is sent has its share of the memory and of the loop.

The tenant of a large body is looked up when its head is complete, before anything of the body is kept. Room for all of
it is taken then, or the request is refused. Each part of such a body is charged to its tenant, and the next part is
read when it is the tenant's turn. Small bodies, which mostly come with their heads, pass without all this.
"""

import asyncio
from dataclasses import dataclass
from itertools import count
from typing import Final

from goqueue.api.http.connection import HttpConnection
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.request_reader import ReadPhase, RequestReader
from goqueue.api.http.server_state import ServerState
from goqueue.api.http.sockets import narrow, peer_of
from goqueue.broker.tenants.memory import TenantMemory
from goqueue.errors import BrokerOverloaded
from goqueue.limits import TENANT_BODY_BYTES, TENANT_PIPELINED, TENANT_SLICE_BYTES, TENANT_WINDOW_BYTES
from goqueue.runtime.fair_turn import TenantTurn

_UNIX_PEERS = count(1)
PART_NS: Final = 10_000
"""Charged for each part of a body besides the time of its parsing: the system gives it to the loop before that."""


@dataclass(frozen=True, slots=True)
class TenantShare:
    """The part of one tenant in the memory and in the turns of the loop."""

    memory: TenantMemory
    turn: TenantTurn


class TenantRequestReader(RequestReader):
    """Takes room for large bodies from the memory of their tenant."""

    __slots__ = ("_due_bytes", "_held_bytes", "_shares", "share")

    def __init__(self, server: ServerState, peer: str) -> None:
        self.share: TenantShare | None = None
        """The share of the tenant that sends the large body that is being read."""
        self._held_bytes = 0
        self._due_bytes = 0
        """The size at which chunks have grown enough, so that their time begins again."""
        self._shares: dict[int, tuple[TenantShare, int]] = {}
        """Room of complete requests, by their identity."""
        super().__init__(server, peer)
        self._slice_bytes = TENANT_SLICE_BYTES

    def release(self, request: HttpRequest) -> None:
        """Give back the room of a request that is answered, or whose client has left."""
        if (found := self._shares.pop(id(request), None)) is not None:
            found[0].memory.release(found[1])

    def abandon(self) -> None:
        for request in self.requests:
            self.release(request)
        super().abandon()

    def charge(self, share: TenantShare) -> None:
        """Charge a tenant for what was read since the last bytes came."""
        share.turn.queue.charge(PART_NS + self._server.monotonic_ns() - self._now_ns)

    def _expect_large_body(self) -> None:
        self._take_room(self._length)

    def _extend_body(self) -> None:
        size = len(self._body)
        if self._length or not size or size >= self._due_bytes:
            super()._extend_body()
            self._due_bytes = self._step_bytes
        if not self._length:  # chunks, whose size is not known before
            self._step_bytes = 0 if size > TENANT_BODY_BYTES else TENANT_BODY_BYTES + 1
            if size > TENANT_BODY_BYTES:
                self._take_room(size - self._held_bytes)

    def _complete_large_body(self, request: HttpRequest) -> None:
        share = self.share
        if share is not None:
            self.charge(share)
            self._shares[id(request)] = share, self._held_bytes
            self.share, self._held_bytes = None, 0

    def _take_room(self, size: int) -> None:
        assert self._request is not None, "the head is complete"
        share = self.share or self._server.share_of(self._request)
        if share is None:
            return
        try:
            if share.memory.held_bytes > self._held_bytes:  # others of the tenant hold something as well
                share.memory.check(size)
        except BrokerOverloaded as error:
            raise self._refuse(error) from None
        share.memory.hold(size)
        self.share = share
        self._held_bytes += size

    def _release_body(self) -> None:
        super()._release_body()
        if self.share is not None:
            self.share.memory.release(self._held_bytes)
            self.share, self._held_bytes = None, 0


class TenantConnection(HttpConnection):
    """The connection of one client of a broker with tenants. It waits for turns itself while it reads a large body."""

    __slots__ = ("_answer_share", "_is_narrow", "_waits")

    _reader: TenantRequestReader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._answer_share: TenantShare | None = None
        """The share of the tenant that has not taken its large answer yet."""
        self._waits = self._is_narrow = False
        self._pipelined = min(self._pipelined, TENANT_PIPELINED)
        super().connection_made(transport)

    def _new_reader(self, transport: asyncio.BaseTransport) -> RequestReader:
        # Clients of a Unix socket have no address: a number tells their connections apart.
        return TenantRequestReader(self._server, peer_of(transport) or f"unix:{next(_UNIX_PEERS)}")

    # --- reading in turns ---

    def _wait_for_turn(self) -> None:
        share = self._reader.share
        if share is None or self._reader.phase is not ReadPhase.BODY:
            return
        self._reader.charge(share)
        if not self._waits and not share.turn.is_alone():
            self._waits = True
            if not self._paused:
                self._paused = True
                self._transport.pause_reading()
            share.turn.add(self)

    def advance(self) -> None:
        """Read on: it is the turn of the tenant."""
        self._waits = False
        if self._paused and not self._transport.is_closing():
            self._advance()

    def _apply_backpressure(self, is_full: bool) -> None:
        super()._apply_backpressure(is_full)
        if is_full and self._writable and not self._is_narrow:  # its requests wait, and not only their answers
            self._is_narrow = True
            narrow(self._transport, TENANT_WINDOW_BYTES)

    # --- answers ---

    def _share_answer(self, request: HttpRequest) -> None:
        share = self._server.share_of(request)
        if share is not None:
            share.memory.hold(self._answer_bytes)
            self._answer_share = share

    def _check_answer(self, request: HttpRequest, response: HttpResponse, size: int) -> None:
        super()._check_answer(request, response, size)
        if not response.is_essential and (share := self._server.share_of(request)) is not None:
            share.memory.check(size)

    def _release_answer(self) -> None:
        if self._answer_share is not None:
            self._answer_share.memory.release(self._answer_bytes)
            self._answer_share = None
        super()._release_answer()

    def _discard_answer(self, request: HttpRequest) -> None:
        super()._discard_answer(request)
        self._reader.release(request)
