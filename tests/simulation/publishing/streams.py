"""A well-behaved producer: at most five batches on their way, and what has no answer is sent again, in order."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.producer_checkpoint import load_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import run_work
from goqueue.errors import (
    GoQueueError,
    OperatorError,
    ProducerFenced,
    SequenceOutOfOrder,
    TransientError,
)
from goqueue.limits import MESSAGE_BYTES, PRODUCER_WINDOW, SEQUENCE_COUNT
from tests.simulation.publishing.model import Content, PartitionModel

if TYPE_CHECKING:
    from tests.simulation.publishing.traffic import PublishingTraffic


@dataclass(eq=False)
class Sent:
    """A batch, from its first sending to its answer."""

    mark: ProducerMark
    contents: list[Content]
    is_answered: bool = False
    awaited_in: int | None = None
    """The life of the broker whose answer is still to come, as far as the producer knows."""

    times: int = 0
    """How often it was sent."""

    def encode(self) -> bytearray:
        first, *rest = self.contents
        return bytearray(first.encode(self.mark) + b"".join(content.encode() for content in rest))


@dataclass(eq=False)
class Stream:
    """The batches that one producer sends to one partition."""

    world: "PublishingTraffic"
    topic: str
    owed: PartitionModel
    number: int
    producer: int
    sequence: int
    epoch: int = 0
    window: deque[Sent] = field(default_factory=deque)
    """The latest batches, the first of them without an answer unless all are answered."""
    last: Sent | None = None
    """The last batch of this epoch that was answered: from then on the broker knows what comes next."""

    def send(self, contents: list[Content]) -> None:
        """The next batch, if another one may be on its way; before it what was refused, or asked of one that died."""
        self._forget_answered()
        if any(not sent.is_answered and sent.awaited_in != self.world.lives for sent in self.window):
            self.retry()
            return
        if len(self.window) >= PRODUCER_WINDOW:
            return
        sent = Sent(ProducerMark(self.producer, self.epoch, self.sequence, len(contents)), contents)
        self.sequence = (self.sequence + len(contents)) % SEQUENCE_COUNT
        self.window.append(sent)
        self.owed.open.update(contents)
        self._publish(sent)

    def retry(self, *, answered_too: bool = False) -> None:
        """Send again what has no answer; or all that the broker has to know again."""
        if not answered_too:
            self._forget_answered()
        for sent in list(self.window):
            self.world.model.counts["batches sent again"] += 1
            if not self._publish(sent):
                return  # what comes behind it would leave a gap

    @property
    def is_settled(self) -> bool:
        return all(sent.is_answered for sent in self.window)

    def _forget_answered(self) -> None:
        while self.window and self.window[0].is_answered:
            self.window.popleft()

    def take_over(self) -> None:
        """Begin again with the next epoch; what was on its way may still be stored."""
        self.epoch, self.sequence, self.last = self.epoch + 1, 0, None
        self.window.clear()

    def skip(self, contents: list[Content]) -> None:
        """A batch that leaves a gap is refused, wherever the one before is known."""
        if self.is_settled and self._is_known():
            self._expect(
                SequenceOutOfOrder, ProducerMark(self.producer, self.epoch, self.sequence + 1, 1), contents[:1]
            )

    def publish_with_old_epoch(self, contents: list[Content]) -> None:
        """A producer that was replaced is refused."""
        if self.epoch and self._is_known():
            self._expect(ProducerFenced, ProducerMark(self.producer, self.epoch - 1, 0, len(contents)), contents)

    def _is_known(self) -> bool:
        """Return what retention has removed, its marks included, may be forgotten."""
        partition = self._partition()
        return partition is not None and self.last is not None and not self._has_expired(self.last, partition)

    def _has_expired(self, sent: Sent, partition: Partition) -> bool:
        return any(self.owed.offsets.get(content, partition.earliest) < partition.earliest for content in sent.contents)

    def _accept_gap(self, partition: Partition, refusal: SequenceOutOfOrder) -> None:
        """Begin anew where retention has removed what had no answer yet, or where a producer of which nothing is known,
        or nothing is left, does not begin with 0; nothing else excuses it."""
        is_unknown = self.last is None or self._has_expired(self.last, partition)
        expired = any(self._has_expired(one, partition) for one in self.window)
        assert expired or (is_unknown and refusal.details.get("forgotten", False)), (
            f"a producer that leaves no gap is not told of one: {refusal}"
        )
        self.take_over()

    def _expect(self, refusal: type[GoQueueError], mark: ProducerMark, contents: list[Content]) -> None:
        partition = self._partition()
        if partition is None or partition.log.fence is not None or mark.sequence >= SEQUENCE_COUNT:
            return
        try:
            self._load(partition)
            partition.publish(Sent(mark, contents).encode(), MESSAGE_BYTES, lambda _: None)
        except refusal:
            self.world.model.counts[f"{refusal.__name__}"] += 1
        except (OperatorError, TransientError) as error:
            self.world.refused("a batch that should be refused anyway", error)
        else:
            raise AssertionError(f"{refusal.__name__} for {mark}: {partition!r} took it")

    def _partition(self) -> Partition | None:
        topic = self.world.broker.topics.get(self.topic)
        model = self.world.model.topics.get(self.topic)
        if topic is None or model is None or self.owed not in model.partitions:
            return None
        return topic.partitions[self.number]

    def _load(self, partition: Partition) -> None:
        if partition.producers is None:
            run_work(load_producers(partition, self.world.disk))

    def _publish(self, sent: Sent) -> bool:
        """True if it is on its way."""
        partition = self._partition()
        if partition is None:
            return False
        life, model = self.world.lives, self.world.model

        def done(result: Placement | GoQueueError) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            model.waiting -= 1
            if isinstance(result, GoQueueError):
                sent.awaited_in = None
                model.counts["batches refused"] += 1
                if not partition.log.is_closed:
                    self.world.refused(f"a batch for {self.owed.name}", result)
                return
            self.world.tell("  ", sent.mark, "is at", result.pieces)
            self.owed.stored(sent.contents, result, at_once=sent.times == 1)
            model.counts["batches stored"] += 1
            model.counts["batches known again"] += result.duplicate
            model.counts["batches in pieces"] += len(result.pieces) > 1
            if self.world.random.random() >= self.world.answers_lost:
                sent.is_answered = True
                self.last = sent if sent.mark.epoch == self.epoch else self.last

        model.waiting += 1
        sent.awaited_in = life
        sent.times += 1
        self.world.tell("  ", sent.mark, "for", self.owed.name)
        try:
            self._load(partition)
            partition.publish(sent.encode(), MESSAGE_BYTES, done)
        except SequenceOutOfOrder as error:
            model.waiting -= 1
            self._accept_gap(partition, error)
            return False
        except (OperatorError, TransientError) as error:
            model.waiting -= 1
            sent.awaited_in = None
            self.world.refused(f"a batch for {self.owed.name}", error)
            return False
        return True
