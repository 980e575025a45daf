"""Messages that are scheduled in a transaction: nobody's until that is committed, and nobody waits for it."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.broker.delay.queries import Criteria, listing, standing, timeline
from goqueue.broker.delay.sweep import sweep
from goqueue.broker.work import run
from goqueue.errors import DelayedNotFound, DelayedNotPending
from goqueue.limits import DELAY_TICK_NS
from goqueue.storage import frame
from tests.broker.brokers import messages
from tests.broker.delay.delaywork import SECOND, Going, Scene, Transaction, offsets

HOUR = 3600.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def transaction() -> Transaction:
    return Transaction(7)


def swept(scene: Scene) -> int:
    """Bytes of the delayed log after a look at it."""
    scene.do(sweep(scene.delays, scene.running.disk))
    return scene.delays.inbox.log.size


# --- undecided ---


def test_what_is_undecided_is_nowhere_to_be_seen(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    for work in (
        scene.delays.cancel(offset),
        scene.delays.reschedule(offset, scene.now_ns),
        scene.delays.look_up(offset),
    ):
        with pytest.raises(DelayedNotFound, match="offset 0"):
            scene.do(work)
    assert scene.do(scene.delays.cancel_many(offsets(offset))) == 0
    assert scene.do(scene.delays.reschedule_many(offsets(offset), lambda dues: dues)) == 0
    assert not scene.do(listing([scene.delays], Criteria(), 10, 0, scene.running.clock)).shown
    assert scene.do(timeline([scene.delays], [scene.now_ns, scene.now_ns + SECOND])).pending == 0
    assert scene.do(standing([scene.delays], scene.now_ns)).next_due_ns is None
    assert (scene.delays.schedule.counts, scene.delays.scheduled) == ([0, 0, 0, 0], 0)


def test_nobody_waits_for_an_open_transaction(scene: Scene, transaction: Transaction) -> None:
    scene.schedule_within(transaction, (b"undecided", 1))
    (cancelled, _) = scene.schedule((b"cancelled", 1), (b"plain", 1))
    scene.do(scene.delays.cancel(cancelled))
    scene.deliver(2)
    assert scene.delivered == [b"plain"]
    assert scene.delays.schedule.counts == [0, 1, 1, 0]


def test_whoever_wants_it_delivered_at_once_gets_nothing(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    asking = Going(scene.postman.deliver_now(offsets(offset)))
    scene.deliver()
    asking.go_on()
    assert (asking.result, scene.delivered) == (0, [])


# --- committed ---


def test_what_is_committed_is_scheduled_from_then_on(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", 60))
    scene.running.clock.advance(20)
    scene.end(transaction, is_commit=True)
    assert scene.state(offset) == "pending"
    assert scene.delays.scheduled == 1
    assert scene.delays.ahead_seconds == pytest.approx(40)
    scene.deliver(39)
    assert scene.delivered == []
    scene.deliver(2)
    assert scene.delivered == [b"a"]


def test_what_was_due_before_the_commit_is_delivered_at_once_and_not_late(transaction: Transaction) -> None:
    scene = Scene(delay_expiry_seconds=30.0)
    late: list[int] = []
    scene.postman.on_delivery = lambda late_ns: late.extend(late_ns.tolist())
    scene.schedule_within(transaction, (b"a", 1), (b"b", 2))
    scene.running.clock.advance(600)
    scene.end(transaction, is_commit=True)
    scene.deliver(0.02)
    assert scene.delivered == [b"a", b"b"]
    assert max(late) <= SECOND


def test_the_copy_in_the_topic_is_of_no_transaction(scene: Scene, transaction: Transaction) -> None:
    scene.schedule_within(transaction, (b"marked", 1), (b"plain", 1))
    scene.end(transaction, is_commit=True)
    scene.deliver(2)
    found = messages(scene.partition)
    assert [one.value for one in found] == [b"marked", b"plain"]
    for one in found:
        assert not one.flags & frame.TRANSACTIONAL
        assert [name for name, _ in one.headers] == ["__delayed_of"]
    assert scene.partition.last_stable == scene.partition.high_watermark


def test_it_can_be_moved_and_cancelled_as_any_other(scene: Scene, transaction: Transaction) -> None:
    moved, cancelled = scene.schedule_within(transaction, (b"moved", 60), (b"cancelled", 60))
    scene.end(transaction, is_commit=True)
    scene.do(scene.delays.reschedule(moved, scene.now_ns + 5 * SECOND))
    scene.do(scene.delays.cancel(cancelled))
    after = scene.crash()
    after.deliver(10)
    assert after.delivered == [b"moved"]
    assert after.state(cancelled) == "cancelled"


# --- aborted ---


def test_what_is_aborted_was_never_there(scene: Scene, transaction: Transaction) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", 1))
    scene.end(transaction, is_commit=False)
    scene.deliver(HOUR)
    assert scene.delivered == []
    with pytest.raises(DelayedNotFound):
        scene.do(scene.delays.look_up(offset))
    assert (scene.delays.schedule.counts, scene.delays.schedule.undecided) == ([0, 0, 0, 0], 0)


def test_of_two_transactions_each_decides_about_its_own(scene: Scene, transaction: Transaction) -> None:
    other = Transaction(8)
    for number in range(6):
        scene.schedule_within((transaction, other)[number % 2], (b"%d" % number, 1))
        scene.schedule((b"plain", 1))
    scene.end(other, is_commit=False)
    scene.deliver(2)
    assert scene.delivered == [b"plain"] * 6
    scene.end(transaction, is_commit=True)
    scene.deliver(1)
    assert scene.delivered[6:] == [b"0", b"2", b"4"]


# --- a start ---


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_behind_a_snapshot_decides_about_what_is_in_it(
    scene: Scene, transaction: Transaction, *, is_clean: bool, is_commit: bool
) -> None:
    (offset,) = scene.schedule_within(transaction, (b"a", HOUR))
    run(scene.delays.save(scene.running.disk))
    after = scene.restart() if is_clean else scene.crash()
    assert (after.state(offset), after.delays.schedule.undecided) == ("unknown", 1)
    after.find_open(transaction)
    after.end(transaction, is_commit=is_commit)
    last = after.crash()
    assert last.state(offset) == ("pending" if is_commit else "unknown")
    assert last.delays.schedule.undecided == 0


# --- sweeps ---


def test_a_sweep_keeps_what_is_undecided(scene: Scene, transaction: Transaction) -> None:
    scene.fill(30, 1)
    (offset,) = scene.schedule_within(transaction, (b"a", 1))
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.inbox.log.size
    assert swept(scene) < before / 4
    after = scene.crash()
    after.find_open(transaction)
    after.end(transaction, is_commit=True)
    after.deliver(1)
    assert after.delivered[-1] == b"a"
    assert after.state(offset) == "delivered"


def test_a_sweep_takes_what_was_aborted_and_the_marker_with_it(scene: Scene, transaction: Transaction) -> None:
    (kept,) = scene.schedule((b"kept", 30 * HOUR))
    for number in range(80):
        scene.schedule_within(transaction, (b"%d:" % number + bytes(200), 30 * HOUR))
    scene.end(transaction, is_commit=False)
    scene.fill(80, 1)
    scene.deliver(200)
    before = scene.delays.inbox.log.size
    assert swept(scene) < before / 4
    sealed_end = scene.inbox.log.segments[-1].base_offset
    left = [one for one in messages(scene.inbox) if one.offset < sealed_end]
    assert [one.offset for one in left] == [kept]
    assert len(scene.delays.schedule) < 40


def test_a_marker_stays_while_a_message_that_it_speaks_of_does(scene: Scene, transaction: Transaction) -> None:
    """In another segment than the message, and most of what it speaks of has gone."""
    (kept,) = scene.schedule_within(transaction, (b"kept", 30 * HOUR))
    for number in range(80):
        scene.schedule_within(transaction, (b"%d:" % number + bytes(200), 1))
    scene.end(transaction, is_commit=True)
    scene.fill(60, 1)
    scene.deliver(200)
    before = scene.delays.inbox.log.size
    assert swept(scene) < before / 4
    after = scene.crash()
    assert after.state(kept) == "pending"
    after.deliver(31 * HOUR)
    assert after.delivered.count(b"kept") == 1
    swept(after)
    last = after.crash()
    assert last.delays.schedule.pending == last.delays.schedule.undecided == 0


def test_the_end_of_an_aborted_message_in_a_segment_that_is_left_as_it_is_stays_known(
    scene: Scene, transaction: Transaction
) -> None:
    for number in range(12):  # one segment, most of which is pending
        scene.schedule((b"%d:" % number + bytes(200), 30 * HOUR))
    scene.schedule_within(transaction, (b"aborted", 1))
    scene.fill(30, 1)
    scene.end(transaction, is_commit=False)
    scene.fill(60, 1)
    scene.deliver(200)
    swept(scene)
    after = scene.crash()
    assert (after.delays.schedule.pending, after.delays.schedule.undecided) == (12, 0)


# --- held against a naive twin ---


@dataclass
class Planned:
    """A message as the twin knows it."""

    value: bytes
    due_ns: int
    state: str = "pending"
    """`undecided` and `aborted` besides those that everybody knows."""


@dataclass
class Begun:
    """A transaction that has not ended."""

    transaction: Transaction
    offsets: list[int] = field(default_factory=list)


class Twin(RuleBasedStateMachine):
    """Everything in any order, and a broker that starts again at any place."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.planned: dict[int, Planned] = {}
        self.begun: list[Begun] = []
        self.delivered: list[bytes] = []
        self.producers, self.numbers = count(), count()

    def _messages(self, data: Any) -> list[tuple[bytes, float]]:
        sizes = data.draw(st.lists(st.sampled_from((0, 100, 900)), min_size=1, max_size=6))
        seconds = st.sampled_from((-5.0, 0.5, 30.0, 4000.0, 900_000.0))
        return [(b"%d:" % next(self.numbers) + bytes(size), data.draw(seconds)) for size in sizes]

    def _plan(self, found: list[int], asked: list[tuple[bytes, float]], state: str) -> None:
        for offset, (value, seconds) in zip(found, asked, strict=True):
            self.planned[offset] = Planned(value, self.scene.now_ns + round(seconds * SECOND), state)

    @rule(data=st.data())
    def schedule(self, data: Any) -> None:
        asked = self._messages(data)
        self._plan(self.scene.schedule(*asked), asked, "pending")

    @rule(data=st.data(), is_new=st.booleans())
    def schedule_within(self, data: Any, *, is_new: bool) -> None:
        if is_new or not self.begun:
            self.begun.append(Begun(Transaction(next(self.producers))))
        begun, asked = data.draw(st.sampled_from(self.begun)), self._messages(data)
        found = self.scene.schedule_within(begun.transaction, *asked)
        begun.offsets += found
        self._plan(found, asked, "undecided")

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), is_commit=st.booleans())
    def end(self, data: Any, *, is_commit: bool) -> None:
        begun = data.draw(st.sampled_from(self.begun))
        self.begun.remove(begun)
        self.scene.end(begun.transaction, is_commit=is_commit)
        for offset in begun.offsets:
            one = self.planned[offset]
            one.state = "pending" if is_commit else "aborted"
            one.due_ns = max(one.due_ns, self.scene.inbox.log.last_time)

    @precondition(lambda self: self.planned)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        offset = data.draw(st.sampled_from(sorted(self.planned)))
        one = self.planned[offset]
        try:
            self.scene.do(self.scene.delays.cancel(offset))
        except DelayedNotPending:
            assert one.state in ("delivered", "cancelled")
        except DelayedNotFound:
            assert one.state != "pending"
        else:
            assert one.state == "pending"
            one.state = "cancelled"

    @rule(data=st.data(), seconds=st.sampled_from((1, 50, 5000, 1_000_000)))
    def move_some(self, data: Any, seconds: int) -> None:
        some = sorted(data.draw(st.sets(st.sampled_from(sorted(self.planned)), max_size=5))) if self.planned else []
        due_ns = self.scene.now_ns + seconds * SECOND
        work = self.scene.delays.reschedule_many(offsets(*some), lambda dues: np.full(len(dues), due_ns))
        pending = [self.planned[offset] for offset in some if self.planned[offset].state == "pending"]
        assert self.scene.do(work) == len(pending)
        for one in pending:
            one.due_ns = due_ns

    @rule(seconds=st.sampled_from((0.02, 40, 5000, 2_000_000)))
    def deliver(self, seconds: float) -> None:
        """Whoever is due by the tick that is over; those from beyond the wheel come a tick later."""
        self.scene.deliver(seconds)
        self.scene.deliver(DELAY_TICK_NS / SECOND)
        over_ns = self.scene.now_ns // DELAY_TICK_NS * DELAY_TICK_NS
        for one in self.planned.values():
            if one.state == "pending" and one.due_ns < over_ns:
                one.state = "delivered"
                self.delivered.append(one.value)

    @rule()
    def sweep(self) -> None:
        swept(self.scene)

    @rule()
    def save(self) -> None:
        run(self.scene.delays.save(self.scene.running.disk))

    @rule(is_clean=st.booleans(), is_cached=st.booleans())
    def start_again(self, *, is_clean: bool, is_cached: bool) -> None:
        self.scene = self.scene.restart() if is_clean else self.scene.crash()
        if not is_cached:
            disk = self.scene.running.disk
            for path in [path for path in disk.paths() if path.endswith("/schedule")]:
                disk.remove(path)
            self.scene = self.scene.crash()
        self.scene.find_open(*(one.transaction for one in self.begun))

    @invariant()
    def everybody_knows_what_the_twin_knows(self) -> None:
        run(self.scene.delays.catch_up())
        table = self.scene.delays.schedule
        for offset, one in self.planned.items():
            entry = table.find(offset)
            if one.state == "pending":
                assert entry is not None
                assert (entry.due_ns, entry.is_pending) == (one.due_ns, True)
            elif one.state in ("undecided", "aborted"):
                assert entry is None
            else:
                assert entry is None or self.scene.state(offset) == one.state
        states = [one.state for one in self.planned.values()]
        assert (table.pending, table.undecided) == (states.count("pending"), states.count("undecided"))
        assert sorted(self.scene.delivered) == sorted(self.delivered)
        page = self.scene.do(listing([self.scene.delays], Criteria(), 1000, 0, self.scene.running.clock))
        pending = sorted((one.due_ns, at) for at, one in self.planned.items() if one.state == "pending")
        assert [(one.entry.due_ns, one.entry.offset) for one in page.shown] == pending

    def teardown(self) -> None:
        """All that was committed arrives, and the log can be given up."""
        for begun in list(self.begun):
            self.scene.end(begun.transaction, is_commit=True)
            for offset in begun.offsets:
                one = self.planned[offset]
                one.state, one.due_ns = "pending", max(one.due_ns, self.scene.inbox.log.last_time)
        self.begun.clear()
        self.deliver(10_000_000)
        self.everybody_knows_what_the_twin_knows()
        self.scene = self.scene.crash()
        self.everybody_knows_what_the_twin_knows()


TestTwin = Twin.TestCase
TestTwin.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
