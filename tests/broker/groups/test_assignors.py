"""Assignors: examples, and naive models that enumerate all assignments."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.assignors import Assignment, AssignmentInput, assign
from goqueue.broker.groups.records import Strategy

STRATEGIES: tuple[Strategy, ...] = ("sticky", "range", "round_robin")


def refs(text: str) -> list[PartitionRef]:
    """Topics have one letter here: `t0 t1` are two partitions of t, and a subscription is a word."""
    return [PartitionRef(word[0], int(word[1:])) for word in text.split()]


@pytest.mark.parametrize(
    ("subscriptions", "partitions", "owned", "expected"),
    [
        pytest.param(
            "b:t c:t",
            {"t": 2},
            {"a": "t0 t1", "b": "t1", "c": "t1"},
            {"b": "t1", "c": "t0"},
            id="double_claims_are_resolved",
        ),
        pytest.param(
            "a:tu b:st c:su",
            {"s": 3, "t": 1, "u": 2},
            {"a": "u0 u1", "b": "s1", "c": "s2", "gone": "s0 t0"},
            {"a": "u0 u1", "b": "s1 t0", "c": "s0 s2"},
            id="unowned_partitions_move_no_owned_ones",
        ),
    ],
)
def test_sticky_assignment_example(
    subscriptions: str,
    partitions: dict[str, int],
    owned: dict[str, str],
    expected: dict[str, str],
) -> None:
    wanted: dict[str, str] = dict(word.split(":") for word in subscriptions.split())
    asked = AssignmentInput(wanted, partitions, {member: refs(text) for member, text in owned.items()})
    assert assign("sticky", asked) == {member: refs(text) for member, text in expected.items()}


def test_sticky_balances_along_a_chain_of_moves() -> None:
    owned = {"a": refs("t0 t1 t2"), "b": refs("u0 u1"), "c": refs("u2")}
    assignment = assign("sticky", AssignmentInput({"a": "t", "b": "tu", "c": "u"}, {"t": 3, "u": 3}, owned))
    assert {member: len(found) for member, found in assignment.items()} == {"a": 2, "b": 2, "c": 2}
    assert moved(owned, assignment) == 2


# --- what holds for all ---

MEMBERS = "abcd"
TOPICS = "tuv"


@st.composite
def requests(draw: st.DrawFn, *, same_subscriptions: bool = False, partitions_max: int = 5) -> AssignmentInput:
    """Also with members that are gone, unknown topics, and partitions that are gone."""
    members = draw(st.sets(st.sampled_from(MEMBERS)))
    wanted = st.sets(st.sampled_from(TOPICS + "x"))
    same = draw(wanted)
    subscriptions = {member: same if same_subscriptions else draw(wanted) for member in members}
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, partitions_max)))
    any_ref = st.builds(PartitionRef, st.sampled_from(TOPICS + "x"), st.integers(0, partitions_max))
    owners = draw(st.dictionaries(any_ref, st.sampled_from(MEMBERS + "z"), max_size=12))
    return AssignmentInput(subscriptions, partitions, by_member(owners))


def by_member(owners: Mapping[PartitionRef, str]) -> dict[str, set[PartitionRef]]:
    return {member: {ref for ref in owners if owners[ref] == member} for member in set(owners.values())}


def to_be_assigned(asked: AssignmentInput) -> list[PartitionRef]:
    topics = {topic for wanted in asked.subscriptions.values() for topic in wanted}
    return [
        PartitionRef(topic, partition)
        for topic in sorted(topics & asked.partitions.keys())
        for partition in range(asked.partitions[topic])
    ]


def moved(owned: Mapping[str, list[PartitionRef]], assignment: Assignment) -> int:
    return sum(ref not in assignment.get(member, []) for member, had in owned.items() for ref in had)


def kept(asked: AssignmentInput, assignment: Assignment) -> int:
    return sum(ref in asked.owned.get(member, ()) for member, found in assignment.items() for ref in found)


def squares(assignment: Assignment) -> int:
    """The less it is, the better the balance."""
    return sum(len(found) ** 2 for found in assignment.values())


def all_assignments(asked: AssignmentInput) -> list[Assignment]:
    wanting = [
        [(ref, member) for member, topics in asked.subscriptions.items() if ref[0] in topics]
        for ref in to_be_assigned(asked)
    ]
    return [
        {member: [ref for ref, owner in choice if owner == member] for member in asked.subscriptions}
        for choice in product(*wanting)
    ]


small = requests(partitions_max=2)
small_and_same = requests(same_subscriptions=True, partitions_max=2)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(asked=requests())
def test_every_partition_goes_to_one_subscriber(strategy: Strategy, asked: AssignmentInput) -> None:
    assignment = assign(strategy, asked)
    assert list(assignment) == sorted(asked.subscriptions)
    assert all(found == sorted(found) for found in assignment.values())
    assert sorted(ref for found in assignment.values() for ref in found) == to_be_assigned(asked)
    assert all(topic in asked.subscriptions[member] for member, found in assignment.items() for topic, _ in found)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(asked=requests())
def test_assignment_is_independent_of_input_order(strategy: Strategy, asked: AssignmentInput) -> None:
    other_way = AssignmentInput(
        {member: sorted(topics, reverse=True) * 2 for member, topics in reversed(list(asked.subscriptions.items()))},
        dict(reversed(list(asked.partitions.items()))),
        {member: sorted(found, reverse=True) * 2 for member, found in reversed(list(asked.owned.items()))},
    )
    assert list(assign(strategy, other_way).items()) == list(assign(strategy, asked).items())


@given(requests())
def test_range_and_round_robin_match_naive_models(asked: AssignmentInput) -> None:
    assert assign("range", asked) == naive_range(asked)
    assert assign("round_robin", asked) == naive_round_robin(asked)


def naive_range(asked: AssignmentInput) -> Assignment:
    assignment: Assignment = {member: [] for member in asked.subscriptions}
    for topic in sorted(asked.partitions):
        members = sorted(member for member, topics in asked.subscriptions.items() if topic in topics)
        if members:
            counts = [0] * len(members)
            for number in range(asked.partitions[topic]):
                counts[number % len(members)] += 1
            left = [PartitionRef(topic, number) for number in range(asked.partitions[topic])]
            for member, count in zip(members, counts, strict=True):
                assignment[member] += left[:count]
                left = left[count:]
    return assignment


def naive_round_robin(asked: AssignmentInput) -> Assignment:
    assignment: Assignment = {member: [] for member in asked.subscriptions}
    members = sorted(asked.subscriptions)
    turn = 0
    for topic, partition in to_be_assigned(asked):
        while topic not in asked.subscriptions[members[turn % len(members)]]:
            turn += 1
        assignment[members[turn % len(members)]].append(PartitionRef(topic, partition))
        turn += 1
    return assignment


@given(requests(partitions_max=9))
def test_sticky_leaves_no_improving_single_move(asked: AssignmentInput) -> None:
    assignment = assign("sticky", asked)
    for taker, topics in asked.subscriptions.items():
        for giver, found in assignment.items():
            if any(topic in topics for topic, _ in found):
                assert len(found) - len(assignment[taker]) <= 1, f"{taker} could take from {giver}"


@given(small)
def test_sticky_assignment_is_optimally_balanced(asked: AssignmentInput) -> None:
    assert squares(assign("sticky", asked)) == min(map(squares, all_assignments(asked)))


@given(small_and_same)
def test_sticky_assignment_moves_fewest_partitions(asked: AssignmentInput) -> None:
    assignment = assign("sticky", asked)
    balanced = [other for other in all_assignments(asked) if squares(other) == squares(assignment)]
    assert kept(asked, assignment) == max(kept(asked, other) for other in balanced)


@given(requests(partitions_max=9))
def test_sticky_assignment_is_stable(asked: AssignmentInput) -> None:
    assignment = assign("sticky", asked)
    assert assign("sticky", AssignmentInput(asked.subscriptions, asked.partitions, assignment)) == assignment


@given(requests(same_subscriptions=True, partitions_max=9), st.sampled_from(MEMBERS))
def test_sticky_leave_and_rejoin_move_nothing_else(asked: AssignmentInput, one: str) -> None:
    subscriptions = {**asked.subscriptions, one: next(iter(asked.subscriptions.values()), {"t"})}
    others = {member: topics for member, topics in subscriptions.items() if member != one}
    with_it = assign("sticky", AssignmentInput(subscriptions, asked.partitions, asked.owned))
    left = assign("sticky", AssignmentInput(others, asked.partitions, with_it))
    assert moved({member: with_it[member] for member in others}, left) == 0
    joined = assign("sticky", AssignmentInput(subscriptions, asked.partitions, left))
    assert all(set(joined[member]) <= set(left[member]) for member in others)


@given(small)
def test_sticky_moves_owned_partitions_only_for_balance(asked: AssignmentInput) -> None:
    assignment = assign("sticky", asked)
    at_home = [
        ref
        for ref in to_be_assigned(asked)
        for member, topics in asked.subscriptions.items()
        if ref[0] in topics and ref in asked.owned.get(member, ())
    ]
    balanced = [other for other in all_assignments(asked) if squares(other) == squares(assignment)]
    if any(kept(asked, other) == len(at_home) for other in balanced):
        assert kept(asked, assignment) == len(at_home)
