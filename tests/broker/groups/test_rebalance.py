"""From one assignment to the next: examples, and what holds whatever members do, or do not."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.rebalance import begin, fence, force, rejoin, revoke
from goqueue.broker.groups.records import Group, Member, RebalanceProtocol, Strategy

SIX = {"t": 6}


def member(name: str, topics: str = "t", confirms: bool = True) -> Member:
    return Member(name, name, tuple(topics), 30, 100, 1, confirms)


def refs(*numbers: int, topic: str = "t") -> list[PartitionRef]:
    return [PartitionRef(topic, number) for number in numbers]


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


def test_unrequested_partition_cannot_be_revoked() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    assert revoke(group, {"a": [*refs(0), PartitionRef("other", 3)]}) is group
    complete = group_of("a", "b")
    assert revoke(complete, {"a": refs(0)}) is complete


def test_join_during_rebalance_recomputes_target() -> None:
    group = rebalanced(rebalanced(group_of("a"), [member("b")]), [member("c")])
    assert group.partitions_to_revoke("a") == refs(2, 3, 4, 5)
    group = revoke(group, {"a": refs(2, 3, 4, 5)})
    assert [len(group.assignment[name]) for name in "abc"] == [2, 2, 2]
    assert group.phase == "complete"


def test_empty_group_records_when_it_became_empty() -> None:
    group = begin(group_of("a"), leaving=["a"], partitions=SIX, reasons=["leave"], now_ns=7)
    assert (group.members, group.assignment, group.emptied_ns, group.phase) == ({}, {}, 7, "complete")
    later = begin(group, partitions=SIX, reasons=["topics_changed"], now_ns=9)
    assert later.emptied_ns == 7
    assert rebalanced(later, [member("a")]).emptied_ns == 0


def test_member_that_lost_partitions_while_rejoining_is_stale() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    again = group.members["a"]
    group = revoke(group, {"a": refs(3)})
    assert rebalanced(group, [again]).members["a"].since == 3


def test_reasons_accumulate_until_rebalance_completes() -> None:
    group = rebalanced(group_of("a"), [member("b")])
    group = begin(group, leaving=["b"], partitions=SIX, reasons=["leave"], now_ns=2)
    assert (group.reasons, group.began_ns) == (["join", "leave"], 1)
    assert begin(group, partitions=SIX, reasons=["topics_changed"], now_ns=3).reasons == ["topics_changed"]


# --- eager ---


def test_eager_members_stop_until_all_have_rejoined() -> None:
    group = rebalanced(group_of("a", "b", protocol="eager"), [member("c")])
    assert (group.awaited, group.generation) == (["a", "b"], 1)
    assert [group.partitions_to_process(name) for name in "abc"] == [[], [], []]
    group = rejoin(group, "a", SIX)
    assert (group.awaited, group.phase, group.partitions_to_process("a")) == (["b"], "pending_revoke", [])
    group = rejoin(group, "b", SIX)
    assert (group.phase, group.generation) == PartitionRef("complete", 2)
    assert [len(group.partitions_to_process(name)) for name in "abc"] == [2, 2, 2]
    assert {one.since for one in group.members.values()} == {2}


def test_eager_rejoined_member_owns_nothing_until_completion() -> None:
    group = rejoin(rebalanced(group_of("a", "b", protocol="eager"), [member("c")]), "a", SIX)
    assert set(group.owners().values()) == {"b"}


def test_eager_group_without_rejoins_is_empty() -> None:
    group = rebalanced(group_of("a", "b", protocol="eager"), leaving=["b"])
    assert force(group, ["a"], SIX, 9).emptied_ns == 9


def test_eager_rejoined_member_is_not_awaited_again() -> None:
    group = rejoin(rebalanced(group_of("a", "b", protocol="eager"), [member("c")]), "a", SIX)
    assert rebalanced(group, [member("d")]).awaited == ["b"]


def test_rejoin_of_unawaited_member_changes_nothing() -> None:
    group = group_of("a", protocol="eager")
    assert rejoin(group, "a", SIX) is group


def test_fence_makes_all_earlier_generations_stale() -> None:
    group = fence(group_of("a", "b"), 2)
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
                after = fence(group, 2)
            case "force":
                asked = [name for name in names if group.partitions_to_revoke(name) or name in group.awaited]
                late = [name for name in asked if name in what]
                if not late:
                    return
                after = force(group, late, self.partitions, 9)
            case _:
                if group.protocol == "eager":
                    after = rejoin(group, what[0], self.partitions)
                else:
                    asked_for = group.partitions_to_revoke(what[0]) if what[0] in names else []
                    after = revoke(group, {what[0]: asked_for[: what[1]]}) if asked_for else group
        self.check(group, after, is_fence=kind == "fence", is_begin=kind == "begin")
        self.group = after

    def check(self, before: Group, after: Group, *, is_fence: bool, is_begin: bool) -> None:
        given = [ref for has in after.assignment.values() for ref in has]
        assert len(given) == len(set(given)), "a ref has one owner"
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
            assert not any(after.partitions_to_revoke(name) for name in after.members)
        elif after.protocol == "cooperative":
            assert any(after.partitions_to_revoke(name) for name in after.members)
            for name in after.members:
                kept = set(after.assignment[name]) & set(after.target[name])
                assert set(after.partitions_to_process(name)) == kept
        assert bool(after.emptied_ns) != bool(after.members)


def wanted(group: Group, partitions: dict[str, int]) -> set[PartitionRef]:
    """Return all subscribed partitions."""
    return {PartitionRef(topic, number) for topic in group.topics() for number in range(partitions.get(topic, 0))}


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
def test_random_events_leave_one_owner_and_full_assignment(
    protocol: RebalanceProtocol, first: dict[str, str], strategy: Strategy, taken: list[Step]
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
def test_member_keeps_its_fair_share(names: list[str], other: str, count: int) -> None:
    partitions = {"t": count}
    group = rebalanced(Group(group="g"), [member(name) for name in names], partitions=partitions)
    if other in names:
        after = rebalanced(group, leaving=[other], partitions=partitions)
        assert after.phase == "complete"
    else:
        after = rebalanced(group, [member(other)], partitions=partitions)
    share = count // max(len(after.members), 1)
    for name in after.members:
        assert len(after.partitions_to_revoke(name)) <= max(0, len(group.assignment.get(name, ())) - share)
