"""The table of delayed messages: held against a dictionary."""

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.broker.delay.schedule import ABORTED, CANCELLED, DELIVERED, EXPIRED, PENDING, UNDECIDED, DeliverySchedule
from goqueue.broker.delay.snapshot import ScheduleSnapshot, decode_snapshot

DUES = st.integers(0, 50)


class Twin(RuleBasedStateMachine):
    """Each step is done to both."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DeliverySchedule()
        self.rows: dict[int, tuple[int, int, int]] = {}
        self.next = 0

    @rule(
        gaps=st.lists(st.integers(1, 3), min_size=1, max_size=12),
        due=DUES,
        priority=st.integers(0, 4),
        in_transaction=st.booleans(),
    )
    def add(self, gaps: list[int], due: int, priority: int, *, in_transaction: bool) -> None:
        state = UNDECIDED if in_transaction else PENDING
        offsets = [self.next + sum(gaps[: number + 1]) for number in range(len(gaps))]
        self.next = offsets[-1]
        dues = [due + number for number in range(len(offsets))]
        states, priorities = (np.full(len(offsets), number, np.uint8) for number in (state, priority))
        self.table.add(np.array(offsets), np.array(dues), priorities, states)
        self.rows |= {offset: (one, state, priority) for offset, one in zip(offsets, dues, strict=True)}

    def _some(self, data: Any) -> list[int]:
        return sorted(data.draw(st.sets(st.integers(0, self.next + 2), max_size=8)))

    @rule(data=st.data(), state=st.sampled_from((DELIVERED, CANCELLED, EXPIRED)))
    def settle(self, data: Any, state: int) -> None:
        some = self._some(data)
        pending = [one for one in some if one in self.rows and self.rows[one][1] == PENDING]
        assert self.table.settle(np.array(some, np.int64), state) == len(pending)
        self.rows |= {one: (self.rows[one][0], state, self.rows[one][2]) for one in pending}

    @rule(data=st.data(), due=DUES)
    def move(self, data: Any, due: int) -> None:
        some = self._some(data)
        moved = [one in self.rows and self.rows[one][1] == PENDING and self.rows[one][0] != due for one in some]
        assert self.table.move(np.array(some, np.int64), np.full(len(some), due)).tolist() == moved
        self.rows |= {one: (due, *self.rows[one][1:]) for one, is_new in zip(some, moved, strict=True) if is_new}

    @rule(data=st.data(), is_commit=st.booleans(), time=DUES)
    def end(self, data: Any, *, is_commit: bool, time: int) -> None:
        edges = self._some(data)
        edges = edges[: len(edges) // 2 * 2]
        firsts, ends = np.array(edges[::2], np.int64), np.array(edges[1::2], np.int64)
        within = {one for first, end in zip(edges[::2], edges[1::2], strict=True) for one in range(first, end)}
        decided = {one: row for one, row in sorted(self.rows.items()) if one in within and row[1] == UNDECIDED}
        if is_commit:
            decided = {one: (max(due, time), PENDING, priority) for one, (due, _, priority) in decided.items()}
            dues, offsets = self.table.commit(firsts, ends, time)
            told = dict(zip(offsets.tolist(), dues.tolist(), strict=True))
            assert told == {one: row[0] for one, row in decided.items()}
            assert offsets.tolist() == sorted(decided)
        else:
            decided = {one: (due, ABORTED, priority) for one, (due, _, priority) in decided.items()}
            self.table.abort(firsts, ends)
        self.rows |= decided

    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        first, end = sorted((data.draw(st.integers(0, self.next + 2)), data.draw(st.integers(0, self.next + 2))))
        staying = self._some(data)
        self.table.forget(first, end, np.array(staying, np.int64))
        gone = [one for one in self.rows if first <= one < end and not self._is_kept(one) and one not in staying]
        for one in gone:
            del self.rows[one]

    def _is_kept(self, offset: int) -> bool:
        return self.rows[offset][1] in (PENDING, UNDECIDED)

    @rule()
    def begin_again_from_a_snapshot(self) -> None:
        found = decode_snapshot(ScheduleSnapshot.of(self.table, 1, None, 0, 0.0).encode())
        assert found is not None
        self.table = found.schedule(0)

    @rule(data=st.data())
    def ask(self, data: Any) -> None:
        some = self._some(data)
        dues = [self.rows[one][0] if one in self.rows and self.rows[one][1] == PENDING else -1 for one in some]
        assert self.table.dues_of(np.array(some, np.int64)).tolist() == dues
        first, end = sorted((data.draw(st.integers(0, self.next + 2)), data.draw(st.integers(0, self.next + 2))))
        within = {one: row for one, row in self.rows.items() if first <= one < end}
        kept = [one for one in sorted(within) if self._is_kept(one)]
        assert self.table.count_within(first, end) == len(within)
        assert self.table.unsettled_within(first, end) == len(kept)
        assert self.table.unsettled_offsets(first, end).tolist() == kept

    @invariant()
    def every_row_is_as_it_should_be(self) -> None:
        found = {}
        for offset in range(self.next + 3):
            entry = self.table.find(offset)
            if entry is not None:
                found[offset] = (entry.due_ns, entry.state, entry.priority)
        assert found == {one: row for one, row in self.rows.items() if row[1] not in (UNDECIDED, ABORTED)}
        assert self.table.pending == sum(row[1] == PENDING for row in self.rows.values())
        assert self.table.undecided == sum(row[1] == UNDECIDED for row in self.rows.values())
        assert len(self.table) == len(self.rows)


TestTwin = Twin.TestCase
TestTwin.settings = settings(stateful_step_count=25)


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Any:
    """So that a few rows fill several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.delay.schedule.DELAY_CHUNK_ROWS", 7)
        yield


def test_parked_entries_return_when_near() -> None:
    table = DeliverySchedule()
    offsets, dues = np.arange(20), np.arange(20) * 10
    table.add(offsets, dues, np.zeros(20, np.uint8))
    table.park(offsets[12:], dues[12:])
    assert table.far_ns == 120
    table.settle(np.array([13]), CANCELLED)
    near = [number for _, numbers in table.unpark(120, 160) for number in numbers.tolist()]
    assert near == [12, 14, 15]
    assert table.far_ns == 160


def test_still_due_requires_pending_state_and_same_time() -> None:
    table = DeliverySchedule()
    table.add(np.arange(4), np.array([5, 6, 7, 8]), np.zeros(4, np.uint8))
    table.settle(np.array([1]), DELIVERED)
    table.move(np.array([2]), np.array([9]))
    assert table.still_due(np.array([8, 7, 6, 5, 9]), np.array([3, 2, 1, 0, 2])).tolist() == [
        True, False, False, True, True,
    ]  # fmt: skip
