"""The part of a connection that does not wait: which address it uses, and what its failures mean for the next attempt.

What must stay true: a failure never sends a request again. It only says where the next attempt goes, and that it need
not be delayed; whether there is one is decided by `request_attempts` and by producers, readers and consumers.
"""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.client.address import Address
from goqueue.client.api_request import ANONYMOUS, ApiRequest, ApiResponse, Sender
from goqueue.client.servers import Servers
from goqueue.errors import BrokerStopping, BrokerUnreachable, GoQueueError, RequestTimedOut

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

SILENT_SECONDS = 2.0
"""The time after which a silent address is left for another one; twice as long after each silence in a row."""


class ConnectionCore(ABC):
    """The common part of both kinds of connection: one request at a time is under way.

    It is opened when it is needed, and reopened after it broke.
    """

    def __init__(
        self,
        servers: Servers,
        connect_timeout: float,
        tls: "ssl.SSLContext | None" = None,
        sender: Sender = ANONYMOUS,
    ) -> None:
        self._servers = servers
        self._address = servers.current
        self._connect_timeout = connect_timeout
        self._tls = tls
        self._sender = sender
        self._process = os.getpid()
        self._tried: set[Address] = set()
        """The addresses that failed since the last delay."""
        self._said: dict[Address, str] = {}
        """What they and others said since the last answer."""
        self._silences = 0

    # --- several addresses ---

    def attempt_seconds(self, call: ApiRequest[Any], seconds: float) -> float:
        """Return how long an attempt may take: less than `seconds` if the request may then go to another address."""
        if len(self._servers.addresses) == 1 or not call.idempotent:
            return seconds
        return min(seconds, call.patience + SILENT_SECONDS * 2.0**self._silences)

    def decode(self, call: ApiRequest[T], answer: ApiResponse) -> T:
        """Return the result of a request. Raises what it was refused with."""
        try:
            result = call.decode(answer)
        except GoQueueError as error:
            raise self.noted(error) from None
        if self._said:
            self._servers.worked(self._address)
            self._tried.clear()
            self._said.clear()
            self._silences = 0
        return result

    def noted(self, error: GoQueueError) -> GoQueueError:
        """Note a failure of the address, and return its error: `untried` in the details if another one is left."""
        addresses = self._servers.addresses
        if len(addresses) == 1 or not _is_failure_of_address(error):
            return error
        self._servers.failed(self._address)
        self._silences += isinstance(error, RequestTimedOut)
        self._tried.add(self._address)
        own = error.sentence
        self._said[self._address] = own if str(self._address) in own else f"{self._address}: {own}"
        error.sentence = "; ".join(self._said.values())
        error.args = (error.sentence,)
        if self._tried.issuperset(addresses):
            self._tried.clear()
            return error
        error.details.pop("foreign", None)
        error.details["untried"] = True
        return error

    def _choose_address(self) -> None:
        """Choose the address of the next connection to be opened."""
        if len(self._servers.addresses) > 1:
            self._address = self._servers.choose(self._tried)

    @property
    def _is_left(self) -> bool:
        """True if the address has failed for another connection, and another one is used now."""
        return bool(self._servers.left) and self._address in self._servers.left

    # --- what both kinds have ---

    @property
    @abstractmethod
    def can_receive(self) -> bool:
        """True if the answer to the last request may still be received."""

    @abstractmethod
    def has_arrived(self) -> bool:
        """Return whether `receive` would not wait."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def interrupt(self) -> None:
        """End the connection under a caller that waits in it; any thread may call this."""


def _is_failure_of_address(error: GoQueueError) -> bool:
    """Return whether another address may do better. One that is no broker's is a mistake to be told at once."""
    if isinstance(error, BrokerUnreachable):
        return not error.details.get("foreign") or bool(error.details.get("unsent"))
    return isinstance(error, BrokerStopping | RequestTimedOut)
