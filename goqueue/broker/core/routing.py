"""The number of partitions by which a client has chosen the partitions of its messages.

Once partitions were added, the former partition of a key must not get more of its messages: groups would hand them out
beside newer ones of another partition.
"""

from dataclasses import dataclass

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import KnownBatches, ProducerMark
from goqueue.broker.core.topic import Topic
from goqueue.errors import PartitionCountStale
from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True)
class Routing:
    topic: Topic
    partitions: int

    def check(self, partition: Partition, mark: ProducerMark | None) -> None:
        """Raise if the number has changed. Call it right before the append, with nothing to wait for in between.

        A batch that was stored before the change is a duplicate, which is answered as such.
        """
        if self.partitions == len(self.topic.partitions):
            return
        known = KnownBatches((), 0)
        if mark is not None:
            assert partition.producers is not None, "the producers are loaded before a batch with a mark comes"
            known = partition.producers.look_up(mark)
            if not known.missing:
                return
        raise PartitionCountStale(
            f"topic {quoted(self.topic.name)} has {len(self.topic.partitions)} partitions, and the partitions of these "
            f"messages were chosen among {self.partitions}",
            hint="choose the partitions of keys anew; none of these messages was stored, unless `stored` counts some",
            topic=self.topic.name,
            partitions=len(self.topic.partitions),
            stored=sum(batch.count for batch in known.batches),
            pieces=[batch.piece for batch in known.batches],
        )
