"""What may happen next to transactions: clients ask, time goes by, the disk refuses, the power goes."""

from collections.abc import Callable

from goqueue.broker.delivery.taking import PollWish
from goqueue.broker.partition import Placement
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from tests.simulation.doing import Doing
from tests.simulation.transactions.consumers import Consumer, Hand
from tests.simulation.transactions.model import Message, Outcome, Place, Transaction
from tests.simulation.transactions.producers import Batch, Incarnation, Plain, encoded, values
from tests.simulation.transactions.surroundings import BrokerSteps
from tests.simulation.transactions.world import TransactionWorld

NAMES = ("billing", "shipping", "audit")
GROUPS = ("readers", "movers")
GHOSTS = 6


class TransactionSteps:
    """Draws what happens, and tells the model what was asked and answered."""

    def __init__(self, world: TransactionWorld) -> None:
        self.world = world
        self.random = world.random
        self.current: dict[str, Incarnation] = {}
        self.ghosts: list[Incarnation] = []
        """Those that somebody has taken over from, and who may not know it."""
        self.plain: list[Plain] = []
        self.consumers = [Consumer(world, group, f"{group}-{number}") for group in GROUPS for number in range(2)]
        self.is_counted_by_broker = {name: self.random.random() < 0.3 for name in NAMES}
        self._actions: dict[Callable[[], None], float] = BrokerSteps(world).actions | {
            self.start: 10,
            self.begin: 3,
            self.send: 26,
            self.send_again: 5,
            self.join: 2,
            self.end: 22,
            self.say_again: 4,
            self.heartbeat: 3,
            self.haunt: 6,
            self.abort_by_hand: 1,
            self.offer: 8,
            self.send_plain: 8,
            self.join_group: 6,
            self.group_heartbeat: 3,
            self.poll: 14,
            self.settle: 5,
            self.pledge: 14,
            self.pledge_offset: 3,
        }

    def take(self) -> None:
        """One step."""
        self.world.tick += 1
        self.world.clock.advance(self.random.choice((0.000_1, 0.002, 0.02)))
        (action,) = self.random.choices(list(self._actions), list(self._actions.values()))
        self.world.tell(action.__name__)
        self.world.model.counts[action.__name__] += 1
        action()
        self.world.see()

    # --- producers with transactions ---

    def start(self) -> None:
        """A new process with a transactional id, whatever the one before does."""
        unfit = [name for name in NAMES if (one := self.current.get(name)) is None or one.is_over or one.is_lost]
        name = self.random.choice(unfit if unfit and self.random.random() < 0.9 else NAMES)
        before = self.current.get(name)
        if before is not None and before.is_starting and self.random.random() < 0.8:
            return
        if (
            before is not None
            and before.is_lost
            and not (before.is_over or before.is_starting)
            and self.random.random() < 0.5
        ):
            for one in (before, *self.ghosts):
                one.is_replaced |= one.name == name and one is not before
            before.start()
            return
        if before is not None:
            before.is_replaced = True
            self.ghosts = [*self.ghosts[1 - GHOSTS :], before]
        self.current[name] = Incarnation(self.world, name, self.random.choice((2, 20, 60)))
        self.current[name].is_replaced = any(one.name == name and one.is_starting for one in self.ghosts)
        self.current[name].start()

    def _fit(self) -> Incarnation | None:
        fit = [one for one in self.current.values() if one.is_fit and not one.is_starting]
        return self.random.choice(fit) if fit else None

    def begin(self) -> None:
        if (one := self._fit()) is not None and one.transaction is None:
            one.begin()

    def join(self) -> None:
        if (one := self._fit()) is not None and not (one.transaction and one.transaction.asked):
            one.join()

    def _messages(self, place: Place, *, delayed: bool) -> list[Message]:
        messages = []
        ahead_ns = round(self.random.choice((0, 1, 20, 300)) * NANOSECONDS)
        due_ns = self.world.clock.now_ns() + ahead_ns if delayed else None
        for _ in range(self.random.choice((1, 1, 2, 4, 7))):
            lane = self.random.choice((2, 2, 2, 2, 0, 4))
            value = values(self.world.numbers, lane) + bytes(self.random.choice((0, 20, 300, 900)))
            key = self.random.choice((None, b"a", b"b", b"c"))
            messages.append(Message(value, key, place, due_ns))
        place.messages += messages
        self.world.model.messages |= {one.value: one for one in messages}
        return messages

    def _place(self) -> Place | None:
        places = [place for place, _ in self.world.partitions()]
        return self.random.choice(places) if places else None

    def send(self) -> None:
        one, place = self._fit(), self._place()
        if one is None or place is None or (one.transaction is not None and one.transaction.asked):
            return
        if one.calls and self.random.random() < 0.8:  # what is sent at the same time may come in any order
            return
        messages = self._messages(place, delayed=self.random.random() < 0.2)
        one.send(place, messages, counted_by_broker=self.is_counted_by_broker[one.name])

    def send_again(self) -> None:
        one = self._fit()
        if one is not None and one.transaction is not None and not one.transaction.asked:
            batches = [batch for batch in one.batches[-4:] if batch.mark is not None]
            if batches:
                one.send_again(self.random.choice(batches))

    def end(self) -> None:
        """Mostly when all was answered."""
        one = self._fit()
        if one is None or one.transaction is None or (one.calls and self.random.random() < 0.9):
            return
        asked = one.transaction.asked
        if asked and self.random.random() < 0.8:
            one.end(self.random.choice(sorted(asked)))
        else:
            one.end("commit" if self.random.random() < 0.7 else "abort")

    def say_again(self) -> None:
        """An end whose answer may have been lost; whoever asks now, it is the same."""
        known = [one for one in self.world.model.transactions.values() if one.outcome is not None]
        if not known:
            return
        transaction = self.random.choice(known[-5:])
        assert transaction.outcome is not None
        self._ask_late(transaction, is_commit=transaction.outcome == "commit")

    def _ask_late(self, transaction: Transaction, *, is_commit: bool) -> None:
        coordinator = self.world.transactions
        before = coordinator.register.by_id.get(transaction.id)
        if before is not None and before.whose == transaction.whose:
            return
        self._unchanged(transaction, coordinator.end(transaction.whose, transaction.id, is_commit=is_commit))

    def _unchanged(self, transaction: Transaction, work: Work[object]) -> None:
        """A call with an epoch that is over is answered at once, and changes nothing."""
        register, name = self.world.transactions.register, transaction.id
        before = register.by_id.get(name)
        try:
            job = next(work)
        except StopIteration as end:
            outcome: Outcome = "commit" if end.value.state == "complete_commit" else "abort"
            transaction.has_ended(outcome, self.world.tick)
            self.world.model.counts["answered again"] += 1
        except GoQueueError as error:
            self.world.model.counts[f"late: {error.code}"] += 1
        else:
            raise AssertionError(f"a late call is refused at once: {transaction} waits for {job}")
        assert register.by_id.get(name) is before, f"a late call changes nothing: {before}"

    def heartbeat(self) -> None:
        if (one := self._fit()) is not None and one.whose is not None:
            try:
                self.world.transactions.heartbeat(one.whose, one.name)
            except GoQueueError as error:
                one.refused("heartbeat", one.whose, error)

    def haunt(self) -> None:
        """Somebody who was replaced goes on as before."""
        known = [one for one in self.ghosts if one.whose is not None]
        if not known:
            return
        ghost = self.random.choice(known)
        assert ghost.whose is not None
        record = self.world.transactions.register.by_id.get(ghost.name)
        if record is not None and record.whose == ghost.whose:
            if ghost.is_fit and not ghost.is_starting and ghost.calls == 0:  # it may finish what it has begun
                self._go_on_haunting(ghost)
            return
        transaction = self.world.model.transactions.get(ghost.whose) or Transaction(ghost.name, ghost.whose)
        coordinator = self.world.transactions
        kind = self.random.choice(("end", "begin", "join", "enlist"))
        if kind == "end":
            self._ask_late(transaction, is_commit=self.random.random() < 0.5)
        elif kind == "begin":
            self._unchanged(transaction, coordinator.begin(ghost.whose, ghost.name))
        elif kind == "join":
            self._unchanged(transaction, coordinator.join(ghost.whose, ghost.name, begin=True))
        else:
            work = coordinator.enlist(ghost.whose, (), name=ghost.name, groups=["late"], begin=True)
            self._unchanged(transaction, work)

    def _go_on_haunting(self, ghost: Incarnation) -> None:
        place = self._place()
        if ghost.transaction is not None and self.random.random() < 0.5:
            ghost.end("commit")
        elif place is not None and not (ghost.transaction and ghost.transaction.asked):
            messages = self._messages(place, delayed=False)
            ghost.send(place, messages, counted_by_broker=self.is_counted_by_broker[ghost.name])

    def abort_by_hand(self) -> None:
        """An operator does."""
        coordinator = self.world.transactions
        names = list(coordinator.register.opened)
        if not names:
            return
        record = coordinator.register.by_id[self.random.choice(names)]

        def done(_: object) -> None:
            known = self.world.model.transactions.get(record.whose)
            if known is not None:
                known.has_ended("abort", self.world.tick)

        work = coordinator.end(record.whose, record.id, is_commit=False, reason="it took too long")
        Doing(self.world, f"abort {record.whose} by hand", work, done).step()

    # --- plain producers ---

    def offer(self) -> None:
        place = self._place()
        partition = self.world.partition(place.where) if place is not None else None
        if place is None or partition is None:
            return
        messages, life = self._messages(place, delayed=False)[:3], self.world.lives

        def done(result: Placement | GoQueueError) -> None:
            assert self.world.lives == life, "who asked one process is not told by another"
            if isinstance(result, Placement):
                self.world.tell("  ", place, "has", result)
                for offset, message in enumerate(messages, result.first_offset):
                    message.offset, message.is_owed = offset, True
            elif not partition.log.is_closed:
                self.world.refused("a publish", result)

        batches = [encoded(Batch(None, [message], None)) for message in messages]  # type: ignore[arg-type]
        partition.offer([bytes(one) for one in batches], done)

    def send_plain(self) -> None:
        self.plain = [one for one in self.plain if not one.is_over]
        if len(self.plain) < 3:
            self._new_plain()
        elif self.plain:
            one = self.random.choice(self.plain)
            one.send(self._messages(one.place, delayed=False) if one.batch is None else [])

    def _new_plain(self) -> None:
        place = self._place()
        if place is None:
            return

        def told(result: int | GoQueueError) -> None:
            if isinstance(result, GoQueueError):
                self.world.refused("a producer id", result)
            else:
                self.world.model.new_producer(result)
                self.plain.append(Plain(self.world, place, result))

        self.world.attempt("a producer id", lambda: self.world.broker.producer_ids.give(told))

    # --- groups ---

    def join_group(self) -> None:
        consumer = self.random.choice(self.consumers)
        if not consumer.is_joining:
            consumer.join(self.random.choice((5, 60, 600)))

    def _member(self) -> Consumer | None:
        members = [one for one in self.consumers if one.member is not None]
        return self.random.choice(members) if members else None

    def group_heartbeat(self) -> None:
        if (one := self._member()) is not None:
            one.heartbeat()

    def poll(self) -> None:
        one, draw = self._member(), self.random.choice
        if one is not None and not one.is_polling:
            one.poll(PollWish(draw((1, 4, 20)), 1 << 20, draw((1, 30, 600)) * NANOSECONDS))

    def settle(self) -> None:
        one = self._member()
        if one is not None and (hand := self._hand(one)) is not None:
            offsets = set(self.random.sample(sorted(hand.left), self.random.randint(1, len(hand.left))))
            one.settle(self.random.choice(("ack", "ack", "nack")), hand, offsets)

    def _hand(self, consumer: Consumer) -> Hand | None:
        consumer.hands = [hand for hand in consumer.hands[-8:] if hand.left]
        return self.random.choice(consumer.hands) if consumer.hands else None

    def pledge(self) -> None:
        one, producer = self._member(), self._fit()
        if one is None or producer is None or (producer.transaction and producer.transaction.asked):
            return
        if (hand := self._hand(one)) is not None:
            offsets = set(self.random.sample(sorted(hand.left), self.random.randint(1, len(hand.left))))
            one.pledge(producer, hand, offsets, by_receipts=self.random.random() < 0.3)

    def pledge_offset(self) -> None:
        producer, places = self._fit(), self.world.partitions()
        if producer is None or not places or (producer.transaction and producer.transaction.asked):
            return
        place, partition = self.random.choice(places)
        offset = self.random.randint(0, partition.last_stable)
        self.random.choice(self.consumers).pledge_offset(producer, place, offset)
