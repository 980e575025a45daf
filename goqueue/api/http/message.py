"""What a handler gets, and what it gives."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Request:
    """One request, complete with its body."""

    method: str
    path: str
    """As it was sent: not percent-decoded, and without the query."""
    query: str
    """What stands behind the first `?`; as it was sent."""
    headers: dict[str, str]
    """Names are lower-case; values of a name that repeats are joined by `, `."""
    body: bytearray
    """The handler's to keep or to change."""
    id: str
    """The client's own `x-request-id` where that is sane, or one made here."""
    peer: str
    began_ns: int
    """Monotonic: when its first byte arrived."""
    connection: str = ""
    """What the answer must say of the connection: `close`, `keep-alive`, or nothing."""
    weight: int = 0
    """Bytes that count as held until the request is answered."""


JSON = "application/json"


@dataclass(slots=True)
class Response:
    """One answer. The server adds the length, the request's id, the date and what concerns the connection."""

    status: int
    body: bytes | Sequence[memoryview | bytes] = b""
    """Views are of bytes, and must not change until they are sent."""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    is_essential: bool = False
    """Whether it is sent even while other answers hold all that they may: what an operator needs just then."""


Handle = Callable[[Request], Response | Awaitable[Response]]
"""An answer that is given at once costs no task. An awaitable of a GET or HEAD is cancelled when its client leaves."""
