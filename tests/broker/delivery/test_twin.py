"""Delivery as a whole against a twin that remembers each message by itself, through crashes and all that may happen.

The twin does not foresee what a poll hands out; it judges it, and takes note.
"""

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.broker.delivery.changes import Place, Retry, Stands
from goqueue.broker.delivery.claims import Verb
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.taking import Portion
from goqueue.broker.groups.state import decode_record, encode_record
from goqueue.broker.transactions.whose import Whose
from goqueue.errors import LeaseExpired, TransactionPending
from goqueue.limits import RETRIES_MAX
from goqueue.storage import frame
from goqueue.storage.frame import NORMAL
from goqueue.storage.lanes import NO_LANE
from goqueue.testing.disk import Keep
from tests.broker.brokers import Running
from tests.broker.groupwork import GATHERED, Team, nanoseconds, offsets_of

PLACES: tuple[Place, ...] = (("orders", 0), ("orders", 1))
SESSION = 10.0
IN_FLIGHT = 8
TRANSACTIONS = (Whose(7, 1), Whose(8, 0))

# Mostly one priority, as in most topics; now and then another, or all of them.
LANES_PUBLISHED = st.one_of(
    st.integers(1, 6).map(lambda count: [NORMAL] * count), st.lists(st.sampled_from(range(5)), min_size=1, max_size=6)
)

State = Literal["new", "done", "waiting", "leased", "moving", "pledged"]


@dataclass
class Known:
    """One message, as the twin has it."""

    state: State = "new"
    lane: int = NORMAL
    deliveries: int = 0
    failures: int = 0
    due_ns: int = 0
    lease: str = ""
    whose: Whose | None = None


@dataclass
class Lent:
    """A lease, as the twin has it."""

    member: str
    portion: Portion
    until_ns: int


class Twin:
    """What is known of one place."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.leases: dict[str, Lent] = {}
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
        self.leases = {name: lent for name, lent in self.leases.items() if self.of(name)}

    def end(self, lease: str, now_ns: int, failed: bool) -> None:
        """It was given back, or nobody answered for it."""
        for offset in self.of(lease):
            self.settle(offset, "waiting", now_ns, failed)

    def commit(self, floor: int, unseen_from: int = 2**63) -> None:
        """From an offset on, where lanes are read one by one, what nobody has seen stays new."""
        for offset in range(floor):
            is_unseen = self.known[offset].state == "new" and offset >= unseen_from
            if self.known[offset].state not in ("done", "moving", "pledged") and not is_unseen:
                self.settle(offset, "done")

    def pledge(self, offset: int, whose: Whose) -> None:
        one = self.known[offset]
        self.known[offset] = Known("pledged", one.lane, one.deliveries, one.failures, whose=whose)
        self.leases = {name: lent for name, lent in self.leases.items() if self.of(name)}

    def pledge_below(self, end: int, whose: Whose, unseen_from: int) -> None:
        for offset in range(end):
            state = self.known[offset].state
            if state in ("waiting", "leased") or (state == "new" and offset < unseen_from):
                self.pledge(offset, whose)

    def redeem(self, whose: Whose, now_ns: int, *, is_commit: bool, failed: bool, is_laned: bool) -> None:
        """From the end: what nobody has seen is new again where all behind it is."""
        for offset in range(len(self.known) - 1, -1, -1):
            one = self.known[offset]
            is_last = not is_laned and all(other.state == "new" for other in self.known[offset + 1 :])
            if one.whose != whose:
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
        self.twins = {place: Twin() for place in PLACES}
        self.members: list[str] = []
        self.published = 0
        self.handed: list[Portion] = []
        """All leases, those that are gone too."""

    @initialize(lanes=st.lists(st.sampled_from(range(5)), max_size=12))
    def something_is_there_already(self, lanes: list[int]) -> None:
        self.join("a")
        if lanes:
            self.publish(PLACES[0], lanes)

    @property
    def now_ns(self) -> int:
        return self.team.coordinator.clock.now_ns()

    def lent(self) -> list[tuple[Place, Lent]]:
        return [(place, lent) for place, twin in self.twins.items() for lent in twin.leases.values()]

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
        for place, lent in self.lent():
            if lent.member == member:
                self.twins[place].end(lent.portion.grant.id, at_ns, failed=False)
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
        for place, lent in self.lent():
            if lent.member == member:
                self.twins[place].end(lent.portion.grant.id, at_ns, failed=True)
        self.time_passes(GATHERED)
        assert member not in self.team.group.members

    def some_member(self, data: st.DataObject) -> str:
        return self.members[data.draw(st.integers(0, len(self.members) - 1))]

    # --- messages ---

    @rule(place=st.sampled_from(PLACES), lanes=LANES_PUBLISHED)
    def publish(self, place: Place, lanes: list[int]) -> None:
        values = (f"message-{self.published + number}" for number in range(len(lanes)))
        self.team.publish(*values, place=place, lanes=lanes)
        self.published += len(lanes)
        self.twins[place].known += [Known(lane=lane) for lane in lanes]

    @precondition(lambda self: self.members)
    @rule(data=st.data(), most=st.integers(1, 5), visibility=st.sampled_from([1.0, 4.0, 30.0]))
    def poll(self, data: st.DataObject, most: int, visibility: float) -> None:
        member = self.some_member(data)
        portions = self.team.poll(member, most, visibility=visibility)
        self.team.running.flush()
        for place in PLACES:
            self.note_what_was_lost(place)
        in_hand = sum(len(self.twins[place].of(lent.portion.grant.id)) for place, lent in self.lent_to(member))
        is_lone_in_hand = any(
            self.twins[place].known[offset].failures == RETRIES_MAX
            for place, lent in self.lent_to(member)
            for offset in self.twins[place].of(lent.portion.grant.id)
        )
        available = self.available(member)
        handed = [(portion, offset) for portion in portions for offset in offsets_of(portion)]
        assert len(handed) <= min(most, IN_FLIGHT - in_hand)
        if any(portion.grant.failures == RETRIES_MAX for portion in portions):
            assert len(handed) == 1
            assert not in_hand
        assert not (is_lone_in_hand and handed)
        if available and not in_hand:
            assert handed, "there was something to be had"
        self.handed += portions
        for portion, offset in handed:
            place, grant = (portion.topic, portion.partition), portion.grant
            one = self.twins[place].known[offset]
            assert place in self.team.has(member)
            assert one.state == "new" or (one.state == "waiting" and one.due_ns <= self.now_ns), one
            assert (grant.deliveries, grant.failures) == (one.deliveries + 1, one.failures)
            assert grant.lane == one.lane
            self.twins[place].known[offset] = Known("leased", one.lane, grant.deliveries, grant.failures, 0, grant.id)
            until_ns = self.now_ns + nanoseconds(visibility)
            self.twins[place].leases[grant.id] = Lent(member, portion, until_ns)

    def lent_to(self, member: str) -> list[tuple[Place, Lent]]:
        return [(place, lent) for place, lent in self.lent() if lent.member == member]

    def available(self, member: str) -> bool:
        return any(
            one.state == "new" or (one.state == "waiting" and one.due_ns <= self.now_ns)
            for place in self.team.has(member)
            for one in self.twins[place].known
        )

    def note_what_was_lost(self, place: Place) -> None:
        """Of what retention has removed a poll says so, all at once."""
        twin, cursor = self.twins[place], self.team.coordinator.ledger.cursor("team", place)
        earliest = self.team.running.partition(*place).earliest
        if cursor is not None and cursor.lost != twin.lost:
            lost = sum(one.state in ("new", "waiting") for one in twin.known[:earliest])
            is_laned = len({one.lane for one in twin.known[:earliest]}) > 1  # then it is told as an upper bound
            assert cursor.lost - twin.lost == lost or (is_laned and cursor.lost - twin.lost > lost)
            twin.lost = cursor.lost
            twin.commit(earliest)

    @precondition(lambda self: self.lent())
    @rule(data=st.data(), verb=st.sampled_from(["ack", "ack", "nack", "nack", "reject", "release"]))
    def settle(self, data: st.DataObject, verb: Verb) -> None:
        place, lent, offsets = self.some_of_a_lease(data)
        delay = data.draw(st.sampled_from([None, 0.0, 3.0]))
        self.team.say(verb, lent.portion, *((one, one + 1) for one in offsets), delay=delay)
        self.note(place, verb, offsets, delay)

    def note(self, place: Place, verb: Verb, offsets: list[int], delay: float | None) -> None:
        twin = self.twins[place]
        for offset in offsets:
            failures = twin.known[offset].failures
            if verb in ("ack", "reject"):
                twin.settle(offset, "done" if verb == "ack" else "moving")
            else:
                later = 2.0**failures if delay is None else delay
                due_ns = self.now_ns + (nanoseconds(later) if verb == "nack" else 0)
                twin.settle(offset, "waiting", due_ns, failed=verb == "nack")

    def some_of_a_lease(self, data: st.DataObject) -> tuple[Place, Lent, list[int]]:
        lent = self.lent()
        place, chosen = lent[data.draw(st.integers(0, len(lent) - 1))]
        left = self.twins[place].of(chosen.portion.grant.id)
        offsets = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        return place, chosen, offsets

    @precondition(lambda self: self.lent())
    @rule(data=st.data(), seconds=st.sampled_from([1.0, 8.0]))
    def extend(self, data: st.DataObject, seconds: float) -> None:
        _, lent, _ = self.some_of_a_lease(data)
        self.team.say("extend", lent.portion, timeout=seconds)
        lent.until_ns = self.now_ns + nanoseconds(seconds)

    @precondition(lambda self: self.lent())
    @rule(data=st.data())
    def speak_of_what_another_has(self, data: st.DataObject) -> None:
        _, lent, _ = self.some_of_a_lease(data)
        told = self.team.ask_to_settle("nobody", self.team.statement("ack", lent.portion))
        self.team.running.flush()
        assert isinstance(told.result[0], LeaseExpired)

    # --- transactions ---

    @precondition(lambda self: self.lent())
    @rule(data=st.data(), whose=st.sampled_from(TRANSACTIONS))
    def pledge(self, data: st.DataObject, whose: Whose) -> None:
        place, lent, offsets = self.some_of_a_lease(data)
        for _ in range(2):  # as after a lost answer
            self.team.pledge(lent.portion, *((one, one + 1) for one in offsets), whose=whose)
        for offset in offsets:
            self.twins[place].pledge(offset, whose)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), whose=st.sampled_from(TRANSACTIONS))
    def pledge_what_may_be_lost(self, data: st.DataObject, whose: Whose) -> None:
        portion = self.handed[data.draw(st.integers(0, len(self.handed) - 1))]
        grant, twin = portion.grant, self.twins[portion.topic, portion.partition]
        first = data.draw(st.integers(grant.first, grant.end - 1))
        end = data.draw(st.integers(first + 1, grant.end))
        meant = [offset for offset in offsets_of(portion) if first <= offset < end]
        left = [offset for offset in meant if offset in twin.of(grant.id)]
        mine = ("pledged", whose, grant.deliveries, grant.failures)
        known = [twin.known[offset] for offset in meant if offset not in left]
        try:
            self.team.pledge(portion, (first, end), whose=whose)
        except LeaseExpired:
            lent = twin.leases.get(grant.id)
            assert known or lent is None or lent.until_ns <= self.now_ns, "all of it was leased"
            return
        assert all((one.state, one.whose, one.deliveries, one.failures) == mine for one in known), known
        for offset in left:
            twin.pledge(offset, whose)

    @rule(place=st.sampled_from(PLACES), data=st.data(), whose=st.sampled_from(TRANSACTIONS))
    def pledge_an_offset(self, place: Place, data: st.DataObject, whose: Whose) -> None:
        twin, cursor = self.twins[place], self.team.coordinator.ledger.cursor("team", place)
        owners = [member for member in self.members if place in self.team.group.assignment.get(member, ())]
        member = data.draw(st.sampled_from([None, *owners]))
        offset = data.draw(st.integers(0, len(twin.known)))
        if any(one.whose not in (None, whose) for one in twin.known[:offset]):
            try:
                self.team.pledge_offset(offset, place, member=member, whose=whose)
            except TransactionPending:
                return
            raise AssertionError("another transaction has something of that")
        unseen_from = 2**63 if cursor is None or cursor.heads is None else 0
        self.team.pledge_offset(offset, place, member=member, whose=whose)
        if not twin.is_open:
            twin.reset(self.team.cursor(place).floor)
        twin.pledge_below(offset, whose, unseen_from)

    @rule(whose=st.sampled_from(TRANSACTIONS), is_commit=st.booleans(), failed=st.booleans())
    def redeem(self, whose: Whose, is_commit: bool, failed: bool) -> None:
        cursors = self.team.coordinator.ledger.cursors("team")
        laned = {place for place, cursor in cursors.items() if cursor.heads is not None}
        self.team.redeem(is_commit=is_commit, failed=failed, whose=whose)
        assert not self.team.coordinator.pledges.count("team", whose)
        for place, twin in self.twins.items():
            is_laned = place in laned
            twin.redeem(whose, self.now_ns, is_commit=is_commit, failed=failed, is_laned=is_laned)

    @rule()
    def carry(self) -> None:
        self.team.carry()
        for twin in self.twins.values():
            for offset, one in enumerate(twin.known):
                if one.state == "moving":
                    twin.settle(offset, "done")

    # --- offsets, retention ---

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        member = self.some_member(data)
        for place in self.team.group.assignment[member]:
            offset = data.draw(st.integers(0, len(self.twins[place].known)))
            cursor = self.team.cursor(place)
            unseen_from = 2**63 if cursor.heads is None else cursor.unread
            self.team.commit(member, offset, place)
            self.twins[place].commit(offset, unseen_from)

    @rule(place=st.sampled_from(PLACES), back=st.integers(0, 5))
    def reset(self, place: Place, back: int) -> None:
        partition = self.team.running.partition(*place)
        floor = max(partition.earliest, partition.high_watermark - back)
        self.team.reset("offset", floor, partitions=(place[1],))
        self.twins[place].reset(floor)

    @rule(place=st.sampled_from(PLACES))
    def retention_takes_what_is_old(self, place: Place) -> None:
        if self.twins[place].known:
            self.team.expire(place)

    # --- time, crashes ---

    @rule(seconds=st.sampled_from([1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        """Everybody gives a sign of life; what nobody has answered for in time has failed."""
        for member in self.members:
            self.team.heartbeat(member)
        self.team.due(seconds)
        for place, lent in self.lent():
            if lent.until_ns <= self.now_ns:
                self.twins[place].end(lent.portion.grant.id, self.now_ns, failed=True)

    @rule(keep=st.sampled_from(["everything", "synced", "some"]))
    def crash(self, keep: Keep) -> None:
        self.team = self.team.crash(keep)

    @rule()
    def stop_and_start(self) -> None:
        self.team = self.team.restart()

    @precondition(lambda self: self.lent())
    @rule(data=st.data(), verb=st.sampled_from(["ack", "nack", "reject"]), whose=st.sampled_from((None, *TRANSACTIONS)))
    def crash_before_the_answer(self, data: st.DataObject, verb: Verb, whose: Whose | None) -> None:
        _, lent, offsets = self.some_of_a_lease(data)
        statement = self.team.statement(
            verb if whose is None else "ack", lent.portion, [(one, one + 1) for one in offsets]
        )
        if whose is None:
            told = self.team.ask_to_settle(lent.member, statement)
        else:
            told = self.team.ask_to_pledge(lent.member, statement, whose=whose)
        self.team = self.team.crash()
        assert told.all == []

    # --- what is true after every step ---

    @invariant()
    def everything_is_where_the_twin_has_it(self) -> None:
        for place, twin in self.twins.items():
            cursor = self.team.coordinator.ledger.cursor("team", place)
            if cursor is not None:
                if not twin.is_open:
                    twin.reset(cursor.floor)
                assert told_by(cursor, twin.known) == twin.known
                assert {one.id: one.until_ns for one in cursor.leases.values()} == {
                    name: lent.until_ns for name, lent in twin.leases.items()
                }
                assert cursor.leased == sum(one.state == "leased" for one in twin.known)
                assert cursor.lost == twin.lost

    @invariant()
    def what_is_told_whole_is_the_same(self) -> None:
        for cursor in self.team.coordinator.ledger.cursors("team").values():
            stands = cursor.stands()
            again = decode_record(frame.decode(encode_record(stands)))
            assert isinstance(again, Stands)
            assert Cursor(again, {}).stands() == stands

    @invariant()
    def what_the_disk_has_makes_the_same_state(self) -> None:
        shelf = self.team.coordinator.ledger.shelf("team")
        assert list(shelf.journal.durable.records()) == list(shelf.state.records())


def told_by(cursor: Cursor, known: list[Known]) -> list[Known]:
    """What a cursor says of every offset, which must be one thing only."""
    return [_told_of(cursor, offset, one.lane) for offset, one in enumerate(known)]


def _told_of(cursor: Cursor, offset: int, lane: int) -> Known:
    found: list[Known] = []
    if offset < cursor.floor or cursor.acked.get(offset):
        found.append(Known("done", lane))
    if offset in cursor.moving:
        found.append(Known("moving", lane))
    if (pledge := cursor.pledged.get(offset)) is not None:
        tried = pledge.tried
        found.append(Known("pledged", _lane_of(tried, lane), tried.deliveries, tried.failures, whose=pledge.whose))
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


def _lane_of(retry: Retry, lane: int) -> int:
    """Of what nobody has looked at the cursor does not know it."""
    return lane if retry.lane == NO_LANE else retry.lane


TestDelivery: Any = Delivery.TestCase
TestDelivery.settings = settings(max_examples=100, stateful_step_count=50)
