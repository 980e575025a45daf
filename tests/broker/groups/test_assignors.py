"""Who gets which partition: examples, and naive twins that count everything out."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.groups.assignors import Assignment, Place, Request, Strategy, assign

STRATEGIES: tuple[Strategy, ...] = ("sticky", "range", "round_robin")


def request(
    subscriptions: Mapping[str, str], partitions: Mapping[str, int], owned: Mapping[str, list[Place]] | None = None
) -> Request:
    """Topics have one letter here, so a subscription is a word."""
    return Request(subscriptions, partitions, owned or {})


def places(topic: str, *partitions: int) -> list[Place]:
    return [(topic, partition) for partition in partitions]


# --- examples ---


def test_range_gives_neighbours_and_the_first_ones_one_more() -> None:
    assert assign("range", request({"a": "t", "b": "t"}, {"t": 5})) == {
        "a": places("t", 0, 1, 2),
        "b": places("t", 3, 4),
    }


def test_range_brings_the_same_partitions_of_several_topics_together() -> None:
    assignment = assign("range", request({"a": "tu", "b": "tu"}, {"t": 2, "u": 2}))
    assert assignment == {"a": [("t", 0), ("u", 0)], "b": [("t", 1), ("u", 1)]}


def test_round_robin_deals_across_topics() -> None:
    assignment = assign("round_robin", request({"a": "tu", "b": "tu"}, {"t": 3, "u": 3}))
    assert assignment == {"a": [("t", 0), ("t", 2), ("u", 1)], "b": [("t", 1), ("u", 0), ("u", 2)]}


def test_round_robin_passes_over_those_who_do_not_subscribe() -> None:
    assignment = assign("round_robin", request({"a": "t", "b": "u", "c": "tu"}, {"t": 2, "u": 2}))
    assert assignment == {"a": places("t", 0), "b": places("u", 0), "c": [("t", 1), ("u", 1)]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_without_members_gets_nothing(strategy: Strategy) -> None:
    assert assign(strategy, request({}, {"t": 3}, {"gone": places("t", 0)})) == {}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_without_partitions_have_an_entry_all_the_same(strategy: Strategy) -> None:
    subscriptions = {"a": "t", "b": "t", "c": "", "d": "x"}
    assert assign(strategy, request(subscriptions, {"t": 1})) == {"a": places("t", 0), "b": [], "c": [], "d": []}


def test_a_member_that_joins_gets_its_part_and_nobody_else_gets_anything() -> None:
    owned = {"a": places("t", 0, 1, 2), "b": places("t", 3, 4, 5)}
    assignment = assign("sticky", request({"a": "t", "b": "t", "c": "t"}, {"t": 6}, owned))
    assert assignment == {"a": places("t", 0, 1), "b": places("t", 3, 4), "c": places("t", 2, 5)}


def test_what_a_member_leaves_behind_goes_to_the_others_who_keep_all_they_have() -> None:
    owned = {"a": places("t", 0, 3), "b": places("t", 1, 4), "c": places("t", 2, 5)}
    assignment = assign("sticky", request({"a": "t", "c": "t"}, {"t": 6}, owned))
    assert assignment == {"a": places("t", 0, 1, 3), "c": places("t", 2, 4, 5)}


def test_new_partitions_move_no_old_ones() -> None:
    owned = {"a": places("t", 0), "b": places("t", 1)}
    assignment = assign("sticky", request({"a": "t", "b": "t"}, {"t": 4}, owned))
    assert assignment == {"a": places("t", 0, 2), "b": places("t", 1, 3)}


def test_one_more_than_the_others_is_kept_by_who_has_it() -> None:
    owned = {"a": places("t", 0), "b": places("t", 1, 2)}
    assert assign("sticky", request({"a": "t", "b": "t"}, {"t": 3}, owned)) == owned


def test_what_is_owned_no_longer_counts_once_it_cannot_be_kept() -> None:
    owned = {"a": [("t", 7), ("gone", 0), ("u", 0)], "gone": places("t", 0)}
    assignment = assign("sticky", request({"a": "t", "b": "tu"}, {"t": 2, "u": 1}, owned))
    assert assignment == {"a": places("t", 0, 1), "b": places("u", 0)}


def test_a_place_that_two_members_claim_stays_with_one_who_may_have_it() -> None:
    owned = {"a": places("t", 0, 1), "b": places("t", 1), "c": places("t", 1)}
    assert assign("sticky", request({"b": "t", "c": "t"}, {"t": 2}, owned)) == {
        "b": places("t", 1),
        "c": places("t", 0),
    }


def test_balance_is_found_along_a_chain_when_no_direct_move_helps() -> None:
    owned = {"a": places("t", 0, 1, 2), "b": places("u", 0, 1), "c": places("u", 2)}
    assignment = assign("sticky", request({"a": "t", "b": "tu", "c": "u"}, {"t": 3, "u": 3}, owned))
    assert {member: len(found) for member, found in assignment.items()} == {"a": 2, "b": 2, "c": 2}
    assert moved(owned, assignment) == 2


def test_what_nobody_owns_is_placed_so_that_nothing_owned_has_to_move() -> None:
    owned = {"a": places("u", 0, 1), "b": places("s", 1), "c": places("s", 2), "gone": [("s", 0), ("t", 0)]}
    assignment = assign("sticky", request({"a": "tu", "b": "st", "c": "su"}, {"s": 3, "t": 1, "u": 2}, owned))
    assert assignment == {"a": places("u", 0, 1), "b": [("s", 1), ("t", 0)], "c": places("s", 0, 2)}


# --- what holds for all ---

MEMBERS = "abcd"
TOPICS = "tuv"


@st.composite
def requests(draw: st.DrawFn, *, same_subscriptions: bool = False, partitions_max: int = 5) -> Request:
    """Also with members that are gone, topics that nobody knows, and places that are no more."""
    members = draw(st.sets(st.sampled_from(MEMBERS)))
    wanted = st.sets(st.sampled_from(TOPICS + "x"))
    same = draw(wanted)
    subscriptions = {member: same if same_subscriptions else draw(wanted) for member in members}
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, partitions_max)))
    any_place = st.tuples(st.sampled_from(TOPICS + "x"), st.integers(0, partitions_max))
    owners = draw(st.dictionaries(any_place, st.sampled_from(MEMBERS + "z"), max_size=12))
    return Request(subscriptions, partitions, by_member(owners))


def by_member(owners: Mapping[Place, str]) -> dict[str, set[Place]]:
    return {member: {place for place in owners if owners[place] == member} for member in set(owners.values())}


def to_be_assigned(asked: Request) -> list[Place]:
    topics = {topic for wanted in asked.subscriptions.values() for topic in wanted}
    return [
        (topic, partition)
        for topic in sorted(topics & asked.partitions.keys())
        for partition in range(asked.partitions[topic])
    ]


def moved(owned: Mapping[str, list[Place]], assignment: Assignment) -> int:
    return sum(place not in assignment.get(member, []) for member, had in owned.items() for place in had)


def kept(asked: Request, assignment: Assignment) -> int:
    return sum(place in asked.owned.get(member, ()) for member, found in assignment.items() for place in found)


def squares(assignment: Assignment) -> int:
    """The less it is, the better the balance."""
    return sum(len(found) ** 2 for found in assignment.values())


def all_assignments(asked: Request) -> list[Assignment]:
    wanting = [
        [(place, member) for member, topics in asked.subscriptions.items() if place[0] in topics]
        for place in to_be_assigned(asked)
    ]
    return [
        {member: [place for place, owner in choice if owner == member] for member in asked.subscriptions}
        for choice in product(*wanting)
    ]


small = requests(partitions_max=2)
small_and_same = requests(same_subscriptions=True, partitions_max=2)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(asked=requests())
def test_every_partition_goes_to_one_who_subscribes_to_it(strategy: Strategy, asked: Request) -> None:
    assignment = assign(strategy, asked)
    assert list(assignment) == sorted(asked.subscriptions)
    assert all(found == sorted(found) for found in assignment.values())
    assert sorted(place for found in assignment.values() for place in found) == to_be_assigned(asked)
    assert all(topic in asked.subscriptions[member] for member, found in assignment.items() for topic, _ in found)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(asked=requests())
def test_the_order_in_which_things_are_told_does_not_matter(strategy: Strategy, asked: Request) -> None:
    other_way = Request(
        {member: sorted(topics, reverse=True) * 2 for member, topics in reversed(list(asked.subscriptions.items()))},
        dict(reversed(list(asked.partitions.items()))),
        {member: sorted(found, reverse=True) * 2 for member, found in reversed(list(asked.owned.items()))},
    )
    assert list(assign(strategy, other_way).items()) == list(assign(strategy, asked).items())


@given(requests())
def test_range_and_round_robin_do_what_is_said_of_them(asked: Request) -> None:
    assert assign("range", asked) == naive_range(asked)
    assert assign("round_robin", asked) == naive_round_robin(asked)


def naive_range(asked: Request) -> Assignment:
    assignment: Assignment = {member: [] for member in asked.subscriptions}
    for topic in sorted(asked.partitions):
        members = sorted(member for member, topics in asked.subscriptions.items() if topic in topics)
        if members:
            counts = [0] * len(members)
            for number in range(asked.partitions[topic]):
                counts[number % len(members)] += 1
            left = places(topic, *range(asked.partitions[topic]))
            for member, count in zip(members, counts, strict=True):
                assignment[member] += left[:count]
                left = left[count:]
    return assignment


def naive_round_robin(asked: Request) -> Assignment:
    assignment: Assignment = {member: [] for member in asked.subscriptions}
    members = sorted(asked.subscriptions)
    turn = 0
    for topic, partition in to_be_assigned(asked):
        while topic not in asked.subscriptions[members[turn % len(members)]]:
            turn += 1
        assignment[members[turn % len(members)]].append((topic, partition))
        turn += 1
    return assignment


@given(requests(same_subscriptions=True, partitions_max=9))
def test_sticky_counts_differ_by_one_at_most_when_all_want_the_same(asked: Request) -> None:
    counts = [len(found) for found in assign("sticky", asked).values()]
    assert not counts or max(counts) - min(counts) <= 1


@given(requests(partitions_max=9))
def test_nobody_could_take_a_place_from_one_who_has_two_more(asked: Request) -> None:
    assignment = assign("sticky", asked)
    for taker, topics in asked.subscriptions.items():
        for giver, found in assignment.items():
            if any(topic in topics for topic, _ in found):
                assert len(found) - len(assignment[taker]) <= 1, f"{taker} could take from {giver}"


@given(small)
def test_no_assignment_is_balanced_better_than_the_sticky_one(asked: Request) -> None:
    assert squares(assign("sticky", asked)) == min(map(squares, all_assignments(asked)))


@given(small_and_same)
def test_no_balanced_assignment_moves_less_than_the_sticky_one(asked: Request) -> None:
    assignment = assign("sticky", asked)
    balanced = [other for other in all_assignments(asked) if squares(other) == squares(assignment)]
    assert kept(asked, assignment) == max(kept(asked, other) for other in balanced)


@given(requests(partitions_max=9))
def test_what_is_assigned_once_is_assigned_again(asked: Request) -> None:
    assignment = assign("sticky", asked)
    assert assign("sticky", Request(asked.subscriptions, asked.partitions, assignment)) == assignment


@given(requests(same_subscriptions=True, partitions_max=9), st.sampled_from(MEMBERS))
def test_who_leaves_takes_nothing_from_the_others_and_who_joins_gives_them_nothing(asked: Request, one: str) -> None:
    everybody = {**asked.subscriptions, one: next(iter(asked.subscriptions.values()), {"t"})}
    others = {member: topics for member, topics in everybody.items() if member != one}
    with_it = assign("sticky", Request(everybody, asked.partitions, asked.owned))
    left = assign("sticky", Request(others, asked.partitions, with_it))
    assert moved({member: with_it[member] for member in others}, left) == 0
    joined = assign("sticky", Request(everybody, asked.partitions, left))
    assert all(set(joined[member]) <= set(left[member]) for member in others)


@given(small)
def test_what_is_owned_moves_only_where_balance_cannot_be_had_without(asked: Request) -> None:
    assignment = assign("sticky", asked)
    at_home = [
        place
        for place in to_be_assigned(asked)
        for member, topics in asked.subscriptions.items()
        if place[0] in topics and place in asked.owned.get(member, ())
    ]
    balanced = [other for other in all_assignments(asked) if squares(other) == squares(assignment)]
    if any(kept(asked, other) == len(at_home) for other in balanced):
        assert kept(asked, assignment) == len(at_home)
