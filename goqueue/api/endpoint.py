"""One row of the table of endpoints: everything that is said about one, said once.

Routing, validation, the OpenAPI document, permissions and the labels of metrics are made from these rows.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from goqueue.errors import GoQueueError
from goqueue.limits import REQUEST_BYTES

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Permission = Literal["open", "read", "write", "admin"]
"""Who may call it: everybody, whoever may read or write the topic, or an administrator."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoint:
    """A method and a path, what goes in and what comes out."""

    method: Method
    path: str
    """With its parameters in braces: `/topics/{topic}`."""
    handler: Callable[..., Awaitable[Any]]
    """Gets a `Call`; returns a value of the type `answer`, or a `Response` where the body is not JSON."""
    summary: str
    tag: str
    query: type | None = None
    """A msgspec struct whose fields are the query's parameters."""
    body: type | None = None
    """A msgspec struct that the JSON body is decoded to."""
    body_bytes: int | None = REQUEST_BYTES
    """The largest body; None where the server's own limit is the only one."""
    decode_large: Callable[[type, bytearray], Any] | None = None
    """Decodes a large body on a thread, where decoding it as a whole would keep others waiting."""
    frames: bool = False
    """Whether the body may be frames instead (`application/vnd.goqueue.frames`)."""
    answer: type | None = None
    """A msgspec struct; None where the answer is not JSON."""
    answer_type: str = "application/json"
    status: int = 200
    unwell_status: int | None = None
    """Of an answer that has the same form and says that not all is well."""
    permission: Permission = "open"
    may_be_large: bool = False
    """Whether an answer may hold megabytes: then it is refused, before anything is read, while others hold too much."""
    errors: tuple[type[GoQueueError], ...] = ()
    """What may be refused, besides a malformed request."""
    example: Any = None
    """An example of the body."""
    answer_example: Any = None
