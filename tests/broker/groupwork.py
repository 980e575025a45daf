"""What the tests of groups need to speak briefly: members of one group at work on a broker without threads."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, TypeVar

from goqueue.broker.delivery.changes import Place, Range
from goqueue.broker.delivery.claims import Statement, Verb
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.settlement import Outcome, Verdict
from goqueue.broker.delivery.taking import Handed, PollWish, Portion
from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.membership import Wish
from goqueue.broker.groups.offsets import Reset, ResetWish, Target
from goqueue.broker.transactions.whose import Whose
from goqueue.broker.work import Work, run
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage import frame
from goqueue.storage.frame import NORMAL
from goqueue.storage.retention import plan_expiry
from goqueue.testing.disk import Keep
from tests.broker.brokers import Running, Told, frames_of, messages

GATHERED = 0.03
"""Seconds after which a rebalance that was called for has been held."""

ORDERS = ("orders", 0)

TRANSACTION = Whose(7, 1)

_DRAWN_IN_A_LIFE = 1 << 17  # bits: more than the ids of any test here

T = TypeVar("T")


def nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


class Team:
    """One group. Whatever is asked is durable when it returns, unless its name begins with `ask`."""

    def __init__(self, running: Running | None = None, name: str = "team", partitions: int = 1, life: int = 0) -> None:
        self.running = running or Running()
        self.name = name
        self.life = life
        if running is None:
            self.running.create("orders", partitions)
        if life:  # every broker begins with the same chance: what it draws is to be different from the lives before
            self.running.broker._chance(_DRAWN_IN_A_LIFE * life)

    @property
    def coordinator(self) -> Coordinator:
        return self.running.broker.coordinator

    @property
    def group(self) -> Group:
        found = self.coordinator.ledger.group(self.name)
        assert found is not None
        return found

    def cursor(self, place: Place = ORDERS) -> Cursor:
        found = self.coordinator.ledger.cursor(self.name, place)
        assert found is not None
        return found

    def due(self, seconds: float = 0.0) -> None:
        """Let so much time pass, and happen what is due then."""
        self.running.clock.advance(seconds)
        self.coordinator.deadlines.call_due(self.coordinator.clock.now_ns())
        self.running.flush()

    def do(self, work: Work[T]) -> T:
        return run(work, self.running.flush)

    def crash(self, keep: Keep = "synced") -> "Team":
        return Team(self.running.crash(keep), self.name, life=self.life + 1)

    def restart(self) -> "Team":
        return Team(self.running.restart(), self.name, life=self.life + 1)

    # --- topics ---

    def publish(
        self, *values: str, place: Place = ORDERS, key: str | None = None, lanes: Iterable[int] = repeat(NORMAL)
    ) -> None:
        content = frames_of((value.encode() for value in values), None, None if key is None else key.encode(), lanes)
        told: Told[Any] = Told()
        self.running.partition(*place).publish(bytearray(content), 1 << 20, told)
        self.running.flush()
        assert told.result

    def messages(self, topic: str = "orders.dlq", number: int = 0) -> list[frame.Message]:
        return messages(self.running.partition(topic, number))

    def expire(self, place: Place = ORDERS) -> None:
        """Retention removes everything but what comes from now on."""
        log = self.running.partition(*place).log
        log.roll()
        self.running.flush()
        job = plan_expiry(log, self.running.disk, bytes_kept=0)
        job.run()
        job.apply()

    # --- members ---

    def ask_to_join(
        self, client: str = "one", topics: Iterable[str] = ("orders",), session: float = 30.0, **wish: Any
    ) -> Told[tuple[str, Group]]:
        told: Told[tuple[str, Group]] = Told()
        wished = {"in_flight_max": 1000, "session_ns": nanoseconds(session), **wish}
        self.coordinator.membership.join(self.name, Wish(topics=tuple(topics), client_id=client, **wished), told)
        return told

    def join(self, client: str = "one", topics: Iterable[str] = ("orders",), **wish: Any) -> str:
        told = self.ask_to_join(client, topics, **wish)
        self.due(GATHERED)
        return told.result[0]

    def ask_to_leave(self, member: str) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.membership.leave(self.name, member, told)
        return told

    def leave(self, member: str) -> None:
        told = self.ask_to_leave(member)
        self.due(GATHERED)
        assert told.result is None

    def heartbeat(self, member: str, generation: int | None = None) -> bool:
        """Whether it has something to do, or to learn."""
        return self.coordinator.membership.heartbeat(self.name, member, generation)[1]

    def revoke(self, member: str, *places: Place, generation: int | None = None) -> Group:
        told: Told[tuple[str, Group]] = Told()
        self.coordinator.membership.give_up(self.name, member, generation, places, told)
        self.running.flush()
        return told.result[1]

    def has(self, member: str) -> list[Place]:
        return self.group.to_work_on(member)

    # --- messages ---

    def poll(
        self,
        member: str,
        messages: int = 100,
        *,
        visibility: float = 30.0,
        generation: int | None = None,
        bytes_max: int = 1 << 20,
    ) -> list[Portion]:
        return self.ask_poll(member, messages, visibility, generation, bytes_max).portions

    def ask_poll(
        self,
        member: str,
        messages: int = 100,
        visibility: float = 30.0,
        generation: int | None = None,
        bytes_max: int = 1 << 20,
    ) -> Handed:
        return self.do(self.polling(member, messages, visibility, generation, bytes_max))

    def polling(
        self,
        member: str,
        messages: int = 100,
        visibility: float = 30.0,
        generation: int | None = None,
        bytes_max: int = 1 << 20,
    ) -> Work[Handed]:
        wish = PollWish(messages, bytes_max, nanoseconds(visibility))
        return self.coordinator.polls.poll(self.name, member, generation, wish)

    def take(self, member: str, messages: int = 100, **options: Any) -> Portion:
        """The only lease of a poll."""
        (portion,) = self.poll(member, messages, **options)
        return portion

    def statement(
        self, verb: Verb, portion: Portion, ranges: Iterable[Range] = (), *, delay: float | None = None, **more: Any
    ) -> Statement:
        """About all of the lease, unless ranges are given."""
        grant = portion.grant
        delay_ns = None if delay is None else nanoseconds(delay)
        said = tuple(ranges) or ((grant.first, grant.end),)
        return Statement(verb, portion.topic, portion.partition, grant.id, said, delay_ns, **more)

    def ask_to_settle(self, member: str, *statements: Statement) -> Told[list[Verdict]]:
        told: Told[list[Verdict]] = Told()
        self.coordinator.settlement.settle(self.name, member, statements, told)
        return told

    def say(
        self,
        verb: Verb,
        portion: Portion,
        *ranges: Range,
        delay: float | None = None,
        reason: str | None = None,
        timeout: float = 0.0,
        member: str | None = None,
    ) -> Outcome:
        """What came of a statement of who has the lease, or of somebody else; raises what was refused."""
        statement = self.statement(verb, portion, ranges, delay=delay, reason=reason, timeout_ns=nanoseconds(timeout))
        told = self.ask_to_settle(member or portion.grant.member, statement)
        self.running.flush()
        (verdict,) = told.result
        if isinstance(verdict, GoQueueError):
            raise verdict
        return verdict

    def ack(self, portion: Portion, *ranges: Range, member: str | None = None) -> Outcome:
        return self.say("ack", portion, *ranges, member=member)

    def nack(self, portion: Portion, *ranges: Range, delay: float | None = None, reason: str | None = None) -> Outcome:
        return self.say("nack", portion, *ranges, delay=delay, reason=reason)

    def carry(self) -> None:
        self.do(self.coordinator.undertaker.carry())

    # --- offsets ---

    def ask_to_commit(
        self, member: str, offset: int, place: Place = ORDERS, generation: int | None = None
    ) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.offsets.commit(self.name, member, generation, {place: offset}, told)
        return told

    def commit(self, member: str, offset: int, place: Place = ORDERS, generation: int | None = None) -> None:
        told = self.ask_to_commit(member, offset, place, generation)
        self.running.flush()
        assert told.result is None

    # --- transactions ---

    def ask_to_pledge(self, member: str, *statements: Statement, whose: Whose = TRANSACTION) -> Told[list[Verdict]]:
        told: Told[list[Verdict]] = Told()
        self.coordinator.pledges.acks(self.name, member, statements, whose, told)
        return told

    def pledge(self, portion: Portion, *ranges: Range, whose: Whose = TRANSACTION, member: str | None = None) -> None:
        """Acknowledge in a transaction; raises what was refused."""
        said = self.statement("ack", portion, ranges)
        told = self.ask_to_pledge(member or portion.grant.member, said, whose=whose)
        self.running.flush()
        (verdict,) = told.result
        if isinstance(verdict, GoQueueError):
            raise verdict

    def pledge_offset(
        self,
        offset: int,
        place: Place = ORDERS,
        *,
        member: str | None = None,
        generation: int | None = None,
        whose: Whose = TRANSACTION,
    ) -> None:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.pledges.offsets(self.name, member, generation, {place: offset}, whose, told)
        self.running.flush()
        assert told.result is None

    def ask_to_redeem(
        self, *, is_commit: bool, failed: bool = True, whose: Whose = TRANSACTION
    ) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.pledges.redeem(self.name, whose, is_commit, failed, told)
        return told

    def redeem(self, *, is_commit: bool, failed: bool = True, whose: Whose = TRANSACTION) -> None:
        told = self.ask_to_redeem(is_commit=is_commit, failed=failed, whose=whose)
        self.running.flush()
        assert told.result is None

    def reset(
        self,
        to: Target,
        value: int = 0,
        *,
        topic: str = "orders",
        partitions: tuple[int, ...] | None = None,
        is_dry: bool = False,
    ) -> list[Reset]:
        wish = ResetWish(topic, to, value, partitions, is_dry)
        return self.do(self.coordinator.offsets.reset(self.name, wish))


def offsets_of(portion: Portion) -> list[int]:
    return [message.offset for message in decoded(portion)]


def values_of(portions: Iterable[Portion]) -> list[str]:
    """What was handed out, lease by lease."""
    return [message.value.decode() for portion in portions for message in decoded(portion)]


def decoded(portion: Portion) -> list[frame.Message]:
    """As clients do it: control records are no messages."""
    buffers = portion.content.buffers
    found = [frame.decode(buffer, position) for buffer in buffers for position in frame.walk(buffer)]
    return [message for message in found if not message.flags & frame.CONTROL]
