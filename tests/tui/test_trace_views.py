"""Searches of traces as they are typed, and their rows."""

import pytest

from goqueue.quantities import format_time
from goqueue_admin.dashboard.views import traces as views
from tests.tui.fakes import NOW_NS
from tests.tui.trace_fakes import LISTED, STATS, TRACE

HOUR_NS = 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", {}),
        ("orders", {"topic": "orders"}),
        ("error", {"status": "error"}),
        ("all orders", {"topic": "orders"}),
        ("orders group=billing status=pending", {"topic": "orders", "group": "billing", "status": "pending"}),
        ("partition=0 offset=17", {"partition": 0, "offset": 17}),
        ("from=-1h to=now", {"start": format_time(NOW_NS - HOUR_NS), "end": format_time(NOW_NS)}),
    ],
)
def test_search_is_parsed(text: str, conditions: dict[str, object]) -> None:
    assert views.parse_search(text, NOW_NS) == conditions


@pytest.mark.parametrize("text", ["color=red", "offset=x", "group=", "status=broken", "from=later", "offset=٣"])
def test_invalid_search_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        views.parse_search(text, NOW_NS)


def test_rows_say_what_a_trace_is() -> None:
    assert [views.list_key(one).split()[0] for one in LISTED[:2]] == ["orders/0@31", "orders/0@17"]
    assert [(one.text, one.noun) for one in views.list_numbers(STATS)][:3] == [
        ("2", "error"), ("7", "pending"), ("91", "completed"),
    ]  # fmt: skip
    assert views.list_numbers({**STATS, "enabled": False})[0].text == "off"
    told = {**TRACE, "sampled": False, "truncated": True}
    assert [one.text for one in views.trace_numbers(told)][-2:] == ["cut", "not sampled"]
    many = {**TRACE, "messages": TRACE["messages"] * 4}
    assert list(views.trace_facts(many))[-1] == ("…", "and 6 more messages", "muted")
