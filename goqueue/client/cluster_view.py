"""The view of a client on a cluster: which node leads which partition, by the answers of its nodes.

What must stay true: a leader that was learned is replaced only by one of the same or a later epoch. A leader that does
not answer is doubted, and not sent to, until a node names it or another one again.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from goqueue.client.address import Address, parse
from goqueue.client.cluster_metadata import ClusterMetadata
from goqueue.errors import GoQueueError, LeadershipLost, LeaderUnavailable, NotCoordinator, NotLeader, RequestInvalid

Place = tuple[str, int]
"""A topic and the number of a partition."""

UNKNOWN = object()
"""In place of a leader's address: messages for the partition wait until it is known."""


class Leader(NamedTuple):
    """The leader of a partition; without an address while there is none, or it is doubted."""

    address: Address | None
    epoch: int


class ClusterView:
    """The leaders of partitions, with the version of the metadata that they are from."""

    def __init__(self, *, secure: bool) -> None:
        self.version = 0
        """The newest version that a node has announced."""
        self.loaded = -1
        """That of the metadata that was loaded last."""
        self.has_metadata = True
        """False once a node refuses it: then any node is asked, and names the leaders."""
        self.leaders: dict[Place, Leader] = {}
        self.lanes: set[Address] = set()
        """The nodes that lead a partition, or have led one."""
        self.nodes: tuple[Address, ...] = ()
        self._secure = secure
        self._unled: set[str] = set()
        """Topics that are not in the metadata: any node is asked about them."""

    def leader(self, place: Place) -> Address | None:
        found = self.leaders.get(place)
        return None if found is None else found.address

    def lane(self, topic: str, partition: int) -> object:
        """Return the address of the leader, UNKNOWN, or None if any node takes messages for the topic."""
        return None if topic in self._unled else self.leader((topic, partition)) or UNKNOWN

    def is_outdated(self, topics: Collection[str]) -> bool:
        """Return whether a node has announced newer metadata."""
        return self.version > self.loaded and bool(topics)

    def is_incomplete(self, places: Iterable[Place]) -> bool:
        """Return whether the leader of a partition is missing."""
        return any(self.lane(*place) is UNKNOWN for place in places)

    def learn(self, metadata: ClusterMetadata, asked: Iterable[str]) -> set[Place]:
        """Take the answer to a request for these topics. Return the partitions whose leader is another one now."""
        if metadata.version < self.loaded:
            return set()  # of a node that is behind
        self.loaded = metadata.version
        self.version = max(self.version, metadata.version)
        addresses = {node.node: self._parsed(node.client_address) for node in metadata.nodes}
        self.nodes = tuple(address for address in addresses.values() if address is not None)
        changed = set()
        for topic in metadata.topics:
            for one in topic.partitions:
                place = topic.name, one.partition
                if self._put(place, addresses.get(one.leader or ""), one.leader_epoch):
                    changed.add(place)
        named = {topic.name for topic in metadata.topics}
        self._unled = (self._unled | set(asked)) - named
        return changed

    def heed(self, error: GoQueueError) -> Address | None:
        """Take what a refusal says about the leader of its partition. Return the node that answers, if it is known."""
        others = error.details.get("replica_addresses")
        for address in others if isinstance(others, list) else ():
            self._named(address)
        if isinstance(error, NotCoordinator):
            return self._named(error.details.get("coordinator_address"))
        topic, partition = error.details.get("topic"), error.details.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int):
            return None
        place = topic, partition
        if isinstance(error, NotLeader):
            epoch = error.details.get("leader_epoch")
            self._unled.discard(topic)
            address = self._named(error.details.get("leader_address"))
            self._put(place, address, epoch if isinstance(epoch, int) else 0)
            return self.leader(place)
        if isinstance(error, LeaderUnavailable | LeadershipLost):
            self._doubt(place)
        return None

    def doubt(self, address: Address) -> None:
        """Forget that a node leads, as it does not answer."""
        for place, found in list(self.leaders.items()):
            if found.address == address:
                self._doubt(place)

    def _doubt(self, place: Place) -> None:
        known = self.leaders.get(place)
        self.leaders[place] = Leader(None, 0 if known is None else known.epoch)

    def _put(self, place: Place, address: Address | None, epoch: int) -> bool:
        known = self.leaders.get(place)
        if known is not None and epoch < known.epoch:
            return False
        self.leaders[place] = found = Leader(address, epoch)
        if address is not None:
            self.lanes.add(address)
        return found != known

    def _named(self, text: object) -> Address | None:
        """Return the address of a node that another one has named."""
        address = self._parsed(text if isinstance(text, str) else None)
        if address is not None and address not in self.nodes:
            self.nodes += (address,)
        return address

    def _parsed(self, text: str | None) -> Address | None:
        """Return the address of a node, with TLS exactly if the client uses it: a key must not be sent in the open."""
        if not text:
            return None
        try:
            found = parse(text)
        except RequestInvalid:
            return None
        return Address(found.host, found.port, self._secure, found.base)
