"""Numbers of groups: bounded, summed beyond the bound, and counters that never fall."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.observe.group_metrics import LAGS_MAX, GroupMetrics, GroupNumbers, OneGroup
from goqueue.observe.label import OTHERS, VALUES_MAX, bounded

Found = dict[str, dict[tuple[str, ...], float]]


class Groups:
    """What the broker would say, to be changed between two scrapes."""

    def __init__(self, **groups: OneGroup) -> None:
        self.now: dict[str, OneGroup] = groups
        self.metrics = GroupMetrics()

    def scrape(self) -> Found:
        self.metrics.numbers = GroupNumbers(self.now)
        return {name: dict(samples) for name, samples in self.metrics.collect()}

    def lost(self, group: str) -> float | None:
        return self.scrape()["goqueue_group_lost_messages"].get((group,))


def losing(count: int, topic: str = "orders") -> OneGroup:
    return OneGroup("stable", lost={(topic, 0): count} if count else {})


def many(count: int, one: OneGroup) -> dict[str, OneGroup]:
    return {f"g{number:05}": one for number in range(count)}


def test_a_group_that_lost_nothing_says_so() -> None:
    assert Groups(billing=losing(0)).lost("billing") == 0


def test_groups_are_counted_by_state() -> None:
    groups = Groups(a=OneGroup("stable"), b=OneGroup("stable"), c=OneGroup("rebalancing"))
    assert groups.scrape()["goqueue_groups"] == {("stable",): 2, ("rebalancing",): 1, ("empty",): 0}


def test_groups_beyond_the_bound_are_told_of_together() -> None:
    groups = Groups(**many(VALUES_MAX + 3, OneGroup("stable", 2, 5, {"orders": 7}, {("orders", 1): 1})))
    found = groups.scrape()
    assert found["goqueue_groups"]["stable",] == VALUES_MAX + 3
    for name, each in (
        ("goqueue_group_members", 2),
        ("goqueue_group_in_flight_messages", 5),
        ("goqueue_group_lost_messages", 1),
    ):
        assert len(found[name]) == VALUES_MAX + 1
        assert (found[name]["g00000",], found[name][OTHERS,]) == (each, 3 * each)
    lag = found["goqueue_group_lag_messages"]
    assert (lag["g00000", "orders"], lag[OTHERS, "orders"]) == (7, 21)


def test_who_has_a_name_keeps_it_when_others_come() -> None:
    groups = Groups(**many(VALUES_MAX, OneGroup("stable", 1)))
    groups.scrape()
    groups.now = {"a": OneGroup("stable", 2), **groups.now}
    members = groups.scrape()["goqueue_group_members"]
    assert ("a",) not in members
    assert members[OTHERS,] == 2


def test_a_group_that_is_gone_leaves_its_place_to_another() -> None:
    groups = Groups(**many(VALUES_MAX + 1, OneGroup("empty", 0, 0, {"orders": 1})))
    groups.scrape()
    del groups.now["g00000"]
    found = groups.scrape()
    assert ("g00000",) not in found["goqueue_group_members"]
    assert (OTHERS,) not in found["goqueue_group_members"]
    assert (OTHERS, "orders") not in found["goqueue_group_lag_messages"]


def test_the_largest_lags_have_names_of_their_own() -> None:
    topics = {f"t{number:05}": number for number in range(LAGS_MAX + 3)}
    lag = Groups(billing=OneGroup("stable", lag=topics)).scrape()["goqueue_group_lag_messages"]
    assert len(lag) == LAGS_MAX + 1
    assert lag[OTHERS, OTHERS] == 0 + 1 + 2


def test_losses_of_a_topic_that_is_gone_still_count() -> None:
    groups = Groups(billing=losing(5))
    assert groups.lost("billing") == 5
    groups.now = {"billing": losing(0)}
    assert groups.lost("billing") == 5
    groups.now = {"billing": losing(2)}
    assert groups.lost("billing") == 7


def test_a_group_that_is_made_anew_begins_at_its_own_losses() -> None:
    groups = Groups(billing=losing(5))
    groups.scrape()
    groups.now = {}
    groups.scrape()
    groups.now = {"billing": losing(1)}
    assert groups.lost("billing") == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_the_count_of_losses_never_falls(seen: list[tuple[int, int]]) -> None:
    groups = Groups()
    before = 0.0
    for first, second in seen:
        lost = {place: count for place, count in ((("a", 0), first), (("b", 1), second)) if count}
        groups.now = {"billing": OneGroup("stable", lost=lost)}
        after = groups.lost("billing")
        assert after is not None
        assert after >= before
        before = after


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100)), st.integers(1, 5))
def test_a_bound_keeps_the_sum(numbers: dict[str, int], most: int) -> None:
    kept = bounded(numbers, OTHERS, most)
    assert sum(kept.values()) == sum(numbers.values())
    assert len(kept) <= most + 1
