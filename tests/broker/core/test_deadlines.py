"""Deadlines are called back in order, once, and not early."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.deadlines import Deadlines


class Calls:
    """Notes who was called, and says when to be called again."""

    def __init__(self, again: int | None = None) -> None:
        self.deadlines = Deadlines()
        self.made: list[str] = []
        self.again = again
        self.kind = self.deadlines.kind(self._call)

    def _call(self, key: str) -> int | None:
        self.made.append(key)
        return self.again

    def add(self, when_ns: int, key: str | tuple[str, ...]) -> None:
        self.deadlines.add(when_ns, self.kind, key)


def test_callback_can_request_a_later_call() -> None:
    calls = Calls(again=5)
    calls.add(10, "a")
    calls.deadlines.call_due(10)
    assert (calls.made, calls.deadlines.next_ns) == (["a"], 11)


def test_deadline_added_by_a_callback_is_called() -> None:
    calls = Calls()
    kind = calls.deadlines.kind(lambda key: calls.add(12, f"{key}!"))
    calls.deadlines.add(10, kind, "a")
    calls.deadlines.call_due(12)
    assert calls.made == ["a!"]


def test_number_of_calls_per_round_is_limited() -> None:
    calls = Calls()
    for when_ns, key in ((10, "a"), (20, "b"), (30, "c")):
        calls.add(when_ns, key)
    calls.deadlines.call_due(30, 2)
    assert (calls.made, calls.deadlines.next_ns) == (["a", "b"], 30)
    calls.deadlines.call_due(30, 2)
    assert calls.made == ["a", "b", "c"]


def test_deadlines_of_different_kinds_are_independent() -> None:
    calls = Calls()
    others: list[str] = []
    kind = calls.deadlines.kind(others.append)
    calls.add(10, "a")
    calls.deadlines.add(5, kind, "a")
    calls.deadlines.call_due(10)
    assert (calls.made, others) == (["a"], ["a"])


def test_owner_is_notified_of_a_new_earliest_deadline() -> None:
    calls, heard = Calls(), list[int]()
    calls.deadlines.on_earlier.subscribe(heard.append)
    for when_ns, key in ((20, "a"), (30, "b"), (10, "c"), (25, "a"), (5, "b")):
        calls.add(when_ns, key)
    assert heard == [20, 10, 5]


def test_deadlines_repr() -> None:
    calls = Calls()
    calls.add(7, "a")
    assert repr(calls.deadlines) == "<Deadlines 1 next 7>"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 50), st.sampled_from("abcd")),
        st.tuples(st.just("pass"), st.integers(0, 10), st.just("")),
    ),
    max_size=40,
)


@given(steps)
def test_calls_match_naive_model(taken: list[tuple[str, int, str]]) -> None:
    calls, armed, now = Calls(), dict[str, int](), 0
    for kind, number, key in taken:
        if kind == "add":
            calls.add(now + number, key)
            armed[key] = min(armed.get(key, now + number), now + number)
        else:
            now += number
            calls.made.clear()
            calls.deadlines.call_due(now)
            due = sorted((when, name) for name, when in armed.items() if when <= now)
            assert calls.made == [name for _, name in due]
            armed = {name: when for name, when in armed.items() if when > now}
        assert calls.deadlines.next_ns == min(armed.values(), default=None)


def test_replaced_and_forgotten_deadlines_are_removed() -> None:
    calls = Calls()
    for count in range(2000):
        calls.add(10_000 - count, "a")
        calls.add(5_000, (f"group-{count}", "b"))
        calls.deadlines.forget(f"group-{count}")
    assert len(calls.deadlines._heap) < 100
    assert repr(calls.deadlines) == "<Deadlines 1 next 8001>"


def test_forgotten_subject_is_not_called_back() -> None:
    calls, made = Calls(), list[tuple[str, ...]]()
    kind = calls.deadlines.kind(made.append)
    for key in (("a", "1"), ("a", "2", "3"), ("ab", "1")):
        calls.deadlines.add(10, kind, key)
    for name in ("a", "ab"):
        calls.add(10, name)
    calls.deadlines.forget("a")
    calls.deadlines.forget("unknown")
    calls.deadlines.add(11, kind, ("a", "2", "3"))
    calls.deadlines.call_due(20)
    assert (calls.made, made) == (["ab"], [("ab", "1"), ("a", "2", "3")])
    assert (calls.deadlines._armed, calls.deadlines._by_subject) == ({}, {})


def test_cleared_deadlines_are_not_called() -> None:
    calls = Calls()
    calls.deadlines.add(5, calls.kind, "a")
    calls.deadlines.add(6, calls.kind, ("a", 1))
    calls.deadlines.clear()
    calls.deadlines.call_due(10)
    assert (calls.made, calls.deadlines.next_ns) == ([], None)
