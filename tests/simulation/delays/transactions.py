"""What may happen to transactions with delayed messages: they are begun, written to, decided, and brought to their end.

Whoever coordinates them outlives every crash here: what it has decided it goes on to say until that was answered.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

from goqueue import delay
from goqueue.broker.partition import Partition, Placement
from goqueue.broker.producers import MARK_NAME, Mark
from goqueue.broker.work import run
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames
from tests.simulation.delays.model import Begun, Scheduled
from tests.simulation.delays.world import PARTITIONS, DelayWorld

OPEN_MAX = 3  # in one delayed log


class TransactionSteps:
    """Each step is about one of them."""

    def __init__(self, world: DelayWorld, messages: Callable[[int], list[Scheduled]]) -> None:
        self.world = world
        self.random = world.random
        self._messages = messages
        self._producers = count(100)

    def schedule(self) -> None:
        """A batch, in one that is open or in a new one."""
        number = self.random.randrange(PARTITIONS)
        inbox = self._inbox(number)
        begun = self._undecided(number)
        if inbox is None or begun is None:
            return
        asked = self._messages(number)
        for one in asked:
            one.transaction = begun
        mark = Mark(begun.producer, 0, begun.sequence, len(asked))
        begun.sequence += len(asked)
        life = self.world.lives

        def told(result: Placement | GoQueueError) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            if isinstance(result, Placement):
                for offset, one in enumerate(asked, result.first_offset):
                    one.offset = offset
            else:
                begun.give_up()

        try:
            inbox.take(_batch(asked, mark), mark, told, is_transactional=True)
        except GoQueueError:
            begun.give_up()
            raise

    def _undecided(self, number: int) -> Begun | None:
        known = self.world.model.open(number)
        undecided = [one for one in known if not one.decision]
        if undecided and self.random.random() < 0.6:
            return self.random.choice(undecided)
        if len(known) >= OPEN_MAX:
            return None
        begun = Begun(number, next(self._producers))
        self.world.model.transactions.append(begun)
        return begun

    def end(self) -> None:
        """Decide about one, or say again what was decided."""
        self.end_one(self.random.randrange(PARTITIONS))

    def end_one(self, number: int) -> None:
        inbox, known = self._inbox(number), self.world.model.open(number)
        if inbox is None or not known:
            return
        begun = self.random.choice(known)
        begun.decision = begun.decision or self.random.choice(("commit", "commit", "abort"))
        self.world.tell("  ", begun)

        def told(error: GoQueueError | None) -> None:
            if error is None:
                begun.is_ended, begun.ended_ns = True, inbox.log.last_time
                self.world.model.counts[begun.decision] += 1

        inbox.end_transactions([begun.end], told)

    def _inbox(self, number: int) -> Partition | None:
        """None while it is not known what is open there."""
        inbox = self.world.postman(number).delays.inbox
        if inbox.open.held is not None:
            self.world.attempt("finding what is open", partial(self.world.find_open, number))
        if inbox.producers is None:
            self.world.attempt("loading producers", lambda: run(inbox.load_producers(self.world.disk)))
        return None if inbox.open.held is not None or inbox.producers is None else inbox


def _batch(asked: list[Scheduled], mark: Mark) -> Frames:
    headers = [[delay.deliver_at(min(one.dues))] for one in asked]
    headers[0].insert(0, (MARK_NAME, mark.encode()))
    contents = [
        frame.encode(one.value, None, frame.encode_headers(own), flags=frame.TRANSACTIONAL)
        for one, own in zip(asked, headers, strict=True)
    ]
    return scan.batch(bytearray(b"".join(contents)))
