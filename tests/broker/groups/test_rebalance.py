"""From one assignment to the next: examples, and what holds whatever members do, or do not."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.assignors import Strategy
from goqueue.broker.groups.group import Group, Member, Protocol
from goqueue.broker.groups.rebalance import begin, come_back, fence, force, give_up, give_up_all

SIX = {"t": 6}


def member(name: str, topics: str = "t", confirms: bool = True) -> Member:
    return Member(name, name, tuple(topics), 30, 100, 1, confirms)


def places(*numbers: int, topic: str = "t") -> list[Place]:
    return [(topic, number) for number in numbers]


def rebalanced(
    group: Group,
    joining: Collection[Member] = (),
    leaving: Collection[str] = (),
    partitions: dict[str, int] | None = None,
) -> Group:
    return begin(
        group,
        joining=joining,
        leaving=leaving,
        partitions=SIX if partitions is None else partitions,
        reasons=["join"],
        now_ns=1,
    )


def group_of(*names: str, **fields: Any) -> Group:
    return rebalanced(Group(group="g", **fields), [member(name) for name in names])


# --- cooperative ---


def test_the_first_member_has_everything_at_once() -> None:
    group = group_of("a")
    assert (group.phase, group.generation, group.assignment) == ("complete", 1, {"a": places(0, 1, 2, 3, 4, 5)})


def test_members_that_come_together_share_in_one_generation() -> None:
    group = group_of("a", "b", "c")
    assert group.generation == 1
    assert [len(has) for has in group.assignment.values()] == [2, 2, 2]


def test_what_moves_is_asked_back_and_the_others_go_on() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    assert (group.phase, group.generation) == ("pending_revoke", 2)
    assert (group.to_work_on("a"), group.to_give_up("a")) == (places(0, 1, 2), places(3, 4, 5))
    assert group.assignment["b"] == []


def test_what_was_given_up_goes_on_in_the_next_generation_while_more_is_asked_for() -> None:
    group = give_up(rebalanced(group_of("a"), [member("b")]), "a", places(3))
    assert (group.phase, group.generation, group.members["a"].since) == ("pending_revoke", 3, 3)
    assert group.assignment == {"a": places(0, 1, 2, 4, 5), "b": places(3)}
    group = give_up(group, "a", places(4, 5))
    assert (group.phase, group.assignment["b"]) == ("complete", places(3, 4, 5))


def test_what_nobody_asked_for_cannot_be_given_up() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    assert give_up(group, "a", [*places(0), ("other", 3)]) is group
    complete = group_of("a", "b")
    assert give_up(complete, "a", places(0)) is complete


def test_what_many_let_go_of_at_once_is_one_generation() -> None:
    group = rebalanced(group_of("a", "b"), [member("c")])
    asked = {name: group.to_give_up(name) for name in "ab"}
    assert all(asked.values())
    after = give_up_all(group, asked)
    assert (after.generation, after.phase) == (group.generation + 1, "complete")
    assert {name: after.members[name].since for name in "ab"} == dict.fromkeys("ab", after.generation)
    assert sorted(map(len, after.assignment.values())) == [2, 2, 2]
    assert give_up_all(after, asked) is after


def test_members_that_keep_what_they_have_are_not_stale() -> None:
    group = rebalanced(group_of("a", "b", "c"), leaving=["c"])
    assert group.phase == "complete"
    assert [group.members[name].since for name in "ab"] == [1, 1]


def test_when_another_comes_meanwhile_it_is_worked_out_anew_from_who_has_what() -> None:
    group = rebalanced(rebalanced(group_of("a"), [member("b")]), [member("c")])
    assert group.to_give_up("a") == places(2, 3, 4, 5)
    group = give_up(group, "a", places(2, 3, 4, 5))
    assert [len(group.assignment[name]) for name in "abc"] == [2, 2, 2]
    assert group.phase == "complete"


def test_whoever_is_late_loses_what_was_asked_for_and_nothing_else() -> None:
    group = force(rebalanced(group_of("a"), [member("b")]), ["a"], SIX, 9)
    assert (group.phase, group.assignment["a"], group.members["a"].since) == ("complete", places(0, 1, 2), 3)
    assert "revocation_timeout" in group.reasons


def test_when_the_last_one_has_left_the_group_knows_since_when_and_keeps_it() -> None:
    group = begin(group_of("a"), leaving=["a"], partitions=SIX, reasons=["leave"], now_ns=7)
    assert (group.members, group.assignment, group.emptied_ns, group.phase) == ({}, {}, 7, "complete")
    later = begin(group, partitions=SIX, reasons=["topics_changed"], now_ns=9)
    assert later.emptied_ns == 7
    assert rebalanced(later, [member("a")]).emptied_ns == 0


def test_who_lost_something_after_it_had_asked_to_join_again_is_stale_all_the_same() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    again = group.members["a"]
    group = give_up(group, "a", places(3))
    assert rebalanced(group, [again]).members["a"].since == 3


def test_reasons_gather_until_a_rebalance_is_complete() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    group = begin(group, leaving=["b"], partitions=SIX, reasons=["leave"], now_ns=2)
    assert (group.reasons, group.began_ns) == (["join", "leave"], 1)
    assert begin(group, partitions=SIX, reasons=["topics_changed"], now_ns=3).reasons == ["topics_changed"]


def test_places_of_a_topic_that_is_gone_are_asked_back_and_go_to_nobody() -> None:
    before = group_of("a", "b")
    group = rebalanced(before, partitions={})
    assert (group.to_give_up("a"), group.to_work_on("a")) == (before.assignment["a"], [])
    for name in "ab":
        group = give_up(group, name, group.to_give_up(name))
    assert (group.phase, group.assignment) == ("complete", {"a": [], "b": []})


# --- eager ---


def test_eager_everybody_stops_until_the_last_one_is_back() -> None:
    group = rebalanced(group_of("a", "b", protocol="eager"), [member("c")])
    assert (group.awaited, group.generation) == (["a", "b"], 1)
    assert [group.to_work_on(name) for name in "abc"] == [[], [], []]
    group = come_back(group, "a", SIX)
    assert (group.awaited, group.phase, group.to_work_on("a")) == (["b"], "pending_revoke", [])
    group = come_back(group, "b", SIX)
    assert (group.phase, group.generation) == ("complete", 2)
    assert [len(group.to_work_on(name)) for name in "abc"] == [2, 2, 2]
    assert {one.since for one in group.members.values()} == {2}


def test_eager_who_is_back_has_nothing_in_hand_and_the_others_may_have() -> None:
    group = come_back(rebalanced(group_of("a", "b", protocol="eager"), [member("c")]), "a", SIX)
    assert set(group.owners().values()) == {"b"}


def test_eager_who_does_not_come_back_is_no_member_any_more() -> None:
    group = rebalanced(group_of("a", "b", protocol="eager"), [member("c")])
    group = force(come_back(group, "b", SIX), ["a"], SIX, 9)
    assert (sorted(group.members), group.phase) == (["b", "c"], "complete")
    assert [len(group.assignment[name]) for name in "bc"] == [3, 3]


def test_eager_when_nobody_comes_back_the_group_is_empty() -> None:
    group = rebalanced(group_of("a", "b", protocol="eager"), leaving=["b"])
    assert force(group, ["a"], SIX, 9).emptied_ns == 9


def test_eager_who_has_come_back_is_not_asked_again_when_another_one_joins() -> None:
    group = come_back(rebalanced(group_of("a", "b", protocol="eager"), [member("c")]), "a", SIX)
    assert rebalanced(group, [member("d")]).awaited == ["b"]


def test_who_is_not_awaited_cannot_come_back() -> None:
    group = group_of("a", protocol="eager")
    assert come_back(group, "a", SIX) is group


def test_a_fence_makes_everything_stale_that_was_said_before() -> None:
    group = fence(group_of("a", "b"))
    assert group.generation == 2
    assert {one.since for one in group.members.values()} == {2}


# --- what holds for all ---

NAMES = "abcde"
Step = tuple[str, Any]


@dataclass
class Story:
    """A group, and what is checked whenever it changes."""

    group: Group
    partitions: dict[str, int] = field(default_factory=lambda: {"t": 4, "u": 2})

    def take(self, step: Step) -> None:
        kind, what = step
        group, names = self.group, sorted(self.group.members)
        match kind:
            case "begin":
                coming, going, self.partitions = what
                joining = [member(name, topics) for name, topics in coming.items() if name not in going]
                after = rebalanced(group, joining, [name for name in names if name in going], self.partitions)
            case "fence":
                after = fence(group)
            case "force":
                asked = [name for name in names if group.to_give_up(name) or name in group.awaited]
                late = [name for name in asked if name in what]
                if not late:
                    return
                after = force(group, late, self.partitions, 9)
            case _:
                if group.protocol == "eager":
                    after = come_back(group, what[0], self.partitions)
                else:
                    asked_for = group.to_give_up(what[0]) if what[0] in names else []
                    after = give_up(group, what[0], asked_for[: what[1]]) if asked_for else group
        self.check(group, after, is_fence=kind == "fence", is_begin=kind == "begin")
        self.group = after

    def check(self, before: Group, after: Group, *, is_fence: bool, is_begin: bool) -> None:
        given = [place for has in after.assignment.values() for place in has]
        assert len(given) == len(set(given)), "a place has one owner"
        assert after.assignment.keys() == after.members.keys()
        staying = before.members.keys() & after.members.keys()
        changed = {name for name in staying if set(before.assignment[name]) != set(after.assignment[name])}
        # Several may be forced at once: each who loses something is a generation of its own.
        assert after.generation >= before.generation
        assert (after.generation > before.generation) >= bool(changed)
        if is_fence or (is_begin and after.protocol == "cooperative"):
            assert after.generation == before.generation + 1
        for name in staying if not is_fence else ():
            lost = set(before.assignment[name]) - set(after.assignment[name])
            if after.protocol == "cooperative":
                assert (after.members[name].since > before.members[name].since) == bool(lost), name
            elif lost:
                assert after.members[name].since == after.generation
        if after.phase == "complete":
            assert set(given) == wanted(after, self.partitions)
            assert (after.target, after.awaited) == ({}, [])
            assert not any(after.to_give_up(name) for name in after.members)
        elif after.protocol == "cooperative":
            assert any(after.to_give_up(name) for name in after.members)
            for name in after.members:
                kept = set(after.assignment[name]) & set(after.target[name])
                assert set(after.to_work_on(name)) == kept
        assert bool(after.emptied_ns) != bool(after.members)


def wanted(group: Group, partitions: dict[str, int]) -> set[Place]:
    """All places that somebody subscribes to."""
    return {(topic, number) for topic in group.topics() for number in range(partitions.get(topic, 0))}


comers = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["t", "u", "tu"]), max_size=3)
goers = st.sets(st.sampled_from(NAMES), max_size=2)
topics = st.fixed_dictionaries({}, optional={"t": st.integers(1, 5), "u": st.integers(1, 3)})
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("begin"), st.tuples(comers, goers, topics)),
    st.tuples(st.just("answer"), st.tuples(st.sampled_from(NAMES), st.integers(1, 4))),
    st.tuples(st.just("answer"), st.tuples(st.sampled_from(NAMES), st.integers(1, 4))),
    st.tuples(st.just("force"), st.sets(st.sampled_from(NAMES))),
    st.tuples(st.just("fence"), st.none()),
)


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
@given(
    first=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["t", "u", "tu"]), min_size=1),
    strategy=st.sampled_from(["sticky", "range", "round_robin"]),
    taken=st.lists(steps, max_size=15),
)
def test_whatever_happens_a_place_has_one_owner_and_when_all_have_answered_everything_is_given_out(
    protocol: Protocol, first: dict[str, str], strategy: Strategy, taken: list[Step]
) -> None:
    story = Story(Group(group="g", protocol=protocol, strategy=strategy, emptied_ns=1))
    story.take(("begin", (first, (), story.partitions)))
    for step in taken:
        story.take(step)
    for _ in range(len(NAMES) * 8):
        for name in list(story.group.members):
            story.take(("answer", (name, 4)))
    assert story.group.phase == "complete"


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), st.sampled_from(NAMES), st.integers(1, 8))
def test_nobody_is_asked_for_anything_of_a_fair_share(names: list[str], other: str, count: int) -> None:
    partitions = {"t": count}
    group = rebalanced(Group(group="g"), [member(name) for name in names], partitions=partitions)
    if other in names:
        after = rebalanced(group, leaving=[other], partitions=partitions)
        assert after.phase == "complete"
    else:
        after = rebalanced(group, [member(other)], partitions=partitions)
    share = count // max(len(after.members), 1)
    for name in after.members:
        assert len(after.to_give_up(name)) <= max(0, len(group.assignment.get(name, ())) - share)
