"""Closes a connection from outside of gRPC, which offers no way to.

A call whose client keeps the window of its stream closed cannot end: its status waits behind its response, and both its
memory and its place under the limit of calls are held. Only the end of the connection ends it.
"""

import os
import socket
from contextlib import suppress

_DESCRIPTORS = "/dev/fd"
_V4_IN_V6 = "::ffff:"


def disconnect(peer: str, port: int) -> bool:
    """Shut down the connection between this port and a client, HOST:PORT. Return whether there was one."""
    found = False
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError), _duplicate(int(name)) as one:  # not a socket, not connected, or closed meanwhile
            if one.family in {socket.AF_INET, socket.AF_INET6} and one.getsockname()[1] == port and _peer(one) == peer:
                one.shutdown(socket.SHUT_RDWR)
                found = True
    return found


def _duplicate(descriptor: int) -> socket.socket:
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _peer(one: socket.socket) -> str:
    host, port = one.getpeername()[:2]
    host = host.removeprefix(_V4_IN_V6)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
