"""Numbers of groups: bounded, summed beyond the bound, and counters that never fall."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.observe.state_metrics import (
    LABEL_VALUES_MAX,
    LAG_LABELS_MAX,
    OTHER_LABEL,
    GroupMetrics,
    GroupMetricsInput,
    GroupMetricValues,
    limit_label_values,
)

Found = dict[str, dict[tuple[str, ...], float]]


class Groups:
    """Metrics of groups, changed between two scrapes."""

    def __init__(self, **groups: GroupMetricValues) -> None:
        self.now: dict[str, GroupMetricValues] = groups
        self.metrics = GroupMetrics()

    def scrape(self) -> Found:
        self.metrics.numbers = GroupMetricsInput(self.now)
        return {name: dict(samples) for name, samples in self.metrics.collect()}

    def lost(self, group: str) -> float | None:
        return self.scrape()["goqueue_group_lost_messages"].get((group,))


def losing(count: int, topic: str = "orders", created_ns: int = 1) -> GroupMetricValues:
    return GroupMetricValues("stable", lost={(topic, 0, created_ns): count} if count else {})


def many(count: int, one: GroupMetricValues) -> dict[str, GroupMetricValues]:
    return {f"g{number:05}": one for number in range(count)}


def test_group_without_losses_has_a_zero() -> None:
    assert Groups(billing=losing(0)).lost("billing") == 0


def test_groups_are_counted_by_state() -> None:
    groups = Groups(a=GroupMetricValues("stable"), b=GroupMetricValues("stable"), c=GroupMetricValues("rebalancing"))
    assert groups.scrape()["goqueue_groups"] == {("stable",): 2, ("rebalancing",): 1, ("empty",): 0}


def test_groups_beyond_the_limit_are_summed() -> None:
    groups = Groups(
        **many(LABEL_VALUES_MAX + 3, GroupMetricValues("stable", 2, 5, {"orders": 7}, {("orders", 1, 1): 1}))
    )
    found = groups.scrape()
    assert found["goqueue_groups"]["stable",] == LABEL_VALUES_MAX + 3
    for name, each in (
        ("goqueue_group_members", 2),
        ("goqueue_group_in_flight_messages", 5),
        ("goqueue_group_lost_messages", 1),
    ):
        assert len(found[name]) == LABEL_VALUES_MAX + 1
        assert (found[name]["g00000",], found[name][OTHER_LABEL,]) == (each, 3 * each)
    lag = found["goqueue_group_lag_messages"]
    assert (lag["g00000", "orders"], lag[OTHER_LABEL, "orders"]) == (7, 21)


def test_named_group_keeps_its_label() -> None:
    groups = Groups(**many(LABEL_VALUES_MAX, GroupMetricValues("stable", 1)))
    groups.scrape()
    groups.now = {"a": GroupMetricValues("stable", 2), **groups.now}
    members = groups.scrape()["goqueue_group_members"]
    assert ("a",) not in members
    assert members[OTHER_LABEL,] == 2


def test_deleted_group_frees_its_label() -> None:
    groups = Groups(**many(LABEL_VALUES_MAX + 1, GroupMetricValues("empty", 0, 0, {"orders": 1})))
    groups.scrape()
    del groups.now["g00000"]
    found = groups.scrape()
    assert ("g00000",) not in found["goqueue_group_members"]
    assert (OTHER_LABEL,) not in found["goqueue_group_members"]
    assert (OTHER_LABEL, "orders") not in found["goqueue_group_lag_messages"]


def test_largest_lags_have_their_own_labels() -> None:
    topics = {f"t{number:05}": number for number in range(LAG_LABELS_MAX + 3)}
    lag = Groups(billing=GroupMetricValues("stable", lag=topics)).scrape()["goqueue_group_lag_messages"]
    assert len(lag) == LAG_LABELS_MAX + 1
    assert lag[OTHER_LABEL, OTHER_LABEL] == 0 + 1 + 2


def test_losses_of_a_deleted_topic_are_kept() -> None:
    groups = Groups(billing=losing(5))
    assert groups.lost("billing") == 5
    groups.now = {"billing": losing(0)}
    assert groups.lost("billing") == 5
    groups.now = {"billing": losing(2)}
    assert groups.lost("billing") == 7


def test_losses_of_a_recreated_topic_are_added() -> None:
    groups = Groups(billing=losing(5))
    groups.scrape()
    groups.now = {"billing": losing(2, created_ns=2)}
    assert groups.lost("billing") == 7


def test_losses_are_kept_when_the_group_skips_them() -> None:
    groups = Groups(billing=losing(5))
    groups.scrape()
    groups.now = {"billing": losing(2)}
    assert groups.lost("billing") == 5
    groups.now = {"billing": losing(4)}
    assert groups.lost("billing") == 7


def test_recreated_group_starts_with_its_own_losses() -> None:
    groups = Groups(billing=losing(5))
    groups.scrape()
    groups.now = {}
    groups.scrape()
    groups.now = {"billing": losing(1)}
    assert groups.lost("billing") == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_loss_counter_never_decreases(seen: list[tuple[int, int]]) -> None:
    groups = Groups()
    before = 0.0
    for first, second in seen:
        lost = {place: count for place, count in ((("a", 0, 1), first), (("b", 1, 1), second)) if count}
        groups.now = {"billing": GroupMetricValues("stable", lost=lost)}
        after = groups.lost("billing")
        assert after is not None
        assert after >= before
        before = after


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100)), st.integers(1, 5))
def test_limited_labels_keep_the_sum(numbers: dict[str, int], most: int) -> None:
    kept = limit_label_values(numbers, OTHER_LABEL, most)
    assert sum(kept.values()) == sum(numbers.values())
    assert len(kept) <= most + 1
