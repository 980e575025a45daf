"""Delivery as a whole against a model that remembers each message by itself, through crashes and all that may happen.

The model does not foresee what a poll hands out; it judges it, and takes note.
"""

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.poll import LeasedBatch
from goqueue.broker.groups.records import CursorSnapshot, RetryState, decode_group_record, encode_group_record
from goqueue.broker.groups.settle_commands import SettleAction
from goqueue.errors import LeaseExpired, TransactionPending
from goqueue.limits import RETRIES_MAX
from goqueue.storage import frame
from goqueue.storage.frame import NORMAL
from goqueue.storage.lanes import NO_LANE
from goqueue.testing.disk import Keep
from tests.broker.brokers import Running
from tests.broker.groupwork import GATHERED, Team, nanoseconds, offsets_of

PLACES: tuple[PartitionRef, ...] = (PartitionRef("orders", 0), PartitionRef("orders", 1))
SESSION = 10.0
IN_FLIGHT = 8
TRANSACTIONS = (TransactionId(7, 1), TransactionId(8, 0))

# Mostly one priority, as in most topics; now and then another, or all of them.
LANES_PUBLISHED = st.one_of(
    st.integers(1, 6).map(lambda count: [NORMAL] * count), st.lists(st.sampled_from(range(5)), min_size=1, max_size=6)
)

State = Literal["new", "done", "waiting", "leased", "moving", "transactional"]


@dataclass
class Known:
    """One message, as the model has it."""

    state: State = "new"
    lane: int = NORMAL
    deliveries: int = 0
    failures: int = 0
    due_ns: int = 0
    lease: str = ""
    transaction_id: TransactionId | None = None


@dataclass
class ModelLease:
    """A lease, as the model has it."""

    member: str
    batch: LeasedBatch
    until_ns: int


class PartitionModel:
    """The expected state of one partition."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.leases: dict[str, ModelLease] = {}
        self.lost = 0
        self.is_open = False

    def of(self, lease: str) -> list[int]:
        return [offset for offset, one in enumerate(self.known) if one.state == "leased" and one.lease == lease]

    def settle(self, offset: int, state: State, due_ns: int = 0, failed: bool = False) -> None:
        one = self.known[offset]
        if failed and one.failures == RETRIES_MAX:
            state = "moving"
        again = Known("waiting", one.lane, one.deliveries, one.failures + failed, due_ns)
        self.known[offset] = again if state == "waiting" else Known(state, one.lane)
        self.leases = {name: leased for name, leased in self.leases.items() if self.of(name)}

    def end(self, lease: str, now_ns: int, failed: bool) -> None:
        """End a lease that was released or has expired."""
        for offset in self.of(lease):
            self.settle(offset, "waiting", now_ns, failed)

    def commit(self, floor: int, unseen_from: int = 2**63) -> None:
        """With separate lanes, undelivered messages from an offset on stay new."""
        for offset in range(floor):
            is_unseen = self.known[offset].state == "new" and offset >= unseen_from
            if self.known[offset].state not in ("done", "moving", "transactional") and not is_unseen:
                self.settle(offset, "done")

    def ack_in_transaction(self, offset: int, transaction_id: TransactionId) -> None:
        one = self.known[offset]
        self.known[offset] = Known(
            "transactional", one.lane, one.deliveries, one.failures, transaction_id=transaction_id
        )
        self.leases = {name: leased for name, leased in self.leases.items() if self.of(name)}

    def ack_below_in_transaction(self, end: int, transaction_id: TransactionId, unseen_from: int) -> None:
        for offset in range(end):
            state = self.known[offset].state
            if state in ("waiting", "leased") or (state == "new" and offset < unseen_from):
                self.ack_in_transaction(offset, transaction_id)

    def end_transaction(
        self, transaction_id: TransactionId, now_ns: int, *, is_commit: bool, failed: bool, is_laned: bool
    ) -> None:
        """Go backwards: an undelivered message is new again when everything behind it is."""
        for offset in range(len(self.known) - 1, -1, -1):
            one = self.known[offset]
            is_last = not is_laned and all(other.state == "new" for other in self.known[offset + 1 :])
            if one.transaction_id != transaction_id:
                continue
            if is_commit:
                self.settle(offset, "done")
            elif one.deliveries:
                self.settle(offset, "waiting", now_ns, failed)
            else:
                self.known[offset] = Known("new" if is_last else "waiting", one.lane)

    def reset(self, floor: int) -> None:
        self.is_open = True
        self.leases.clear()
        self.known = [Known("done" if offset < floor else "new", one.lane) for offset, one in enumerate(self.known)]


class Delivery(RuleBasedStateMachine):
    """Up to three members of a group read two partitions."""

    def __init__(self) -> None:
        super().__init__()
        running = Running()
        running.create("orders", 2)
        self.team = Team(running)
        self.models = {ref: PartitionModel() for ref in PLACES}
        self.members: list[str] = []
        self.published = 0
        self.handed: list[LeasedBatch] = []
        """All leases, those that are gone too."""

    @initialize(lanes=st.lists(st.sampled_from(range(5)), max_size=12))
    def something_is_there_already(self, lanes: list[int]) -> None:
        self.join("a")
        if lanes:
            self.publish(PLACES[0], lanes)

    @property
    def now_ns(self) -> int:
        return self.team.coordinator.clock.now_ns()

    def leased(self) -> list[tuple[PartitionRef, ModelLease]]:
        return [(ref, leased) for ref, model in self.models.items() for leased in model.leases.values()]

    # --- members ---

    @precondition(lambda self: len(self.members) < 3)
    @rule(client=st.sampled_from("abc"))
    def join(self, client: str) -> None:
        told = self.team.ask_to_join(client, session=SESSION, in_flight_max=IN_FLIGHT)
        self.time_passes(GATHERED)
        self.members.append(told.result[0])

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = self.some_member(data)
        told = self.team.ask_to_leave(member)
        self.members.remove(member)
        at_ns = self.now_ns + nanoseconds(GATHERED)
        for ref, leased in self.leased():
            if leased.member == member:
                self.models[ref].end(leased.batch.grant.id, at_ns, failed=False)
        self.time_passes(GATHERED)
        assert told.result is None

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        member = self.some_member(data)
        for name in self.members:
            self.team.heartbeat(name)
        self.members.remove(member)
        for _ in range(2):
            self.time_passes(SESSION / 2)
        at_ns = self.now_ns + nanoseconds(GATHERED)
        for ref, leased in self.leased():
            if leased.member == member:
                self.models[ref].end(leased.batch.grant.id, at_ns, failed=True)
        self.time_passes(GATHERED)
        assert member not in self.team.group.members

    def some_member(self, data: st.DataObject) -> str:
        return self.members[data.draw(st.integers(0, len(self.members) - 1))]

    # --- messages ---

    @rule(ref=st.sampled_from(PLACES), lanes=LANES_PUBLISHED)
    def publish(self, ref: PartitionRef, lanes: list[int]) -> None:
        values = (f"message-{self.published + number}" for number in range(len(lanes)))
        self.team.publish(*values, ref=ref, lanes=lanes)
        self.published += len(lanes)
        self.models[ref].known += [Known(lane=lane) for lane in lanes]

    @precondition(lambda self: self.members)
    @rule(data=st.data(), most=st.integers(1, 5), visibility=st.sampled_from([1.0, 4.0, 30.0]))
    def poll(self, data: st.DataObject, most: int, visibility: float) -> None:
        member = self.some_member(data)
        batches = self.team.poll(member, most, visibility=visibility)
        self.team.running.flush()
        for ref in PLACES:
            self.note_what_was_lost(ref)
        in_hand = sum(len(self.models[ref].of(leased.batch.grant.id)) for ref, leased in self.leased_to(member))
        is_lone_in_hand = any(
            self.models[ref].known[offset].failures == RETRIES_MAX
            for ref, leased in self.leased_to(member)
            for offset in self.models[ref].of(leased.batch.grant.id)
        )
        available = self.available(member)
        handed = [(batch, offset) for batch in batches for offset in offsets_of(batch)]
        assert len(handed) <= min(most, IN_FLIGHT - in_hand)
        if any(batch.grant.failures == RETRIES_MAX for batch in batches):
            assert len(handed) == 1
            assert not in_hand
        assert not (is_lone_in_hand and handed)
        if available and not in_hand:
            assert handed, "there was something to be had"
        self.handed += batches
        for batch, offset in handed:
            ref, grant = PartitionRef(batch.topic, batch.partition), batch.grant
            one = self.models[ref].known[offset]
            assert ref in self.team.has(member)
            assert one.state == "new" or (one.state == "waiting" and one.due_ns <= self.now_ns), one
            assert (grant.deliveries, grant.failures) == (one.deliveries + 1, one.failures)
            assert grant.lane == one.lane
            self.models[ref].known[offset] = Known("leased", one.lane, grant.deliveries, grant.failures, 0, grant.id)
            until_ns = self.now_ns + nanoseconds(visibility)
            self.models[ref].leases[grant.id] = ModelLease(member, batch, until_ns)

    def leased_to(self, member: str) -> list[tuple[PartitionRef, ModelLease]]:
        return [(ref, leased) for ref, leased in self.leased() if leased.member == member]

    def available(self, member: str) -> bool:
        return any(
            one.state == "new" or (one.state == "waiting" and one.due_ns <= self.now_ns)
            for ref in self.team.has(member)
            for one in self.models[ref].known
        )

    def note_what_was_lost(self, ref: PartitionRef) -> None:
        """With what retention has removed a poll says so, all at once."""
        model, cursor = self.models[ref], self.team.coordinator.store.cursor("team", ref)
        earliest = self.team.running.partition(*ref).earliest
        if cursor is not None and cursor.lost != model.lost:
            lost = sum(one.state in ("new", "waiting") for one in model.known[:earliest])
            is_laned = len({one.lane for one in model.known[:earliest]}) > 1  # then it is told as an upper bound
            assert cursor.lost - model.lost == lost or (is_laned and cursor.lost - model.lost > lost)
            model.lost = cursor.lost
            model.commit(earliest)

    @precondition(lambda self: self.leased())
    @rule(data=st.data(), action=st.sampled_from(["ack", "ack", "nack", "nack", "reject", "release"]))
    def settle(self, data: st.DataObject, action: SettleAction) -> None:
        ref, leased, offsets = self.some_of_a_lease(data)
        delay = data.draw(st.sampled_from([None, 0.0, 3.0]))
        self.team.settle(action, leased.batch, *((one, one + 1) for one in offsets), delay=delay)
        self.note(ref, action, offsets, delay)

    def note(self, ref: PartitionRef, action: SettleAction, offsets: list[int], delay: float | None) -> None:
        model = self.models[ref]
        for offset in offsets:
            failures = model.known[offset].failures
            if action in ("ack", "reject"):
                model.settle(offset, "done" if action == "ack" else "moving")
            else:
                later = 2.0**failures if delay is None else delay
                due_ns = self.now_ns + (nanoseconds(later) if action == "nack" else 0)
                model.settle(offset, "waiting", due_ns, failed=action == "nack")

    def some_of_a_lease(self, data: st.DataObject) -> tuple[PartitionRef, ModelLease, list[int]]:
        leased = self.leased()
        ref, chosen = leased[data.draw(st.integers(0, len(leased) - 1))]
        left = self.models[ref].of(chosen.batch.grant.id)
        offsets = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        return ref, chosen, offsets

    @precondition(lambda self: self.leased())
    @rule(data=st.data(), seconds=st.sampled_from([1.0, 8.0]))
    def extend(self, data: st.DataObject, seconds: float) -> None:
        _, leased, _ = self.some_of_a_lease(data)
        self.team.settle("extend", leased.batch, timeout=seconds)
        leased.until_ns = self.now_ns + nanoseconds(seconds)

    @precondition(lambda self: self.leased())
    @rule(data=st.data())
    def speak_of_what_another_has(self, data: st.DataObject) -> None:
        _, leased, _ = self.some_of_a_lease(data)
        told = self.team.ask_to_settle("stranger", self.team.command("ack", leased.batch))
        self.team.running.flush()
        assert isinstance(told.result[0], LeaseExpired)

    # --- transactions ---

    @precondition(lambda self: self.leased())
    @rule(data=st.data(), transaction_id=st.sampled_from(TRANSACTIONS))
    def ack_in_transaction(self, data: st.DataObject, transaction_id: TransactionId) -> None:
        ref, leased, offsets = self.some_of_a_lease(data)
        for _ in range(2):  # as after a lost answer
            self.team.ack_in_transaction(
                leased.batch, *((one, one + 1) for one in offsets), transaction_id=transaction_id
            )
        for offset in offsets:
            self.models[ref].ack_in_transaction(offset, transaction_id)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), transaction_id=st.sampled_from(TRANSACTIONS))
    def ack_possibly_lost_lease(self, data: st.DataObject, transaction_id: TransactionId) -> None:
        batch = self.handed[data.draw(st.integers(0, len(self.handed) - 1))]
        grant, model = batch.grant, self.models[PartitionRef(batch.topic, batch.partition)]
        first = data.draw(st.integers(grant.first, grant.end - 1))
        end = data.draw(st.integers(first + 1, grant.end))
        meant = [offset for offset in offsets_of(batch) if first <= offset < end]
        left = [offset for offset in meant if offset in model.of(grant.id)]
        mine = ("transactional", transaction_id, grant.deliveries, grant.failures)
        known = [model.known[offset] for offset in meant if offset not in left]
        try:
            self.team.ack_in_transaction(batch, (first, end), transaction_id=transaction_id)
        except LeaseExpired:
            leased = model.leases.get(grant.id)
            assert known or leased is None or leased.until_ns <= self.now_ns, "all of it was leased"
            return
        assert all((one.state, one.transaction_id, one.deliveries, one.failures) == mine for one in known), known
        for offset in left:
            model.ack_in_transaction(offset, transaction_id)

    @rule(ref=st.sampled_from(PLACES), data=st.data(), transaction_id=st.sampled_from(TRANSACTIONS))
    def commit_offset_in_transaction(
        self, ref: PartitionRef, data: st.DataObject, transaction_id: TransactionId
    ) -> None:
        model, cursor = self.models[ref], self.team.coordinator.store.cursor("team", ref)
        owners = [member for member in self.members if ref in self.team.group.assignment.get(member, ())]
        member = data.draw(st.sampled_from([None, *owners]))
        offset = data.draw(st.integers(0, len(model.known)))
        if any(one.transaction_id not in (None, transaction_id) for one in model.known[:offset]):
            try:
                self.team.commit_in_transaction(offset, ref, member=member, transaction_id=transaction_id)
            except TransactionPending:
                return
            raise AssertionError("another transaction has something of that")
        unseen_from = 2**63 if cursor is None or cursor.heads is None else 0
        self.team.commit_in_transaction(offset, ref, member=member, transaction_id=transaction_id)
        if not model.is_open:
            model.reset(self.team.cursor(ref).floor)
        model.ack_below_in_transaction(offset, transaction_id, unseen_from)

    @rule(transaction_id=st.sampled_from(TRANSACTIONS), is_commit=st.booleans(), failed=st.booleans())
    def end_transaction(self, transaction_id: TransactionId, is_commit: bool, failed: bool) -> None:
        cursors = self.team.coordinator.store.cursors("team")
        laned = {ref for ref, cursor in cursors.items() if cursor.heads is not None}
        self.team.end_transaction(is_commit=is_commit, failed=failed, transaction_id=transaction_id)
        assert not self.team.coordinator.transaction_acks.count("team", transaction_id)
        for ref, model in self.models.items():
            is_laned = ref in laned
            model.end_transaction(transaction_id, self.now_ns, is_commit=is_commit, failed=failed, is_laned=is_laned)

    @rule()
    def carry(self) -> None:
        self.team.move_dead_letters()
        for model in self.models.values():
            for offset, one in enumerate(model.known):
                if one.state == "moving":
                    model.settle(offset, "done")

    # --- offsets, retention ---

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        member = self.some_member(data)
        for ref in self.team.group.assignment[member]:
            offset = data.draw(st.integers(0, len(self.models[ref].known)))
            cursor = self.team.cursor(ref)
            unseen_from = 2**63 if cursor.heads is None else cursor.unread
            self.team.commit(member, offset, ref)
            self.models[ref].commit(offset, unseen_from)

    @rule(ref=st.sampled_from(PLACES), back=st.integers(0, 5))
    def reset(self, ref: PartitionRef, back: int) -> None:
        partition = self.team.running.partition(*ref)
        floor = max(partition.earliest, partition.high_watermark - back)
        self.team.reset("offset", floor, partitions=(ref[1],))
        self.models[ref].reset(floor)

    @rule(ref=st.sampled_from(PLACES))
    def retention_takes_what_is_old(self, ref: PartitionRef) -> None:
        if self.models[ref].known:
            self.team.expire(ref)

    # --- time, crashes ---

    @rule(seconds=st.sampled_from([1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        """Let all members send heartbeats; expired leases have failed."""
        for member in self.members:
            self.team.heartbeat(member)
        self.team.due(seconds)
        for ref, leased in self.leased():
            if leased.until_ns <= self.now_ns:
                self.models[ref].end(leased.batch.grant.id, self.now_ns, failed=True)

    @rule(keep=st.sampled_from(["everything", "synced", "some"]))
    def crash(self, keep: Keep) -> None:
        self.team = self.team.crash(keep)

    @rule()
    def stop_and_start(self) -> None:
        self.team = self.team.restart()

    @precondition(lambda self: self.leased())
    @rule(
        data=st.data(),
        action=st.sampled_from(["ack", "nack", "reject"]),
        transaction_id=st.sampled_from((None, *TRANSACTIONS)),
    )
    def crash_before_the_answer(
        self, data: st.DataObject, action: SettleAction, transaction_id: TransactionId | None
    ) -> None:
        _, leased, offsets = self.some_of_a_lease(data)
        command = self.team.command(
            action if transaction_id is None else "ack", leased.batch, [(one, one + 1) for one in offsets]
        )
        if transaction_id is None:
            told = self.team.ask_to_settle(leased.member, command)
        else:
            told = self.team.ask_to_ack_in_transaction(leased.member, command, transaction_id=transaction_id)
        self.team = self.team.crash()
        assert told.all == []

    # --- what is true after every step ---

    @invariant()
    def everything_is_where_the_twin_has_it(self) -> None:
        for ref, model in self.models.items():
            cursor = self.team.coordinator.store.cursor("team", ref)
            if cursor is not None:
                if not model.is_open:
                    model.reset(cursor.floor)
                assert told_by(cursor, model.known) == model.known
                assert {one.id: one.until_ns for one in cursor.leases.values()} == {
                    name: leased.until_ns for name, leased in model.leases.items()
                }
                assert cursor.leased == sum(one.state == "leased" for one in model.known)
                assert cursor.lost == model.lost

    @invariant()
    def what_is_told_whole_is_the_same(self) -> None:
        for cursor in self.team.coordinator.store.cursors("team").values():
            stands = cursor.snapshot()
            again = decode_group_record(frame.decode(encode_group_record(stands)))
            assert isinstance(again, CursorSnapshot)
            assert Cursor(again, {}).snapshot() == stands

    @invariant()
    def what_the_disk_has_makes_the_same_state(self) -> None:
        group_log = self.team.coordinator.store.group_log
        assert list(group_log.journal.durable.records()) == list(group_log.state.records())


def told_by(cursor: Cursor, known: list[Known]) -> list[Known]:
    """Return the only state that a cursor has for each offset."""
    return [_told_of(cursor, offset, one.lane) for offset, one in enumerate(known)]


def _told_of(cursor: Cursor, offset: int, lane: int) -> Known:
    found: list[Known] = []
    if offset < cursor.floor or cursor.acked.get(offset):
        found.append(Known("done", lane))
    if offset in cursor.moving:
        found.append(Known("moving", lane))
    if (ack := cursor.transactional.get(offset)) is not None:
        history = ack.history
        found.append(
            Known(
                "transactional",
                _lane_of(history, lane),
                history.deliveries,
                history.failures,
                transaction_id=ack.transaction_id,
            )
        )
    if (retry := cursor.waiting.get(offset)) is not None:
        found.append(Known("waiting", _lane_of(retry, lane), retry.deliveries, retry.failures, retry.due_ns))
    grants = [lease.grant for lease in cursor.leases.values() if lease.left.get(offset)]
    found += [Known("leased", grant.lane, grant.deliveries, grant.failures, 0, grant.id) for grant in grants]
    head = cursor.position if cursor.heads is None else cursor.heads[lane]
    if offset >= max(head, cursor.position):
        found.append(Known("new", lane))
    elif offset >= cursor.position and not found:  # what is nowhere else there is done with
        found.append(Known("done", lane))
    assert len(found) == 1, f"{offset} is in {found}"
    return found[0]


def _lane_of(retry: RetryState, lane: int) -> int:
    """The cursor does not know the lane of messages that were not read."""
    return lane if retry.lane == NO_LANE else retry.lane


TestDelivery: Any = Delivery.TestCase
