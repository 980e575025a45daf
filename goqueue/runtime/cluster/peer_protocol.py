"""The messages of a connection between nodes, as bytes: length, kind, content and seal.

Small messages are taken from one buffer that is used again; a large one is received into a buffer of its own, which the
receiver may keep: what a leader sends gets into the log of a follower without a copy.
"""

import asyncio
import struct
from collections.abc import Callable

from goqueue.cluster.handshake import SEAL_BYTES, Sealer
from goqueue.limits import CLUSTER_DATA_BYTES_MAX, CLUSTER_READ_BYTES
from goqueue.runtime.cluster.peer_tls import PeerFailure

LENGTH = struct.Struct(">I")

Receiver = Callable[[int, memoryview], None]
"""Called with the kind and the content of a message. What is read-only is gone after the call."""


class WrongSeal(PeerFailure):
    """A message was not sealed with the key of this connection."""


class PeerProtocol(asyncio.BufferedProtocol):
    """Receives sealed messages. `ended` is done when the connection has ended, with its failure if any."""

    def __init__(self, transport: asyncio.WriteTransport, received: Sealer, on_message: Receiver) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport = transport
        self._received = received
        self._on_message = on_message
        self._scratch = bytearray(CLUSTER_READ_BYTES)
        self._view = memoryview(self._scratch)
        self._start = self._end = 0
        self._large: bytearray | None = None
        self._filled = 0
        self._is_over = False

    # --- receive ---

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio gives it
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        try:
            if self._large is not None:
                self._filled += nbytes
                self._take_large()
            else:
                self._end += nbytes
                self._take_small()
        except Exception as failure:
            self._is_over = True
            self._transport.abort()
            if not self.ended.done():
                self.ended.set_exception(failure)

    def feed(self, content: bytes) -> None:
        """Take what was received before this protocol."""
        view = memoryview(content)
        while view and not self._is_over:
            buffer = self.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.buffer_updated(count)

    def _take_small(self) -> None:
        while (available := self._end - self._start) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._scratch, self._start)
            if not 1 <= length <= CLUSTER_DATA_BYTES_MAX:
                raise PeerFailure(f"a message has {length:,} bytes")
            first, total = self._start + LENGTH.size, length + SEAL_BYTES
            if available >= LENGTH.size + total:
                self._start = first + total
                self._deliver(self._view[first : first + total].toreadonly(), length)
            elif total > len(self._scratch) // 4:
                self._large, self._filled = bytearray(total), self._end - first
                self._large[: self._filled] = self._view[first : self._end]
                self._start = self._end = 0
                return
            else:
                break
        if self._start == self._end:
            self._start = self._end = 0
        elif len(self._scratch) - self._start < len(self._scratch) // 2:  # what is incomplete begins too late
            count = self._end - self._start
            self._scratch[:count] = self._scratch[self._start : self._end]
            self._start, self._end = 0, count

    def _take_large(self) -> None:
        large = self._large
        assert large is not None
        if self._filled == len(large):
            self._large = None
            self._deliver(memoryview(large), len(large) - SEAL_BYTES)

    def _deliver(self, message: memoryview, length: int) -> None:
        content = message[:length]
        if not self._received.is_sealed(content, message[length:]):
            raise WrongSeal("a message has a wrong seal: another secret?")
        self._on_message(content[0], content[1:])

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it ended is no matter
        self._is_over = True
        if not self.ended.done():
            self.ended.set_result(None)
