"""What is due when: in its order, once, and not before."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.deadlines import Deadlines


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

    def add(self, when_ns: int, key: str) -> None:
        self.deadlines.add(when_ns, self.kind, key)


def test_what_is_due_is_called_in_its_order_and_once() -> None:
    calls = Calls()
    for when_ns, key in ((30, "c"), (10, "a"), (20, "b"), (40, "d")):
        calls.add(when_ns, key)
    calls.deadlines.call_due(30)
    calls.deadlines.call_due(30)
    assert calls.made == ["a", "b", "c"]
    assert calls.deadlines.next_ns == 40


def test_an_earlier_deadline_stands_and_a_later_one_does_not_replace_it() -> None:
    calls = Calls()
    calls.add(20, "a")
    calls.add(10, "a")
    calls.add(30, "a")
    assert calls.deadlines.next_ns == 10
    calls.deadlines.call_due(100)
    assert calls.made == ["a"]
    assert calls.deadlines.next_ns is None


def test_who_is_called_says_when_to_be_called_again_and_that_is_never_at_once() -> None:
    calls = Calls(again=5)
    calls.add(10, "a")
    calls.deadlines.call_due(10)
    assert (calls.made, calls.deadlines.next_ns) == (["a"], 11)


def test_what_is_put_in_while_it_is_called_is_called_as_well() -> None:
    calls = Calls()
    kind = calls.deadlines.kind(lambda key: calls.add(12, f"{key}!"))
    calls.deadlines.add(10, kind, "a")
    calls.deadlines.call_due(12)
    assert calls.made == ["a!"]


def test_of_many_that_are_due_some_are_called_and_the_others_stay_due() -> None:
    calls = Calls()
    for when_ns, key in ((10, "a"), (20, "b"), (30, "c")):
        calls.add(when_ns, key)
    calls.deadlines.call_due(30, 2)
    assert (calls.made, calls.deadlines.next_ns) == (["a", "b"], 30)
    calls.deadlines.call_due(30, 2)
    assert calls.made == ["a", "b", "c"]


def test_kinds_do_not_know_each_other() -> None:
    calls = Calls()
    others: list[str] = []
    kind = calls.deadlines.kind(others.append)
    calls.add(10, "a")
    calls.deadlines.add(5, kind, "a")
    calls.deadlines.call_due(10)
    assert (calls.made, others) == (["a"], ["a"])


def test_the_owner_hears_of_what_comes_before_all_others() -> None:
    calls, heard = Calls(), list[int]()
    calls.deadlines.on_earlier = heard.append
    for when_ns, key in ((20, "a"), (30, "b"), (10, "c"), (25, "a"), (5, "b")):
        calls.add(when_ns, key)
    assert heard == [20, 10, 5]


def test_it_shows_how_many_there_are_and_the_next() -> None:
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
def test_every_key_is_called_at_the_earliest_moment_that_was_asked_for(taken: list[tuple[str, int, str]]) -> None:
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


def test_what_was_brought_forward_or_forgotten_does_not_pile_up() -> None:
    calls = Calls()
    for count in range(2000):
        calls.add(10_000 - count, "a")
        calls.add(5_000, f"group-{count}/b")
        calls.deadlines.forget(f"group-{count}")
    assert len(calls.deadlines._heap) < 100
    assert repr(calls.deadlines) == "<Deadlines 1 next 8001>"


def test_of_whom_is_forgotten_nothing_is_called() -> None:
    calls = Calls()
    for key in ("a", "a/1", "a/2/3", "ab", "ab/1"):
        calls.add(10, key)
    calls.deadlines.forget("a")
    calls.deadlines.forget("nobody")
    calls.add(11, "a/2/3")
    calls.deadlines.call_due(20)
    assert calls.made == ["ab", "ab/1", "a/2/3"]
    assert (calls.deadlines._armed, calls.deadlines._about) == ({}, {})
