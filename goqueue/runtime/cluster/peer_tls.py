"""TLS between nodes: each side shows a certificate that names its node, of an authority that the other one trusts.

What must stay true: a certificate counts only if it is complete and this node itself would accept it, so broken files
leave the one before it in use. The files are looked at before each connection; open connections stay.
"""

import asyncio
import logging
import os
import socket
import ssl
import time
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from goqueue.errors import CertificateInvalid
from goqueue.observe.facts import NodeCertificate
from goqueue.quantities import quoted
from goqueue.runtime.tls_alerts import ServerContext, alert_of

_log = logging.getLogger("goqueue.cluster")

TLS_HANDSHAKE = 0x16
"""The first byte of TLS."""
_LAST_SECONDS = 1.0
_HINT = (
    "cluster.tls_cert, cluster.tls_key and cluster.tls_ca name files in PEM form; the certificate has the node id as a"
    " DNS name, and the usages serverAuth and clientAuth"
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PeerFailure(Exception):
    """A connection with another node cannot be made or used; the text says why."""

    def __init__(self, sentence: str, node: str = "") -> None:
        super().__init__(sentence)
        self.node = node
        """The id that the other side has given, if it has given one. It need not be true."""


class TlsDiffers(PeerFailure):
    """One side speaks TLS and the other does not, or one refuses the certificate of the other."""


class PeerTlsFiles(NamedTuple):
    """The files of a node."""

    cert: str
    key: str
    ca: str


class PeerContexts(NamedTuple):
    """A certificate with its key, ready for connections in both directions."""

    listener: ssl.SSLContext
    dialer: ssl.SSLContext
    content: bytes
    """The certificate in DER form."""
    expires_s: int

    def binding(self, writer: asyncio.StreamWriter, *, has_dialed: bool) -> bytes:
        """Return what binds the keys of a connection to the certificates of both sides."""
        theirs = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        certificates = (self.content, theirs) if has_dialed else (theirs, self.content)
        return b"".join(sha256(one).digest() for one in certificates)


class PeerTls:
    """The certificate in use."""

    def __init__(self, files: PeerTlsFiles, node: str) -> None:
        """Load the files. Raises CertificateInvalid."""
        self._files, self._node = files, node
        self._seen = self._signature()
        self._current = load_contexts(files, node)
        self.error: CertificateInvalid | None = None
        """Why the files as they are now are not in use."""

    def facts(self) -> NodeCertificate:
        left = self._current.expires_s - time.time()  # the clock of OpenSSL
        return NodeCertificate(self._files.cert, left, None if self.error is None else self.error.sentence)

    def contexts(self) -> PeerContexts:
        """Return those of the next connection: of the files as they are now, if these are whole."""
        seen = self._signature()
        if seen != self._seen:
            self._seen = seen
            try:
                self._current, self.error = load_contexts(self._files, self._node), None
                _log.info("loaded the certificate of this node from %s", self._files.cert)
            except CertificateInvalid as error:
                self.error = error.without_tracebacks()
                _log.error("the former certificate of this node stays in use: %s", error.sentence)
        return self._current

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """Return what changes with the files; symbolic links are followed, as Kubernetes replaces only these."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                facts = os.stat(path)
                found.append((facts.st_mtime_ns, facts.st_ino, facts.st_size))
            except OSError:
                found.append(None)
        return found


# --- certificates ---


def load_contexts(files: PeerTlsFiles, node: str) -> PeerContexts:
    """Load all files, and let the certificate greet itself. Raises CertificateInvalid."""
    listener, dialer = ServerContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    dialer.check_hostname = False  # the name of the node is checked, not that of its host
    for context in (listener, dialer):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(files.cert, files.key, password=_refuse_encrypted)
            context.load_verify_locations(files.ca)
        except ssl.SSLError as error:
            raise CertificateInvalid(f"{_unusable(files, error)}", hint=_HINT) from None
        except OSError as error:
            unread = ", ".join(path for path in files if not os.access(path, os.R_OK)) or files.cert
            raise CertificateInvalid(
                f"a TLS file of the cluster cannot be read: {unread}: {error.strerror or error}", hint=_HINT
            ) from None
    try:
        found, content = _greet_itself(listener, dialer)
    except ssl.SSLError as error:
        raise CertificateInvalid(
            f"the other nodes would refuse the certificate {files.cert}: {reason_of(error)}", hint=_HINT
        ) from None
    names = _dns_names(found)
    if node.lower() not in names:
        raise CertificateInvalid(
            f"the certificate {files.cert} is for {', '.join(sorted(names)) or 'no DNS name'}, and this is node {node}",
            hint=_HINT,
        )
    return PeerContexts(listener, dialer, content, round(ssl.cert_time_to_seconds(str(found["notAfter"]))))


def _refuse_encrypted() -> str:
    """Stand in for a password: without it, OpenSSL would ask for one on the terminal."""
    raise CertificateInvalid("the TLS key of the cluster is encrypted, and there is no password for it", hint=_HINT)


def _unusable(files: PeerTlsFiles, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the TLS key {files.key} does not belong to the certificate {files.cert}"
    return f"the TLS files {', '.join(files)} cannot be used: {reason_of(error)}"


def _greet_itself(listener: ssl.SSLContext, dialer: ssl.SSLContext) -> "tuple[dict[str, object], bytes]":
    """Return the certificate as the other nodes see it. Raises ssl.SSLError if they would refuse it."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = dialer.wrap_bio(back, there), listener.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return dict(sides[1].getpeercert() or {}), sides[1].getpeercert(binary_form=True) or b""


def _dns_names(found: "dict[str, object]") -> set[str]:
    names = found.get("subjectAltName", ())
    assert isinstance(names, tuple), "Python describes a certificate so"
    return {str(value).lower() for kind, value in names if kind == "DNS"}


def reason_of(error: OSError) -> str:
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error.strerror or error
    return str(reason).replace("_", " ").lower()


# --- connections ---


def check_peer(writer: asyncio.StreamWriter, node: str) -> None:
    """Raise TlsDiffers if the certificate of the other side is not for this node."""
    names = _dns_names(dict(writer.get_extra_info("ssl_object").getpeercert()))
    if node.lower() not in names:
        raise TlsDiffers(f"the certificate is for {', '.join(sorted(names)) or 'no DNS name'}, not for {quoted(node)}")


async def dial_tls(host: str, port: int, contexts: PeerContexts, limit: int) -> Streams:
    """Connect to a node. Raises TlsDiffers, or OSError if nothing listens there."""
    try:
        return await asyncio.open_connection(host, port, limit=limit, ssl=contexts.dialer)
    except ssl.SSLCertVerificationError as error:
        raise TlsDiffers(f"the certificate of {host}:{port} is refused: {reason_of(error)}") from None
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
        raise TlsDiffers(
            f"no TLS with {host}:{port}: {reason_of(error)}: it may have no cluster.tls_cert; see its log"
        ) from None


async def accept_tls(wire: socket.socket, contexts: PeerContexts | None, limit: int) -> Streams:
    """Make streams of an accepted connection, by TLS unless the other side begins without. Raises TlsDiffers."""
    assert contexts is not None, "a node without a certificate accepts streams"
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit, loop)
    protocol, name = asyncio.StreamReaderProtocol(reader, loop=loop), _name_of(wire)
    try:
        is_tls = await _first_byte(wire) == TLS_HANDSHAKE
        context, kept = contexts.listener if is_tls else None, wire.dup()
    except BaseException:
        wire.close()
        raise
    with kept:  # the event loop closes the other one, also when the handshake fails
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, wire, ssl=context)
        except ssl.SSLError as error:
            await _send_last(kept, alert_of(error))
            raise TlsDiffers(f"no TLS with {name}: {reason_of(error)}") from None
        except OSError:  # event loops close without the alert
            raise TlsDiffers(
                f"{name} ended the connection in the handshake: it may refuse the certificate of this node"
            ) from None
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _resolve(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


async def _send_last(wire: socket.socket, content: bytes) -> None:
    """Send something, and wait for the end of the other side, so that no reset destroys it."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):  # a timeout is one of them
        async with asyncio.timeout(_LAST_SECONDS):
            await loop.sock_sendall(wire, content)
            wire.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(wire, 65_536):
                pass


async def _first_byte(wire: socket.socket) -> int | None:
    """Return the first byte without taking it, or None at the end of the connection."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    loop.add_reader(wire, _resolve, arrived)
    try:
        await arrived
    finally:
        loop.remove_reader(wire)
    first = wire.recv(1, socket.MSG_PEEK)
    return first[0] if first else None


def _name_of(wire: socket.socket) -> str:
    try:
        return str(wire.getpeername()[0])
    except OSError:
        return "a node that has left"


async def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            listener = socket.socket(family, socket.SOCK_STREAM)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen()
            listener.setblocking(False)
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners
