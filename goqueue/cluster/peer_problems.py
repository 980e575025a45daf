"""Why nodes have no connection with each other, as far as the latest attempts tell."""

from goqueue.clock import NANOSECONDS

_SHOWN_NS = 10 * NANOSECONDS
"""Nodes that cannot connect try again more often, so what is older is over."""


class PeerProblems:
    """The problem of each node, shown until attempts no longer meet it."""

    def __init__(self, size_max: int) -> None:
        """Names of nodes that have not proved to know the secret count too, so there is a limit."""
        self._size_max = size_max
        self._found: dict[str, tuple[str, int]] = {}

    def shown(self, now_ns: int) -> dict[str, str]:
        """Return the problems by node."""
        return {node: sentence for node, (sentence, at) in self._found.items() if now_ns - at < _SHOWN_NS}

    def add(self, node: str, sentence: str, now_ns: int) -> bool:
        """Note what an attempt met; return whether that is new."""
        shown = self.shown(now_ns)
        self._found = {name: found for name, found in self._found.items() if name in shown}
        if node not in shown and len(shown) >= self._size_max:
            return False
        self._found[node] = sentence, now_ns
        return shown.get(node) != sentence

    def clear(self, node: str) -> None:
        """Forget the problem: the node is connected, or nothing listens at its address."""
        self._found.pop(node, None)
