"""One call as a value: what is asked, and how its answer is read. Both clients carry out the same calls."""

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from goqueue.client.address import Address

if TYPE_CHECKING:
    from goqueue.storage.frame import Buffer

T = TypeVar("T")


class Answer(msgspec.Struct, frozen=True):
    """A whole answer. The names of its headers are in small letters."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes | bytearray
    source: Address | str = "this address"
    """Who answered, for sentences."""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")


class Call(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """A request, and the meaning of its answer.

    An `idempotent` call may be sent again when nobody knows whether it arrived.
    """

    method: str
    path: str
    decode: Callable[[Answer], T]
    body: "Sequence[Buffer]" = ()
    headers: tuple[tuple[str, str], ...] = ()
    idempotent: bool = True
    patience: float = 0.0
    """Seconds that the broker may hold the answer back on purpose."""
    unsure_hint: str = "it may have been stored all the same: look before you send it again"
    """What to do when nobody knows whether it arrived, where it is not `idempotent`."""

    def parts(self, address: Address, api_key: str | None = None) -> "list[Buffer]":
        """The bytes on the wire; a body is not copied."""
        lines = [
            f"{self.method} {address.base}{self.path} HTTP/1.1",
            f"host: {address.authority}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if api_key is not None:
            lines.append(f"authorization: Bearer {api_key}")
        if self.body or self.method not in {"GET", "DELETE"}:
            lines.append(f"content-length: {sum(map(len, self.body))}")
        return ["\r\n".join((*lines, "", "")).encode("latin-1"), *self.body]


Script = Generator[Call[Any], Any, T]
"""A procedure of several calls, each yielded and answered with what it decodes to."""
