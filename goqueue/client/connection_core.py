"""The part of a connection that does not wait: which address it uses, and what its failures mean for the next attempt.

What must stay true: a failure never sends a request again. It only says where the next attempt goes, and that it need
not be delayed; whether there is one is decided by `request_attempts` and by producers, readers and consumers.
"""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.client.address import Address
from goqueue.client.api_request import ANONYMOUS, ApiRequest, ApiResponse, Sender
from goqueue.client.cluster_view import ClusterView
from goqueue.client.servers import Servers
from goqueue.errors import (
    BrokerStopping,
    BrokerUnreachable,
    GoQueueError,
    LeadershipLost,
    LeaderUnavailable,
    NotCoordinator,
    NotLeader,
    PartitionNotFound,
    RequestTimedOut,
    TopicNotFound,
)
from goqueue.wire.headers import METADATA

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

_METADATA = METADATA.encode()

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
        self._redirect: Address | None = None
        """Where the last request is answered, by the node that was asked."""
        self._node: Address | None = None
        """The only address of this connection; None for any."""

    # --- several addresses ---

    def pin(self, node: Address) -> None:
        """Use this address only, whatever becomes of it."""
        self._node = self._address = node

    @property
    def address(self) -> Address:
        return self._address

    @property
    def servers(self) -> Servers:
        return self._servers

    def turn(self) -> None:
        """Ask another address next, because this one knows too little."""
        if not self._servers.is_one:
            self._address = self._servers.choose({self._address})
            self.close()

    def attempt_seconds(self, call: ApiRequest[Any], seconds: float) -> float:
        """Return how long an attempt may take: less than `seconds` if the request may then go to another address."""
        if self._servers.is_one or not call.idempotent:
            return seconds
        return min(seconds, call.patience + SILENT_SECONDS * 2.0**self._silences)

    def decode(self, call: ApiRequest[T], answer: ApiResponse) -> T:
        """Return the result of a request. Raises what it was refused with."""
        version = answer.headers.get(_METADATA)
        if version is not None and version.isdigit():
            self._servers.announced(version)
        try:
            result = call.decode(answer)
        except GoQueueError as error:
            raise self.noted(self._believed(error, version)) from None
        if self._said or self._tried:
            self._servers.worked(self._address)
            self._tried.clear()
            self._said.clear()
            self._silences = 0
        self._redirect = None
        return result

    def _believed(self, error: GoQueueError, version: bytes | None) -> GoQueueError:
        """Return the error for a refusal: a node that is behind others may not know a topic yet."""
        cluster = self._servers.cluster
        if (
            cluster is None
            or version is None
            or not version.isdigit()
            or not isinstance(error, TopicNotFound | PartitionNotFound)
        ):
            return error
        if int(version) >= cluster.version:
            return error
        return LeaderUnavailable(f"{error.sentence}; but the node at {self._address} is behind others")

    def noted(self, error: GoQueueError) -> GoQueueError:
        """Note a failure of the address, and return its error: `untried` in the details if another one is left."""
        servers = self._servers
        self._redirect = None
        if servers.is_one:
            return error
        if servers.cluster is not None and isinstance(
            error, NotLeader | NotCoordinator | LeaderUnavailable | LeadershipLost
        ):
            return self._moved(error, servers.cluster)
        if not _is_failure_of_address(error):
            return error
        servers.failed(self._address)
        self._silences += isinstance(error, RequestTimedOut)
        if self._node is not None:
            if servers.cluster is not None:
                servers.cluster.doubt(self._node)
            return error
        self._tried.add(self._address)
        own = error.sentence
        self._said[self._address] = own if str(self._address) in own else f"{self._address}: {own}"
        error.sentence = "; ".join(self._said.values())
        error.args = (error.sentence,)
        if self._tried.issuperset(servers.addresses):
            self._tried.clear()
            return error
        error.details.pop("foreign", None)
        error.details["untried"] = True
        return error

    def _moved(self, error: GoQueueError, cluster: ClusterView) -> GoQueueError:
        """Note who answers a request; the next attempt goes there at once if it was not tried yet."""
        leader = cluster.heed(error)
        self._servers.add_nodes()
        self._tried.add(self._address)
        if leader is None or leader in self._tried or self._servers.is_left(leader):
            if leader is not None or self._tried.issuperset(self._servers.addresses):
                self._tried.clear()
            return error
        self._redirect = None if self._node is not None else leader
        error.details["untried"] = True
        return error

    def _route(self, call: ApiRequest[Any]) -> None:
        """Choose the address of a request, and end a connection to another one."""
        if self._servers.is_one or self._node is not None:
            return
        wanted = self.address_of(call)
        if wanted != self._address:
            self.close()
            self._address = wanted

    def address_of(self, call: ApiRequest[Any]) -> Address:
        """Return the address of a request: that of its partition's leader, or one that works."""
        servers = self._servers
        if self._redirect is not None:
            return self._redirect
        if call.place is not None and servers.cluster is not None:
            leader = servers.cluster.leader(call.place)
            if leader is not None and leader not in self._tried:
                return leader
        if self._address in self._tried or servers.is_left(self._address):
            return servers.choose(self._tried)
        return self._address

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
