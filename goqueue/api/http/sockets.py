"""Sockets to listen on: an address, a path, or a socket that another process has opened."""

import asyncio
import errno
import fcntl
import os
import socket
import stat
import termios
from contextlib import suppress

from goqueue.errors import AddressUnavailable

_REASONS = {
    errno.EADDRINUSE: ("another process is listening there", "stop that process, or choose another port with `--port`"),
    errno.EACCES: (
        "the system does not allow it",
        "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose a higher one",
    ),
    errno.EADDRNOTAVAIL: (
        "the host is not an address of this machine",
        "listen on 127.0.0.1 for this machine alone, or on 0.0.0.0 for all its networks",
    ),
}
_SOCKET_MODE = 0o660
"""Who may connect to a path: its owner and group. The directory may allow fewer."""


async def bind_address(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of the host. Raises AddressUnavailable."""
    if not 0 <= port <= 65_535:
        raise _unavailable(host, port, OverflowError())
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(socket.socket(family, kind, protocol))
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # the IPv4 addresses have sockets of their own
                sockets[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sockets[-1].bind(address)
            sockets[-1].listen(1)  # bound alone, an address may still be taken by another process
    except (OSError, UnicodeError) as error:
        for one in sockets:
            one.close()
        raise _unavailable(host, port, error) from error
    return sockets


def bind_path(path: str) -> socket.socket:
    """Return a socket at this path; one that no process listens on any more is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listener.bind(path)
        os.chmod(path, _SOCKET_MODE)
        listener.listen(1)
    except OSError as error:
        listener.close()
        reason, hint = error.strerror or str(error), "choose a path that this user may create"
        if error.errno == errno.EADDRINUSE:
            reason, hint = "a process is listening there, or it is a file", "stop that process, or choose another path"
        raise AddressUnavailable(f"cannot listen on the socket {path!r}: {reason}", hint=hint) from error
    return listener


def _remove_stale(path: str) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)


def inherited(descriptor: int) -> socket.socket:
    """Return the listening socket with this number, as systemd and other supervisors pass it."""
    try:
        listener = socket.socket(fileno=os.dup(descriptor))
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.close()
            raise OSError(errno.EINVAL, "it does not listen")
    except OSError as error:
        raise AddressUnavailable(
            f"file descriptor {descriptor} is not a listening socket: {error.strerror or error}",
            hint="the supervisor passes it; with systemd, the first is number 3",
        ) from error
    return listener


def narrow(transport: asyncio.Transport, size: int) -> None:
    """Let the system keep less of what a client sends before it is read, from now on: the client has to wait."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def has_unsent(transport: asyncio.Transport) -> bool:
    """Return whether the client has not received everything.

    With TLS the transport does not count what it has encrypted; but as long as there is some, the kernel is full.
    """
    if transport.get_write_buffer_size():
        return True
    unsent = bytearray(4)
    with suppress(OSError, ValueError):
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, unsent)
    return any(unsent)


def _unavailable(host: str, port: int, error: Exception) -> AddressUnavailable:
    if isinstance(error, socket.gaierror | UnicodeError):
        reason, hint = "the host cannot be resolved", "use an IP address, or a name that this machine can resolve"
    elif isinstance(error, OverflowError):
        reason, hint = "the port is out of range", "choose a port from 1 to 65535, or 0 for any that is free"
    else:
        number = error.errno if isinstance(error, OSError) else None
        reason, hint = _REASONS.get(number or 0, (str(error), "check whether this machine has this address"))
    return AddressUnavailable(f"cannot listen on {host!r} port {port}: {reason}", hint=hint)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return host and port of a client; nothing for one of a Unix socket."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return ""
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
