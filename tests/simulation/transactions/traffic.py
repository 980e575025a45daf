"""Producers with transactional ids, single publishes, and the broker's work for transactions."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import Work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.transactions.records import TransactionMetadata
from goqueue.broker.transactions.shards import TransactionShard, TransactionShards
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, TopicBusy, TopicExists, TopicNotFound
from goqueue.limits import TRANSACTION_LOGS
from tests.simulation.task import Task
from tests.simulation.traffic import Actions, Traffic
from tests.simulation.transactions import checks
from tests.simulation.transactions.model import Message, Model, Outcome, Place, Transaction, Where
from tests.simulation.transactions.producers import Batch, Incarnation, encoded, values
from tests.simulation.world import World

TOPICS = {"payments": 2, "prices-paid": 1}
NAMES = ("billing", "shipping", "audit")
REPLACED_MAX = 6


class TransactionTraffic(Traffic):
    """Transactions over two topics."""

    topics = frozenset(TOPICS)
    caches = (".aborted", *(f"__transactions/{number}/snapshot" for number in range(TRANSACTION_LOGS)))
    expected_codes = ("broker_stopping", "log_closed", "topic_busy", "transaction_pending")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.mode = world.mode
        self.settings = TopicSettings(
            retention_bytes=self.random.choice((None, None, 6000)),
            cleanup=self.random.choice(("delete", "delete", "compact", "compact,delete")),
        )
        self.model = Model(counts=world.counts)
        self.decided: list[str] = []
        """The transactional ids whose transactions are to be carried out."""
        """To be kept a moment later."""
        self.recovery: Task | None = None
        self.is_recovered = False
        self.on_death: list[Callable[[], None]] = []
        """Called when the process has ended."""
        self.numbers = count()
        self.before: dict[str, Any] = {}
        """The register before the last stop."""
        self.current: dict[str, Incarnation] = {}
        self.replaced: list[Incarnation] = []
        """Those that another one has taken over from, and that may not know it."""
        self.is_counted_by_broker = {name: self.random.random() < 0.3 for name in NAMES}

    def actions(self) -> Actions:
        return {
            self.recover: 12,
            self.carry_out: 20,
            self.settle_all: 20,
            self.call_due: 8,
            self.deliver: 5,
            self.keep_up: 6,
            self.sweep: 2,
            self.roll: 2,
            self.snapshot: 2,
            self.forget_unused: 1,
            self.recreate: 1,
            self.come_to_rest: 1,
            self.start: 10,
            self.begin_transaction: 3,
            self.send: 26,
            self.send_again: 5,
            self.join: 2,
            self.end: 22,
            self.ask_again: 4,
            self.heartbeat: 3,
            self.publish_with_old_epoch: 6,
            self.abort_by_hand: 1,
            self.offer: 8,
        }

    @property
    def transactions(self) -> TransactionShards:
        return self.broker.transactions

    @property
    def records(self) -> dict[str, TransactionMetadata]:
        """All transactional ids."""
        return {name: record for shard in self.transactions for name, record in shard.register.by_id.items()}

    # --- lives ---

    def opened(self) -> None:
        self.decided = []
        for shard in self.transactions:
            shard.on_decided.subscribe(self.decided.append)
        self.transactions.on_opened.subscribe(self._reopened)
        self.is_recovered, self.recovery = False, None
        for name in TOPICS:
            if name not in self.broker.topics:
                self.create(name)
                self.store.flush()

    def _reopened(self, shard: TransactionShard) -> None:
        shard.on_decided.subscribe(self.decided.append)
        self.is_recovered = False  # what was decided there is carried out now
        checks.check_register(self)

    def recovered(self) -> None:
        checks.check_register(self)
        self.see()

    def before_step(self) -> None:
        self.clock.advance(self.random.choice((0.000_1, 0.002, 0.02)))

    def observe(self) -> None:
        self.see()

    def time_passed(self) -> None:
        if self.random.random() < 0.7:
            self.call_due()

    def before_stop(self) -> None:
        """Carry out the ends of transactions."""
        self.settle(rounds=8)

    def died(self, *, may_lose_answers: bool) -> None:
        for forget in self.on_death:
            forget()
        if may_lose_answers:
            self.model.forget_unsynced()

    def rest(self) -> None:
        """All transactions end, and everything committed is there."""
        for _ in range(4):
            self.clock.advance(400)
            self.call_due()
            for delivery in self.deliveries():
                self.once(f"delivery of {delivery.delays.name}", delivery.deliver, delivery.delays.delayed_log)
            self.settle(rounds=6)
        checks.check_rested(self)
        self.check()
        for record in self.records.values():
            known = self.model.transactions.get(record.last.whose) if record.last is not None else None
            if known is not None and record.last is not None:
                known.has_ended("commit" if record.last.state == "complete_commit" else "abort", self.tick)
        checks.check_all_or_nothing(self)
        self.before = self.records

    def after_rest(self) -> None:
        assert self.records == self.before, "the state is what the log says"
        self.settle(rounds=3)
        for place, partition in self.partitions():
            checks.check_caches(self, place, partition)
        self.check()

    def settle(self, rounds: int, *, sync: bool = True) -> None:
        """Let everything that is on its way end, as far as it does not wait for a time to come."""
        for _ in range(rounds):
            self.recover()
            self.world.commit()
            self.world.flush(sync=sync)
            self.carry_out()
            for task in list(self.world.tasks):
                while task.is_ready:
                    task.step()
            self.world.observe()

    # --- what the broker does by itself ---

    def create(self, name: str) -> None:
        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, GoQueueError):
                self.refused(f"the creation of {name}", result)

        self.broker.create_topic(TopicSpec(name=name, partitions=TOPICS[name], settings=self.settings), told)

    def recover(self) -> None:
        """Go on with what the start has left to do."""
        if self.recovery is None and not self.is_recovered:

            def over(_: object) -> None:
                self.is_recovered, self.recovery = True, None

            def refused(error: GoQueueError) -> None:
                self.recovery = None
                self.refused("the recovery", error)

            self.recovery = Task(self.world, "recovery", self.transactions.recover(), over, refused)
        if self.recovery is not None and self.recovery.is_ready:
            self.recovery.step()

    def carry_out(self) -> None:
        """Begin to end one of the decided transactions; they wait for the recovery."""
        if self.is_recovered and self.decided:
            name = self.decided.pop(self.random.randrange(len(self.decided)))
            self.world.begin(f"the end of {name}", self.transactions.of(name).completer.complete(name))

    def call_due(self) -> None:
        for rules in (*self.broker.groups, *self.transactions):
            rules.deadlines.call_due(rules.clock.now_ns())

    def once(self, name: str, begin: Callable[[], Any], partition: Partition) -> None:
        """Start work on a partition unless it runs already; a deleted topic may refuse it."""

        def refused(error: GoQueueError) -> None:
            if not partition.log.is_closed:
                self.refused(name, error)

        self.world.once(name, begin, refused=refused)

    def settle_all(self) -> None:
        """A quiet moment."""
        self.settle(rounds=2, sync=self.random.random() < 0.2)

    def deliver(self) -> None:
        deliveries = self.deliveries()
        if deliveries:
            delivery = self.random.choice(deliveries)
            self.once(f"delivery of {delivery.delays.name}", delivery.deliver, delivery.delays.delayed_log)

    def keep_up(self) -> None:
        """Maintain a topic, or the log of transactions."""
        known = self.broker.topics
        topics = [known[name] for name in (*TOPICS, "__transactions") if name in known]
        topic = self.random.choice(topics)
        partition = self.random.choice(topic.partitions)
        if topic.name in TOPICS:
            place = self.place(partition)
            place.was_compacted |= "compact" in topic.settings.cleanup
            place.may_expire |= topic.settings.retention_bytes is not None and "delete" in topic.settings.cleanup
        now_ns = self.clock.now_ns()
        begin = partial(maintain_partition, partition, topic.settings, self.disk, now_ns)
        self.once(f"upkeep of {partition.log.name}", begin, partition)

    def sweep(self) -> None:
        deliveries = self.deliveries()
        if deliveries:
            delays = self.random.choice(deliveries).delays
            self.once(f"sweep of {delays.name}", lambda: clean_delayed_log(delays, self.disk), delays.delayed_log)

    def roll(self) -> None:
        partitions = [partition for _, partition in self.partitions()]
        partitions += [delivery.delays.delayed_log for delivery in self.deliveries()]
        if partitions:
            self.attempt("a roll", self.random.choice(partitions).log.roll)

    def snapshot(self) -> None:
        for shard in self.transactions:
            shard.journal.snapshot()

    def forget_unused(self) -> None:
        """Time goes by for a week, or so it seems to the coordinator."""
        self.attempt("forgetting", self.transactions.forget_unused)

    def recreate(self) -> None:
        """A topic goes, and another one of its name comes, at once or later."""
        name, broker = self.random.choice(list(TOPICS)), self.broker
        with suppress(TopicBusy, TopicExists, TopicNotFound):  # it is under way already, or its logs are still to go
            if name in broker.topics:
                self.attempt(f"the deletion of {name}", lambda: broker.delete_topic(name, lambda _: None))
                if self.random.random() < 0.5:
                    return
                self.world.flush()
            self.attempt(f"the creation of {name}", lambda: self.create(name))

    def come_to_rest(self) -> None:
        """Where nothing fails, nothing is held back for longer than a transaction may last."""
        if self.is_faulty or any(partition.log.fence for _, partition in self.broker.partitions()):
            return
        for _ in range(3):
            self.clock.advance(400)
            self.call_due()
            self.settle(rounds=12)
        checks.check_rested(self)
        self.check()

    def deliveries(self) -> list[PartitionDelivery]:
        """Return those of the topics of this traffic."""
        names = {f"{name}/" for name in TOPICS}
        found = self.broker.delay_scheduler.deliveries()
        return [one for one in found if any(one.delays.name.startswith(name) for name in names)]

    # --- what readers see ---

    def place(self, partition: Partition) -> Place:
        topic = self.broker.topics[partition.topic]
        return self.model.place(Where(topic.name, partition.number, topic.created_ns))

    def partition(self, where: Where) -> Partition | None:
        """None where its topic is gone."""
        topic = self.broker.topics.get(where.topic)
        return topic.partitions[where.number] if topic is not None and topic.created_ns == where.created_ns else None

    def partitions(self) -> list[tuple[Place, Partition]]:
        """Those of clients that can be read."""
        topics = [topic for name, topic in self.broker.topics.items() if name in TOPICS]
        found = [partition for topic in topics for partition in topic.partitions]
        return [(self.place(one), one) for one in found if one.log.fence is None and not one.log.is_closed]

    def see(self) -> None:
        """Take note of what a reader sees next, and hold it against what was asked for."""
        for place, partition in self.partitions():
            checks.check_positions(partition)
            self.attempt(f"a look at {partition.log.name}", partial(checks.follow, self, place, partition))

    def check(self) -> None:
        for place, partition in self.partitions():
            self.attempt(f"a look at all of {partition.log.name}", partial(checks.check_place, self, place, partition))

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
            for one in (before, *self.replaced):
                one.is_replaced |= one.name == name and one is not before
            before.start()
            return
        if before is not None:
            before.is_replaced = True
            self.replaced = [*self.replaced[1 - REPLACED_MAX :], before]
        self.current[name] = Incarnation(self, name, self.random.choice((2, 20, 60)))
        self.current[name].is_replaced = any(one.name == name and one.is_starting for one in self.replaced)
        self.current[name].start()

    def _fit(self) -> Incarnation | None:
        fit = [one for one in self.current.values() if one.is_fit and not one.is_starting]
        return self.random.choice(fit) if fit else None

    def begin_transaction(self) -> None:
        if (one := self._fit()) is not None and one.transaction is None:
            one.begin()

    def join(self) -> None:
        if (one := self._fit()) is not None and not (one.transaction and one.transaction.asked):
            one.join()

    def _messages(self, place: Place, *, delayed: bool) -> list[Message]:
        messages = []
        ahead_ns = round(self.random.choice((0, 1, 20, 300)) * NANOSECONDS)
        due_ns = self.clock.now_ns() + ahead_ns if delayed else None
        for _ in range(self.random.choice((1, 1, 2, 4, 7))):
            lane = self.random.choice((2, 2, 2, 2, 0, 4))
            value = values(self.numbers, lane) + bytes(self.random.choice((0, 20, 300, 900)))
            key = self.random.choice((None, b"a", b"b", b"c"))
            messages.append(Message(value, key, place, due_ns))
        place.messages += messages
        self.model.messages |= {one.value: one for one in messages}
        return messages

    def _place(self) -> Place | None:
        places = [place for place, _ in self.partitions()]
        return self.random.choice(places) if places else None

    def send(self) -> None:
        one, place = self._fit(), self._place()
        if one is None or place is None or (one.transaction is not None and one.transaction.asked):
            return
        if one.calls and self.random.random() < 0.8:  # what is sent at the same time may come in any order
            return
        messages = self._messages(place, delayed=self.random.random() < 0.35)
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

    def ask_again(self) -> None:
        """An end whose answer may have been lost; a client that asks now, it is the same."""
        known = [one for one in self.model.transactions.values() if one.outcome is not None]
        if not known:
            return
        transaction = self.random.choice(known[-5:])
        assert transaction.outcome is not None
        self._ask_late(transaction, is_commit=transaction.outcome == "commit")

    def _ask_late(self, transaction: Transaction, *, is_commit: bool) -> None:
        coordinator = self.transactions.of(transaction.id)
        before = coordinator.register.by_id.get(transaction.id)
        if before is not None and before.whose == transaction.whose:
            return
        self._unchanged(transaction, coordinator.end(transaction.whose, transaction.id, is_commit=is_commit))

    def _unchanged(self, transaction: Transaction, work: Work[object]) -> None:
        """A call with an epoch that is over is answered at once, and changes nothing."""
        register, name = self.transactions.of(transaction.id).register, transaction.id
        before = register.by_id.get(name)
        try:
            job = next(work)
        except StopIteration as end:
            outcome: Outcome = "commit" if end.value.state == "complete_commit" else "abort"
            transaction.has_ended(outcome, self.tick)
            self.counts["answered again"] += 1
        except GoQueueError as error:
            self.counts[f"late: {error.code}"] += 1
        else:
            raise AssertionError(f"a late call is refused at once: {transaction} waits for {job}")
        assert register.by_id.get(name) is before, f"a late call changes nothing: {before}"

    def heartbeat(self) -> None:
        if (one := self._fit()) is not None and one.whose is not None:
            try:
                self.transactions.of(one.name).current(one.whose, one.name)
            except GoQueueError as error:
                one.refused("heartbeat", one.whose, error)

    def publish_with_old_epoch(self) -> None:
        """A client who was replaced goes on as before."""
        known = [one for one in self.replaced if one.whose is not None]
        if not known:
            return
        former = self.random.choice(known)
        assert former.whose is not None
        record = self.transactions.record(former.name)
        if record is not None and record.whose == former.whose:
            if former.is_fit and not former.is_starting and former.calls == 0:  # it may finish what it has begun
                self._continue_former(former)
            return
        transaction = self.model.transactions.get(former.whose) or Transaction(former.name, former.whose)
        coordinator = self.transactions.of(former.name)
        kind = self.random.choice(("end", "begin", "join", "enlist"))
        if kind == "end":
            self._ask_late(transaction, is_commit=self.random.random() < 0.5)
        elif kind == "begin":
            self._unchanged(transaction, coordinator.begin(former.whose, former.name))
        elif kind == "join":
            self._unchanged(transaction, coordinator.join(former.whose, former.name, begin=True))
        else:
            work = coordinator.enlist(former.whose, (), name=former.name, groups=["late"], begin=True)
            self._unchanged(transaction, work)

    def _continue_former(self, former: Incarnation) -> None:
        place = self._place()
        if former.transaction is not None and self.random.random() < 0.5:
            former.end("commit")
        elif place is not None and not (former.transaction and former.transaction.asked):
            messages = self._messages(place, delayed=False)
            former.send(place, messages, counted_by_broker=self.is_counted_by_broker[former.name])

    def abort_by_hand(self) -> None:
        """An operator does."""
        opened = list(self.transactions.open_ones())
        if not opened:
            return
        record = self.random.choice(opened)
        coordinator = self.transactions.of(record.id)

        def done(_: object) -> None:
            known = self.model.transactions.get(record.whose)
            if known is not None:
                known.has_ended("abort", self.tick)

        work = coordinator.end(record.whose, record.id, is_commit=False, reason="it took too long")
        self.world.begin(f"abort {record.whose} by hand", work, done)

    # --- publishes without a transaction ---

    def offer(self) -> None:
        place = self._place()
        partition = self.partition(place.where) if place is not None else None
        if place is None or partition is None:
            return
        messages, life = self._messages(place, delayed=False)[:3], self.lives

        def done(result: Placement | GoQueueError) -> None:
            assert self.lives == life, "who asked one process is not told by another"
            if isinstance(result, Placement):
                self.tell("  ", place, "has", result)
                for offset, message in enumerate(messages, result.first_offset):
                    message.offset, message.is_owed = offset, True
            elif not partition.log.is_closed:
                self.refused("a publish", result)

        batches = [encoded(Batch(None, [message], None)) for message in messages]  # type: ignore[arg-type]
        partition.offer([bytes(one) for one in batches], done)
