"""The addresses of a client: which of them is used, and which have failed lately. Its connections share them."""

import time
from collections.abc import Callable, Collection, Sequence

from goqueue.client.address import Address
from goqueue.client.cluster_view import ClusterView

LEFT_SECONDS = 10.0
"""The time for which an address that failed is used only if no other one is left."""


class Servers:
    """The addresses of a broker or of the nodes of a cluster, in the order in which they were given.

    The first one is used until it fails, then the next one until that fails. Those of further nodes are added as they
    become known.
    """

    def __init__(self, addresses: Sequence[Address], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.addresses = tuple(addresses)
        self.current = self.addresses[0]
        self.left: dict[Address, float] = {}
        """The addresses that failed, and until when they are left."""
        self.cluster: ClusterView | None = None
        """None as long as no answer came from a node of a cluster."""
        self.is_one = len(self.addresses) == 1
        """True if there is nothing to choose."""
        self._monotonic = monotonic
        self._origin: Servers | None = None

    def failed(self, address: Address) -> None:
        self.left[address] = self._monotonic() + LEFT_SECONDS
        if address == self.current:
            self.current = self.choose()

    def worked(self, address: Address) -> None:
        self.left.pop(address, None)

    def is_left(self, address: Address) -> bool:
        return bool(self.left) and self.left.get(address, 0.0) > self._monotonic()

    def choose(self, tried: Collection[Address] = ()) -> Address:
        """Return the address to use: the current one or the next one after it, those that were `tried` last."""
        now, start = self._monotonic(), self.addresses.index(self.current)
        in_turn = self.addresses[start:] + self.addresses[:start]
        return min(in_turn, key=lambda one: (one in tried, max(self.left.get(one, 0.0) - now, 0.0)))

    def copy(self) -> "Servers":
        """Return the same addresses for a producer: its workers must notice each change of its leaders."""
        made = Servers(self.addresses, self._monotonic)
        made.current, made.left, made._origin = self.current, dict(self.left), self
        return made

    # --- a cluster ---

    def announced(self, version: bytes) -> None:
        """Note the version of the metadata that an answer has in its headers."""
        if self.cluster is None:
            self.cluster, self.is_one = ClusterView(secure=self.current.secure), False
        self.cluster.version = max(self.cluster.version, int(version))

    def add_nodes(self) -> None:
        """Use the addresses of the nodes of the cluster, too."""
        assert self.cluster is not None
        self._add(self.cluster.nodes)
        if self._origin is not None:
            self._origin._add(self.cluster.nodes)

    def _add(self, nodes: Collection[Address]) -> None:
        self.addresses += tuple(one for one in nodes if one not in self.addresses)
        self.is_one = len(self.addresses) == 1 and self.cluster is None

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))
