"""Helpers for tests of groups: a team of members on a broker without threads."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, TypeVar

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.membership import JoinOptions
from goqueue.broker.groups.offsets import ResetOffset, ResetOptions, ResetTarget
from goqueue.broker.groups.poll import LeasedBatch, PollOptions, PollResult
from goqueue.broker.groups.records import Group, Range
from goqueue.broker.groups.settle_commands import SettleAction, SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage import frame
from goqueue.storage.frame import NORMAL
from goqueue.testing.disk import Keep
from tests.broker.brokers import Running, Told, frames_of, messages

GATHERED = 0.03
"""Seconds after which a rebalance that was called for has been held."""

ORDERS = PartitionRef("orders", 0)

TRANSACTION = TransactionId(7, 1)

_DRAWN_IN_A_LIFE = 1 << 17  # bits: more than the ids of any test here

T = TypeVar("T")


def nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


class Team:
    """One group. Whatever is asked is durable when it returns, unless its name begins with `ask`."""

    def __init__(
        self,
        running: Running | None = None,
        name: str = "team",
        partitions: int = 1,
        life: int = 0,
        **topic: Any,
    ) -> None:
        self.running = running or Running()
        self.name = name
        self.life = life
        if running is None:
            self.running.create("orders", partitions, **topic)
        if life:  # every broker begins with the same chance: what it draws is to be different from the lives before
            self.running.broker._chance(_DRAWN_IN_A_LIFE * life)

    @property
    def coordinator(self) -> GroupCoordinator:
        return self.running.broker.groups.of(self.name)

    @property
    def group(self) -> Group:
        found = self.coordinator.store.group(self.name)
        assert found is not None
        return found

    def cursor(self, ref: PartitionRef = ORDERS) -> Cursor:
        found = self.coordinator.store.cursor(self.name, ref)
        assert found is not None
        return found

    def due(self, seconds: float = 0.0) -> None:
        """Let so much time pass, and happen what is due then."""
        self.running.clock.advance(seconds)
        for coordinator in self.running.broker.groups:
            coordinator.deadlines.call_due(coordinator.clock.now_ns())
        self.running.flush()

    def do(self, work: Work[T]) -> T:
        return run_work(work, self.running.flush)

    def crash(self, keep: Keep = "synced") -> "Team":
        return Team(self.running.crash(keep), self.name, life=self.life + 1)

    def after_crash(self, keep: Keep) -> "Team":
        return Team(self.running.after_crash(keep), self.name, life=self.life + 1)

    def restart(self) -> "Team":
        return Team(self.running.restart(), self.name, life=self.life + 1)

    # --- topics ---

    def publish(
        self, *values: str, ref: PartitionRef = ORDERS, key: str | None = None, lanes: Iterable[int] = repeat(NORMAL)
    ) -> None:
        content = frames_of((value.encode() for value in values), None, None if key is None else key.encode(), lanes)
        told: Told[Any] = Told()
        self.running.partition(*ref).publish(bytearray(content), 1 << 20, told)
        self.running.flush()
        assert told.result

    def messages(self, topic: str = "orders.dlq", number: int = 0) -> list[frame.StoredMessage]:
        return messages(self.running.partition(topic, number))

    def expire(self, ref: PartitionRef = ORDERS) -> None:
        """Retention removes everything but what comes from now on."""
        self.running.partition(*ref).log.roll()
        self.running.flush()
        self.running.expire(0, *ref)

    # --- members ---

    def ask_to_join(
        self, client: str = "one", topics: Iterable[str] = ("orders",), session: float = 30.0, **options: Any
    ) -> Told[tuple[str, Group]]:
        told: Told[tuple[str, Group]] = Told()
        settings = {"in_flight_max": 1000, "session_ns": nanoseconds(session), **options}
        self.coordinator.membership.join(
            self.name, JoinOptions(topics=tuple(topics), client_id=client, **settings), told
        )
        return told

    def join(self, client: str = "one", topics: Iterable[str] = ("orders",), **options: Any) -> str:
        told = self.ask_to_join(client, topics, **options)
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

    def ask_to_delete(self) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.membership.delete(self.name, told)
        return told

    def delete(self) -> GoQueueError | None:
        told = self.ask_to_delete()
        self.running.flush()
        (result,) = told.all
        return result

    def alter(self, **changes: Any) -> None:
        """Change delivery settings of the group."""
        told: Told[GoQueueError | None] = Told()
        self.coordinator.membership.alter(self.name, changes, told)
        self.running.flush()
        assert told.result is None

    def heartbeat(self, member: str, generation: int | None = None) -> bool:
        """Return True when the member must revoke or learn something."""
        return self.coordinator.membership.heartbeat(self.name, member, generation)[1]

    def watch(self, member: str) -> list[str]:
        """Return a list that has the member's name once a waiting poll of it is woken."""
        woken: list[str] = []
        self.coordinator.membership.session(self.name, member).waiting[lambda: woken.append(member)] = None
        return woken

    def revoke(self, member: str, *refs: PartitionRef, generation: int | None = None) -> Group:
        told: Told[tuple[str, Group]] = Told()
        self.coordinator.membership.revoke(self.name, member, generation, refs, told)
        self.running.flush()
        return told.result[1]

    def has(self, member: str) -> list[PartitionRef]:
        return self.group.partitions_to_process(member)

    # --- messages ---

    def poll(self, member: str, messages: int = 100, **options: Any) -> list[LeasedBatch]:
        return self.ask_poll(member, messages, **options).batches

    def ask_poll(self, member: str, messages: int = 100, **options: Any) -> PollResult:
        return self.do(self.polling(member, messages, **options))

    def polling(
        self,
        member: str,
        messages: int = 100,
        *,
        visibility: float | None = 30.0,
        generation: int | None = None,
        bytes_max: int = 1 << 20,
    ) -> Work[PollResult]:
        options = PollOptions(messages, bytes_max, None if visibility is None else nanoseconds(visibility))
        return self.coordinator.polling.poll(self.name, member, generation, options)

    def take(self, member: str, messages: int = 100, **options: Any) -> LeasedBatch:
        """The only lease of a poll."""
        (batch,) = self.poll(member, messages, **options)
        return batch

    def command(
        self,
        action: SettleAction,
        batch: LeasedBatch,
        ranges: Iterable[Range] = (),
        *,
        delay: float | None = None,
        **more: Any,
    ) -> SettleCommand:
        """About all of the lease, unless ranges are given."""
        grant = batch.grant
        delay_ns = None if delay is None else nanoseconds(delay)
        said = tuple(ranges) or ((grant.first, grant.end),)
        return SettleCommand(action, batch.topic, batch.partition, grant.id, said, delay_ns, **more)

    def ask_to_settle(self, member: str, *commands: SettleCommand) -> Told[list[SettleCommandReply]]:
        told: Told[list[SettleCommandReply]] = Told()
        self.coordinator.settlement.settle(self.name, member, commands, told)
        return told

    def settle(
        self,
        action: SettleAction,
        batch: LeasedBatch,
        *ranges: Range,
        delay: float | None = None,
        reason: str | None = None,
        timeout: float = 0.0,
        member: str | None = None,
    ) -> SettleCommandResult:
        """Settle a lease, by default as its member; raise what was refused."""
        command = self.command(action, batch, ranges, delay=delay, reason=reason, timeout_ns=nanoseconds(timeout))
        told = self.ask_to_settle(member or batch.grant.member, command)
        self.running.flush()
        (reply,) = told.result
        if isinstance(reply, GoQueueError):
            raise reply
        return reply

    def ack(self, batch: LeasedBatch, *ranges: Range, member: str | None = None) -> SettleCommandResult:
        return self.settle("ack", batch, *ranges, member=member)

    def nack(
        self, batch: LeasedBatch, *ranges: Range, delay: float | None = None, reason: str | None = None
    ) -> SettleCommandResult:
        return self.settle("nack", batch, *ranges, delay=delay, reason=reason)

    def move_dead_letters(self) -> None:
        self.do(self.coordinator.dead_letter_mover.move_all())

    # --- offsets ---

    def ask_to_commit(
        self, member: str | None, offset: int, ref: PartitionRef = ORDERS, generation: int | None = None
    ) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.offsets.commit(self.name, member, generation, {ref: offset}, told)
        return told

    def commit(
        self, member: str | None, offset: int, ref: PartitionRef = ORDERS, generation: int | None = None
    ) -> None:
        told = self.ask_to_commit(member, offset, ref, generation)
        self.running.flush()
        assert told.result is None

    # --- transactions ---

    def ask_to_ack_in_transaction(
        self, member: str, *commands: SettleCommand, transaction_id: TransactionId = TRANSACTION
    ) -> Told[list[SettleCommandReply]]:
        told: Told[list[SettleCommandReply]] = Told()
        self.coordinator.transaction_acks.acks(self.name, member, commands, transaction_id, told)
        return told

    def ack_in_transaction(
        self, batch: LeasedBatch, *ranges: Range, transaction_id: TransactionId = TRANSACTION, member: str | None = None
    ) -> None:
        """Acknowledge in a transaction; raises what was refused."""
        said = self.command("ack", batch, ranges)
        told = self.ask_to_ack_in_transaction(member or batch.grant.member, said, transaction_id=transaction_id)
        self.running.flush()
        (reply,) = told.result
        if isinstance(reply, GoQueueError):
            raise reply

    def commit_in_transaction(
        self,
        offset: int,
        ref: PartitionRef = ORDERS,
        *,
        member: str | None = None,
        generation: int | None = None,
        transaction_id: TransactionId = TRANSACTION,
    ) -> None:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.transaction_acks.offsets(self.name, member, generation, {ref: offset}, transaction_id, told)
        self.running.flush()
        assert told.result is None

    def ask_to_end_transaction(
        self, *, is_commit: bool, failed: bool = True, transaction_id: TransactionId = TRANSACTION
    ) -> Told[GoQueueError | None]:
        told: Told[GoQueueError | None] = Told()
        self.coordinator.transaction_acks.end_transaction(self.name, transaction_id, is_commit, failed, told)
        return told

    def end_transaction(
        self, *, is_commit: bool, failed: bool = True, transaction_id: TransactionId = TRANSACTION
    ) -> None:
        told = self.ask_to_end_transaction(is_commit=is_commit, failed=failed, transaction_id=transaction_id)
        self.running.flush()
        assert told.result is None

    def reset(
        self,
        to: ResetTarget,
        value: int = 0,
        *,
        topic: str = "orders",
        partitions: tuple[int, ...] | None = None,
        is_dry: bool = False,
    ) -> list[ResetOffset]:
        options = ResetOptions(topic, to, value, partitions, is_dry)
        return self.do(self.coordinator.offsets.reset(self.name, options))


def team_with(*values: str, partitions: int = 1, **options: Any) -> tuple[Team, str]:
    """A group with one member, and messages in its first partition."""
    team = Team(partitions=partitions)
    if values:
        team.publish(*values)
    return team, team.join(**options)


def offsets_of(batch: LeasedBatch) -> list[int]:
    return [message.offset for message in decoded(batch)]


def values_of(batches: Iterable[LeasedBatch]) -> list[str]:
    """Return the delivered values, lease by lease."""
    return [message.value.decode() for batch in batches for message in decoded(batch)]


def decoded(batch: LeasedBatch) -> list[frame.StoredMessage]:
    """As clients do it: control records are no messages."""
    buffers = batch.content.buffers
    found = [frame.decode(buffer, position) for buffer in buffers for position in frame.walk(buffer)]
    return [message for message in found if not message.flags & frame.CONTROL]
