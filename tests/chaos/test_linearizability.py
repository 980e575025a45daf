"""Histories of a register that are linearizable, and such that are not."""

from itertools import permutations
from math import inf
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.linearizability import Operation, Outcome, find_order


def cas(called: float, returned: float, expected: int, value: int, outcome: Outcome = "done") -> Operation:
    return Operation(called, returned, expected, value, outcome)


def write(called: float, returned: float, value: int, outcome: Outcome = "done") -> Operation:
    return Operation(called, returned, None, value, outcome)


def read(called: float, returned: float, value: int) -> Operation:
    return Operation(called, returned, value, None)


def is_fine(*operations: Operation) -> bool:
    return find_order(operations, 0) is not None


def test_calls_at_the_same_time_may_happen_in_any_order() -> None:
    assert is_fine(write(0, 9, 1), write(0, 9, 2), read(10, 11, 1), cas(12, 13, 1, 3), read(14, 15, 3))
    assert is_fine(cas(0, 9, 1, 2), cas(0, 9, 0, 1), read(10, 11, 2))


def test_two_changes_of_one_value_cannot_both_be_made() -> None:
    assert not is_fine(cas(0, 9, 0, 1), cas(0, 9, 0, 2))
    assert is_fine(cas(0, 9, 0, 1), cas(0, 9, 0, 2, "refused"))


def test_old_value_is_not_read_after_a_change_was_answered() -> None:
    assert not is_fine(write(0, 1, 1), read(2, 3, 0))
    assert is_fine(write(0, 3, 1), read(1, 2, 0), read(4, 5, 1))


def test_value_does_not_come_back() -> None:
    assert not is_fine(write(0, 1, 1), write(2, 3, 2), read(4, 5, 1))


def test_change_cannot_be_refused_while_nothing_else_can_have_happened() -> None:
    assert not is_fine(cas(0, 1, 0, 1, "refused"))


def test_call_without_an_answer_may_happen_late_or_never() -> None:
    lost = write(0, inf, 1, "unknown")
    assert is_fine(lost, read(1, 2, 0), read(3, 4, 1))
    assert is_fine(lost, read(1, 2, 0), read(3, 4, 0))
    assert not is_fine(lost, read(1, 2, 1), read(3, 4, 0))
    assert not is_fine(read(1, 2, 1), write(3, inf, 1, "unknown"))


def by_brute_force(operations: list[Operation]) -> bool:
    """Try all orders of all subsets with what was answered."""
    needed = {number for number, one in enumerate(operations) if one.outcome != "unknown"}
    for count in range(len(needed), len(operations) + 1):
        for order in permutations(range(len(operations)), count):
            if needed <= set(order) and _happens([operations[number] for number in order]):
                return True
    return False


def _happens(order: list[Operation]) -> bool:
    state = 0
    for number, one in enumerate(order):
        if any(later.returned < one.called for later in order[number + 1 :]):
            return False
        fits, state = one.apply(state)
        if not fits:
            return False
    return True


@given(st.integers(0, 2**32))
def test_checker_agrees_with_trying_all_orders(seed: int) -> None:
    chance, operations = Random(seed), list[Operation]()
    for _ in range(chance.randint(1, 5)):
        called = chance.randint(0, 6)
        kind, value = chance.choice((cas, write, read)), chance.randint(0, 2)
        returned = called + chance.randint(1, 4)
        if kind is read:
            operations.append(read(called, returned, value))
            continue
        outcome: Outcome = chance.choice(("done", "done", "refused" if kind is cas else "done", "unknown"))
        end = inf if outcome == "unknown" else returned
        change = (
            cas(called, end, chance.randint(0, 2), value, outcome)
            if kind is cas
            else write(called, end, value, outcome)
        )
        operations.append(change)
    assert (find_order(operations, 0) is not None) is by_brute_force(operations)
