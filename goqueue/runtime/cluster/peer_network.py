"""The connections of a node with all others: one for each pair, made by the node whose id comes first in the alphabet.

A node that is not in `cluster.peers` dials all that are, and by their registrations those of the others that come later
in the alphabet.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from goqueue.clock import NANOSECONDS
from goqueue.cluster.peer_messages import AnyMessage, Hello, PeerMessage
from goqueue.cluster.peer_problems import PeerProblems
from goqueue.cluster.replication_messages import ReplicationMessage
from goqueue.config.value_types import split_address
from goqueue.errors import AddressUnavailable
from goqueue.limits import (
    CLUSTER_CONNECTIONS_MAX,
    CLUSTER_DIAL_SECONDS,
    CLUSTER_DIAL_SECONDS_MAX,
    CLUSTER_HANDSHAKE_BYTES_MAX,
    CLUSTER_HANDSHAKE_SECONDS,
    CLUSTER_REDIAL_SECONDS,
)
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MESSAGE, PeerLink, SecretDiffers, accept, dial
from goqueue.runtime.cluster.peer_tls import (
    PeerContexts,
    PeerFailure,
    PeerTls,
    Streams,
    TlsDiffers,
    accept_tls,
    listen,
)

_log = logging.getLogger("goqueue.cluster")

_ANY = ("0.0.0.0", "::", "[::]")  # noqa: S104 - a node that listens on all its addresses tells none of them
_PROBE_SECONDS = 0.003, 0.01, 0.02, 0.05, 0.1
"""Between attempts to see whether a process is gone: its connections may end before its address refuses."""


@dataclass(frozen=True, slots=True)
class PeerHandlers:
    """Functions of the network's owner. All are called on the loop."""

    hello: Callable[[], Hello]
    """Returns the first message of this node."""
    refusal: Callable[[Hello], str | None]
    """Returns why a node cannot be talked to."""
    connected: Callable[[PeerLink], None]
    received: Callable[[PeerLink, PeerMessage], None]
    ended: Callable[[PeerLink], None]
    refused: Callable[[str], None]
    """Nothing listens at the address of this node any more."""
    replication: Callable[[PeerLink, ReplicationMessage], None] = lambda _, __: None
    data: Callable[[PeerLink, int, memoryview], None] = lambda _, __, ___: None
    """Takes a message of another kind. Raises PeerFailure."""
    failed: Callable[[], None] = lambda: None
    """A task of the network has failed by a defect: the node must not go on with the rest."""


class PeerNetwork:
    """Listens, dials, and keeps the links."""

    def __init__(
        self,
        node: str,
        addresses: dict[str, tuple[str, int]],
        secret: bytes,
        handlers: PeerHandlers,
        tls: PeerTls | None = None,
    ) -> None:
        """`addresses` are those of `cluster.peers`."""
        self.links: dict[str, PeerLink] = {}
        """By node, those that have said hello."""
        self.authentication_failures = 0
        self._node = node
        self._peers = frozenset(addresses)
        self._addresses = dict(addresses)
        """Those of all nodes that are known."""
        self._secret = secret
        self._handlers = handlers
        self._tls = tls
        self._problems = PeerProblems(CLUSTER_CONNECTIONS_MAX)
        self._tasks = OwnedTasks("a connection between nodes", handlers.failed)
        self._run = self._tasks.run
        self._server: asyncio.Server | None = None
        self._unproved = 0
        self._is_stopping = False

    @property
    def problems(self) -> dict[str, str]:
        """Why there is no connection with a node, where that needs an operator."""
        return self._problems.shown(_now_ns())

    async def start(self, listen: tuple[str, int] | None) -> None:
        if listen is not None:
            try:
                await self._listen(*listen)
            except OSError as error:
                raise AddressUnavailable(
                    f"cannot listen on {listen[0]}:{listen[1]} for the other nodes: {error.strerror or error}",
                    hint="another process may use the port; `cluster.peers` or `cluster.listen` names another one",
                ) from None
        for node in self._addresses:
            if node != self._node and (self._node < node or self._node not in self._addresses):
                self._run(self._keep_connected(node))

    async def _listen(self, host: str, port: int) -> None:
        if self._tls is None:
            limit = CLUSTER_HANDSHAKE_BYTES_MAX
            self._server = await asyncio.start_server(self._on_connection, host, port, limit=limit)
            return
        for listener in await listen(host, port):
            self._run(self._accept_all(listener, self._tls))

    def learn(self, node: str, address: str) -> None:
        """Get to know the address of a registered node that is not in `cluster.peers`; it may be empty.

        Two nodes that have no vote need a connection as well: they follow each other's partitions.
        """
        if node == self._node or node in self._peers or not address:
            return
        host, port = split_address(address)
        if host in _ANY:
            return
        is_new = node not in self._addresses
        self._addresses[node] = host, port
        if is_new and self._node not in self._peers and self._node < node:
            self._run(self._keep_connected(node))

    async def stop(self) -> None:
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        for link in self.links.values():
            link.close()
        await self._tasks.stop()

    def send(self, node: str, message: PeerMessage) -> None:
        link = self.links.get(node)
        if link is not None:
            link.send(message)

    # --- connections ---

    async def _keep_connected(self, node: str) -> None:
        pause = CLUSTER_DIAL_SECONDS
        while True:
            try:
                async with asyncio.timeout(CLUSTER_HANDSHAKE_SECONDS):
                    link = await dial(
                        node,
                        self._addresses[node],
                        self._node,
                        self._secret,
                        CLUSTER_HANDSHAKE_BYTES_MAX,
                        None if self._tls is None else self._tls.contexts(),
                    )
                if await self._use(link):
                    pause = CLUSTER_REDIAL_SECONDS
                    continue
            except (OSError, TimeoutError) as error:
                if isinstance(error, ConnectionRefusedError):
                    self._problems.clear(node)
                    self._handlers.refused(node)
            except PeerFailure as failure:
                self._report(node, failure)
            await asyncio.sleep(pause)
            pause = min(2 * pause, CLUSTER_DIAL_SECONDS_MAX)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection by a task of this network: one of asyncio reports each cancellation as an error."""
        if self._is_full:
            writer.transport.abort()
        else:
            task = self._run(self._accepted((reader, writer)))
            task.add_done_callback(lambda done: writer.transport.abort() if done.cancelled() else None)

    async def _accept_all(self, listener: socket.socket, tls: PeerTls) -> None:
        """Accept connections by the certificate that is in use when each of them comes."""
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    wire, _ = await loop.sock_accept(listener)
                except OSError as error:
                    _log.error("no node can connect: %s", error.strerror or error)
                    await asyncio.sleep(CLUSTER_DIAL_SECONDS_MAX)
                    continue
                if self._is_full:
                    wire.close()
                else:
                    self._run(self._accepted(wire, tls.contexts()))

    @property
    def _is_full(self) -> bool:
        return self._unproved >= CLUSTER_CONNECTIONS_MAX or self._is_stopping

    async def _accepted(self, found: Streams | socket.socket, tls: PeerContexts | None = None) -> None:
        """Serve a connection; a socket becomes streams by TLS."""
        self._unproved += 1
        try:
            async with asyncio.timeout(CLUSTER_HANDSHAKE_SECONDS):
                if isinstance(found, socket.socket):
                    found = await accept_tls(found, tls, CLUSTER_HANDSHAKE_BYTES_MAX)
                link = await accept(found, self._node, self._secret, tls)
        except PeerFailure as failure:
            if failure.node in self._addresses or isinstance(failure, TlsDiffers):
                self._report(failure.node, failure)
            return
        except (TimeoutError, OSError):
            return
        finally:
            self._unproved -= 1
        try:
            if await self._use(link):
                if link.node in self._addresses:
                    self._run(self._probe(link.node))
            elif link.node in self._addresses and link.node not in self.links and link.node not in self.problems:
                raise PeerFailure("it ends connections at once: see its log, the secrets may differ")
        except PeerFailure as failure:
            self._report(link.node, failure)

    async def _use(self, link: PeerLink) -> bool:
        """Serve a link until its end; return whether the other side has said hello."""
        try:
            link.send(self._handlers.hello())
            self._unproved += 1
            try:
                async with asyncio.timeout(CLUSTER_HANDSHAKE_SECONDS):
                    hello = await link.receive_hello()
            finally:
                self._unproved -= 1
            if hello is None:
                return False
            self._welcome(link, hello)
            return await self._serve(link)
        except TimeoutError:
            return False
        finally:
            link.abort()

    def _welcome(self, link: PeerLink, hello: AnyMessage) -> None:
        if not isinstance(hello, Hello) or hello.identity.node != link.node:
            raise PeerFailure(f"node {link.node} did not begin with a hello of its own")
        sentence = self._handlers.refusal(hello)
        before = self.links.get(link.node)
        if sentence is None and before is not None and before.hello.identity != hello.identity:
            sentence = f"two nodes have the id {link.node}: each needs a cluster.node_id of its own"
        if sentence is not None:
            raise PeerFailure(sentence)
        link.hello = hello
        self._problems.clear(link.node)
        if before is not None:  # what was asked on it gets no answer any more
            del self.links[link.node]
            before.abort()
            self._handlers.ended(before)
        self.links[link.node] = link
        self._handlers.connected(link)

    async def _serve(self, link: PeerLink) -> bool:
        try:
            await link.serve(partial(self._received, link))
        finally:
            if self.links.get(link.node) is link:
                del self.links[link.node]
                self._handlers.ended(link)
        return True

    def _received(self, link: PeerLink, kind: int, content: memoryview) -> None:
        if self.links.get(link.node) is not link:  # another connection has taken its place
            return
        if kind != MESSAGE:
            self._handlers.data(link, kind, content)
        elif isinstance(message := link.decode(content), ReplicationMessage):
            self._handlers.replication(link, message)
        else:
            self._handlers.received(link, message)

    async def _probe(self, node: str) -> None:
        """See whether the process of a node that dials this one is gone. It may end after its connection."""
        for pause in _PROBE_SECONDS:
            try:
                async with asyncio.timeout(CLUSTER_HANDSHAKE_SECONDS):
                    _, writer = await asyncio.open_connection(*self._addresses[node])
            except ConnectionRefusedError:
                self._handlers.refused(node)
                return
            except TimeoutError:
                return
            except OSError:
                pass  # it is just ending
            else:
                writer.close()
            await asyncio.sleep(pause)
            if node in self.links:
                return

    def _report(self, node: str, failure: PeerFailure) -> None:
        """Log a reason once, not at every attempt."""
        self.authentication_failures += isinstance(failure, SecretDiffers)
        sentence = str(failure)
        if self._problems.add(node, sentence, _now_ns()):
            _log.warning("node %s: %s", node or "of an unknown id", sentence)


def _now_ns() -> int:
    return round(asyncio.get_running_loop().time() * NANOSECONDS)
