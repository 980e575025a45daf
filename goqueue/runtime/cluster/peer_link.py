"""One connection between two nodes: an upgraded HTTP request, then sealed messages in both directions.

    POST /cluster/replicate, Upgrade: goqueue-peer/1    node and nonce of the one who dials
    101                                                 node, nonce and proof of the one who listens
    length u32, kind u8, content, seal of 16 bytes      messages; the first one is a Hello

Kind 1 is a message in MessagePack; the others are those of `replication_stream`. The handshake and the first message
come over streams, everything else over a protocol of its own.
"""

import asyncio
import secrets
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from goqueue.cluster.handshake import NONCE_BYTES, SEAL_BYTES, PeerKeys, Sealer, is_same_proof
from goqueue.cluster.peer_messages import AnyMessage, Hello, decode_message, encode_message
from goqueue.limits import CLUSTER_HANDSHAKE_BYTES_MAX, CLUSTER_OUTGOING_BYTES_MAX
from goqueue.quantities import quoted
from goqueue.runtime.cluster.peer_protocol import LENGTH, PeerProtocol, Receiver, WrongSeal
from goqueue.runtime.cluster.peer_tls import (
    TLS_HANDSHAKE,
    PeerContexts,
    PeerFailure,
    TlsDiffers,
    check_peer,
    dial_tls,
    reason_of,
)

UPGRADE = "goqueue-peer/1"
_PATHS = ("/cluster/replicate", "/v1/cluster/replicate")
MESSAGE = 1
"""The kind of a message in MessagePack."""
_HEAD_END = b"\r\n\r\n"


class SecretDiffers(PeerFailure):
    """The other side does not know the secret of this cluster."""


class PeerLink:
    """A connection whose other side knows the secret, once its first message was read."""

    def __init__(
        self, node: str, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], sent: bytes, received: bytes
    ) -> None:
        """`sent` and `received` are the keys of the directions."""
        self.node = node
        """The id that the other side has given, and proved with its first message."""
        self.hello: Hello
        """Set when it was read."""
        self._reader, self._writer = streams
        self._sent, self._received = Sealer(sent), Sealer(received)

    @property
    def is_closing(self) -> bool:
        return self._writer.is_closing()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were sent and that the operating system has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, message: AnyMessage) -> None:
        """Send a message; close the connection if the other side has not read too much."""
        content = encode_message(message)
        self.send_parts(MESSAGE, (content,), len(content))

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview], size: int) -> None:
        """Send a message of another kind in parts, which are not copied."""
        if self._writer.is_closing():
            return
        if self.waiting_bytes > CLUSTER_OUTGOING_BYTES_MAX:
            self._writer.transport.abort()
            return
        first = bytes([kind])
        seal = self._sent.seal_parts((first, *parts))
        self._writer.transport.writelines((LENGTH.pack(size + 1), first, *parts, seal))

    async def receive_hello(self) -> AnyMessage | None:
        """Read the first message; None at the end. Raises PeerFailure."""
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if not 1 <= length <= CLUSTER_HANDSHAKE_BYTES_MAX:
                raise PeerFailure(f"node {self.node} sent a message of {length:,} bytes")
            content = memoryview(await self._reader.readexactly(length + SEAL_BYTES))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            return None
        if not self._received.is_sealed(content[:length], content[length:]):
            raise self._wrong_seal()
        if content[0] != MESSAGE:
            raise PeerFailure(f"node {self.node} sent a message of the kind {content[0]} before its hello")
        return self.decode(content[1:length])

    async def serve(self, on_message: Receiver) -> None:
        """Call for each message that comes, until the end of the connection. Raises PeerFailure."""
        transport = cast(asyncio.Transport, self._writer.transport)
        protocol = PeerProtocol(transport, self._received, on_message)
        transport.pause_reading()
        transport.set_protocol(protocol)
        read, is_over = (getattr(self._reader, name) for name in ("_buffer", "_eof"))  # what the streams have taken
        protocol.feed(bytes(read))
        if not protocol.ended.done():
            if is_over or transport.is_closing():
                return
            transport.resume_reading()
        try:
            await protocol.ended
        except WrongSeal:
            raise self._wrong_seal() from None

    def decode(self, content: memoryview) -> AnyMessage:
        """Decode a message of the first kind. Raises PeerFailure."""
        try:
            return decode_message(content)
        except msgspec.MsgspecError as error:
            raise PeerFailure(f"node {self.node} sent a message that this version does not know: {error}") from None

    def _wrong_seal(self) -> SecretDiffers:
        return SecretDiffers(f"a message in the name of node {quoted(self.node)} has a wrong seal: another secret?")

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


MessageHandler = Callable[[PeerLink, Any], None]
"""Takes the messages of one type."""


async def dial(
    node: str, address: tuple[str, int], me: str, secret: bytes, limit: int, tls: PeerContexts | None = None
) -> PeerLink:
    """Connect to a node at its address. Raises PeerFailure, or OSError if nothing listens there."""
    host, port = address
    if tls is None:
        reader, writer = await asyncio.open_connection(host, port, limit=limit)
    else:
        reader, writer = await dial_tls(host, port, tls, limit)
    try:
        if tls is not None:
            check_peer(writer, node)
        nonce = secrets.token_bytes(NONCE_BYTES)
        head = (
            f"POST {_PATHS[0]} HTTP/1.1",
            f"Host: {host}:{port}",
            "Connection: Upgrade",
            f"Upgrade: {UPGRADE}",
            "Content-Length: 0",
            f"GoQueue-Node: {me}",
            f"GoQueue-Nonce: {nonce.hex()}",
        )
        writer.write("\r\n".join(head).encode() + _HEAD_END)
        first, fields = await _read_head(reader)
        if first[1:2] != ["101"]:
            raise PeerFailure(f"{host}:{port} {await _read_refusal(reader, first, fields)}")
        found, theirs = _identity(fields)
        if found != node:
            raise PeerFailure(f"the address of node {node} in cluster.peers is that of node {quoted(found)}")
        binding = b"" if tls is None else tls.binding(writer, has_dialed=True)
        keys = PeerKeys(secret, (me, nonce), (node, theirs), binding)
        if not is_same_proof(keys.listener_proof, _bytes_of(fields, "goqueue-proof")):
            raise SecretDiffers(f"node {quoted(node)} at {host}:{port} has another cluster secret")
    except BaseException:
        writer.transport.abort()
        raise
    return PeerLink(node, (reader, writer), keys.dialer_key, keys.listener_key)


async def accept(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    me: str,
    secret: bytes,
    tls: PeerContexts | None = None,
) -> PeerLink:
    """Answer a node that has dialed. It is authenticated by its first message. Raises PeerFailure."""
    reader, writer = streams
    try:
        first, fields = await _read_head(reader)
        problem = _refusal(first, fields)
        if problem is None and tls is not None:
            problem = _refusal_of_tls(writer, fields)
        if problem is not None:
            status, sentence = problem
            body = msgspec.json.encode({"error": sentence, "code": "request_invalid"})
            about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{about}".encode() + _HEAD_END + body)
            await writer.drain()
            raise PeerFailure(sentence, fields.get("goqueue-node", ""))
        node, theirs = _identity(fields)
        nonce = secrets.token_bytes(NONCE_BYTES)
        binding = b"" if tls is None else tls.binding(writer, has_dialed=False)
        keys = PeerKeys(secret, (node, theirs), (me, nonce), binding)
        answer = (
            "HTTP/1.1 101 Switching Protocols",
            "Connection: Upgrade",
            f"Upgrade: {UPGRADE}",
            f"GoQueue-Node: {me}",
            f"GoQueue-Nonce: {nonce.hex()}",
            f"GoQueue-Proof: {keys.listener_proof.hex()}",
        )
        writer.write("\r\n".join(answer).encode() + _HEAD_END)
    except BaseException:
        writer.close()
        raise
    return PeerLink(node, (reader, writer), keys.listener_key, keys.dialer_key)


def _refusal(first: list[str], fields: dict[str, str]) -> tuple[str, str] | None:
    if first[:1] != ["POST"] or first[1:2] not in ([_PATHS[0]], [_PATHS[1]]):
        return "404 Not Found", f"this address is for nodes of the cluster, which POST to {_PATHS[0]}"
    if fields.get("upgrade", "").lower() != UPGRADE:
        return "426 Upgrade Required", f"the request must be upgraded to {UPGRADE}"
    return None


def _refusal_of_tls(writer: asyncio.StreamWriter, fields: dict[str, str]) -> tuple[str, str] | None:
    node = fields.get("goqueue-node", "")
    if writer.get_extra_info("ssl_object") is None:
        return "426 Upgrade Required", f"node {quoted(node)} dials without TLS: set cluster.tls_cert on all nodes"
    try:
        check_peer(writer, node)
    except PeerFailure as failure:
        return "403 Forbidden", str(failure)
    return None


async def _read_refusal(reader: asyncio.StreamReader, first: list[str], fields: dict[str, str]) -> str:
    """Return what another answer than the upgrade says."""
    with suppress(ValueError, asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
        length = min(int(fields["content-length"]), CLUSTER_HANDSHAKE_BYTES_MAX)
        return f"refuses: {msgspec.json.decode(await reader.readexactly(length), type=dict[str, str])['error']}"
    return f"answers {quoted(' '.join(first[1:]))}: is it the peer address of a node?"


async def _read_head(reader: asyncio.StreamReader) -> tuple[list[str], dict[str, str]]:
    """Read the first line and the header fields. Raises PeerFailure."""
    try:
        start = await reader.readexactly(1)
        if start[0] == TLS_HANDSHAKE:
            raise TlsDiffers("a node dials with TLS, and this one has no cluster.tls_cert: set it on all nodes")
        head = (start + await reader.readuntil(_HEAD_END)).decode("ascii")
    except (asyncio.IncompleteReadError, ConnectionError):
        raise PeerFailure("the connection ended before its first request or answer") from None
    except ssl.SSLError as error:
        raise TlsDiffers(f"it refuses the certificate of this node: {reason_of(error)}") from None
    except (asyncio.LimitOverrunError, UnicodeDecodeError):
        raise PeerFailure("what came first is no HTTP") from None
    first, *lines = head.rstrip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return first.split(" ", 2), {name.strip().lower(): value.strip() for name, _, value in fields}


def _identity(fields: dict[str, str]) -> tuple[str, bytes]:
    node, nonce = fields.get("goqueue-node", ""), _bytes_of(fields, "goqueue-nonce")
    if not node or len(nonce) != NONCE_BYTES:
        raise PeerFailure("the handshake has no node or no nonce")
    return node, nonce


def _bytes_of(fields: dict[str, str], name: str) -> bytes:
    try:
        return bytes.fromhex(fields.get(name, ""))
    except ValueError:
        raise PeerFailure(f"the header {name} is not hexadecimal") from None
