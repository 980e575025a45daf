"""A checker of linearizability for one register that is read, written, and changed by compare and set.

Each operation must seem to happen at one moment between its call and its return. One without an answer may happen at
any time after its call, or never. The search tries all orders that this allows, and remembers what it has tried: Wing
and Gong's algorithm with the memory of Lowe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. A read has only `expected`, what it returned; a write has only `value`; a compare and set has both."""

    called: float
    returned: float
    """Infinite without an answer."""
    expected: int | None
    value: int | None
    outcome: Outcome = "done"

    def apply(self, state: int) -> tuple[bool, int]:
        """Return whether it can have had its outcome in this state, and the state after it."""
        if self.value is None:
            return state == self.expected, state
        is_set = self.expected is None or state == self.expected
        if self.outcome == "refused":
            return not is_set, state
        return is_set, self.value


def find_order(operations: Sequence[Operation], state: int) -> list[Operation] | None:
    """Return an order in which everything happened one after the other; None if there is none."""
    calls = sorted(operations, key=lambda one: one.called)
    needed = sum(1 << number for number, one in enumerate(calls) if one.outcome != "unknown")
    tried: set[tuple[int, int]] = set()
    path: list[tuple[int, int, int]] = []  # what is done, the state, and the next call to try
    done, number = 0, 0
    while done & needed != needed:
        found = None
        deadline = min((one.returned for at, one in enumerate(calls) if not done >> at & 1), default=inf)
        while number < len(calls) and calls[number].called <= deadline:
            one = calls[number]
            if not done >> number & 1:
                fits, after = one.apply(state)
                if fits and (done | 1 << number, after) not in tried:
                    found = done | 1 << number, after
                    break
            number += 1
        if found is not None:
            tried.add(found)
            path.append((done, state, number))
            (done, state), number = found, 0
        elif path:
            done, state, number = path.pop()
            number += 1
        else:
            return None
    return [calls[number] for _, _, number in path]
