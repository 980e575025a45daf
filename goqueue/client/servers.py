"""The addresses of a client: which of them is used, and which have failed lately. All its connections share them."""

import time
from collections.abc import Callable, Collection, Sequence

from goqueue.client.address import Address

LEFT_SECONDS = 10.0
"""The time for which an address that failed is used only if no other one is left."""


class Servers:
    """The addresses of a broker or of the nodes of a cluster, in the order in which they were given.

    The first one is used until it fails, then the next one until that fails.
    """

    def __init__(self, addresses: Sequence[Address], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.addresses = tuple(addresses)
        self.current = self.addresses[0]
        self.left: dict[Address, float] = {}
        """The addresses that failed, and until when they are left."""
        self._monotonic = monotonic

    def failed(self, address: Address) -> None:
        self.left[address] = self._monotonic() + LEFT_SECONDS
        if address == self.current:
            self.current = self.choose()

    def worked(self, address: Address) -> None:
        self.left.pop(address, None)

    def choose(self, tried: Collection[Address] = ()) -> Address:
        """Return the address to use: the current one or the next one after it, those that were `tried` last."""
        now, start = self._monotonic(), self.addresses.index(self.current)
        in_turn = self.addresses[start:] + self.addresses[:start]
        return min(in_turn, key=lambda one: (one in tried, max(self.left.get(one, 0.0) - now, 0.0)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))
