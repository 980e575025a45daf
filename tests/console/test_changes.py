"""Changes between two lists of rows."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.console.watch import RowChanges

LOOKS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), max_size=6)


@given(LOOKS)
def test_the_events_together_make_what_is_seen(looks: list[dict[str, int]]) -> None:
    changes = RowChanges("name")
    made: dict[str, int] = {}
    for look in looks:
        for event, row in changes.take([{"name": name, "lag": lag} for name, lag in look.items()]).events:
            assert (row["name"] in made) == (event != "added")
            assert event != "changed" or made[row["name"]] != row["lag"]
            made.pop(row["name"], None)
            if event != "removed":
                made[row["name"]] = row["lag"]
        assert made == look


def test_only_what_changed_is_marked_and_at_first_nothing() -> None:
    changes = RowChanges("name")
    first = changes.take([{"name": "a", "lag": 1, "rate": 5}])
    assert first.marks == [frozenset()]
    second = changes.take([{"name": "a", "lag": 2, "rate": 5}, {"name": "b", "lag": 0}])
    assert second.marks == [{"lag"}, {"name", "lag"}]
    assert [event for event, _ in second.events] == ["changed", "added"]


def test_rows_without_the_key_are_told_apart_by_their_place() -> None:
    changes = RowChanges("name")
    changes.take([{"lag": 1}, {"lag": 2}])
    assert changes.take([{"lag": 1}, {"lag": 3}]).events == [("changed", {"lag": 3})]


def test_what_passes_with_the_time_is_no_news() -> None:
    changes = RowChanges("name", {"age"})
    assert [event for event, _ in changes.take([{"name": "a", "age": 1, "lag": 1}]).events] == ["added"]
    assert changes.take([{"name": "a", "age": 2, "lag": 1}]).events == []
    (event,) = changes.take([{"name": "a", "age": 3, "lag": 2}]).events
    assert event == ("changed", {"name": "a", "age": 3, "lag": 2})
