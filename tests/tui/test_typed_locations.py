"""Texts typed after a colon: short names of screens and of their subjects, and mistakes."""

from collections.abc import Sequence

import pytest

from goqueue_admin.dashboard.screens.routes import Location, named_kind, resolve_location, suggest_location

_NAMES = {
    "topic": ["orders", "orders.dlq", "payments", "payments.dlq"],
    "dlq": ["orders.dlq", "payments.dlq"],
    "group": ["billing", "fraud", "shipping-eu", "shipping-us"],
    "context": ["local", "production"],
    "backup": ["20261120T031500Z-5f0c2a9b", "20261121T031500Z-6a1d3b0c"],
    "subject": ["orders-key", "orders-value"],
}


def names(kind: str) -> Sequence[str]:
    return _NAMES.get(kind, ())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("gr", Location("groups")),
        ("gr bil", Location("group", ("billing",))),
        ("groups fraud", Location("group", ("fraud",))),
        ("gr eu", Location("group", ("shipping-eu",))),
        ("GR bil", Location("group", ("billing",))),
        ("topic orders", Location("topic", ("orders",))),
        ("me pay 2", Location("messages", ("payments", "2"))),
        ("dlq pay", Location("errors", ("payments.dlq",))),
        ("letters ord", Location("letters", ("orders.dlq",))),
        ("transa", Location("transactions")),
        ("trace orders/0@17", Location("trace", ("orders/0@17",))),
        ("transactions till-1", Location("transaction", ("till-1",))),
        ("group not-known-yet", Location("group", ("not-known-yet",))),
        ("context prod", Location("context", ("production",))),
        ("ctx", Location("contexts")),
        ("schemas", Location("schemas")),
        ("back 20261121", Location("backup", ("20261121T031500Z-6a1d3b0c",))),
        ("backups", Location("backups")),
        ("subjects value", Location("schema", ("orders-value",))),
    ],
)
def test_short_text_is_resolved_when_only_one_name_fits(text: str, place: Location) -> None:
    assert resolve_location(text, names) == (place, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t", "t is short for topics, transactions, traces"),
        ("gr ship", "'ship' is short for shipping-eu, shipping-us"),
        ("group", "write it as :group GROUP"),
        ("overview orders", "write it as :overview"),
        ("messages orders 2 3", "write it as :messages TOPIC PARTITION"),
        ("messages orders x", "'x' is not the number of a partition: write it as :messages TOPIC PARTITION"),
        ("messages orders -1", "'-1' is not the number of a partition"),
        ("", "there is no screen ''"),
        ("xyzzy", "there is no screen 'xyzzy': known are overview, topics"),
    ],
)
def test_ambiguous_or_wrong_text_opens_nothing_and_says_why(text: str, told: str) -> None:
    found = resolve_location(text, names)
    assert found.place is None
    assert found.told.startswith(told)


def test_mistyped_name_opens_the_nearest_and_says_so() -> None:
    assert resolve_location("gropus", names) == (Location("groups"), "there is no screen 'gropus': this is groups")
    assert resolve_location("group billign", names) == (
        Location("group", ("billing",)), "there is no group 'billign': this is billing",
    )  # fmt: skip


def test_context_is_never_guessed() -> None:
    assert resolve_location("context productoin", names) == (Location("context", ("productoin",)), "")


def test_names_are_completed_by_their_kind() -> None:
    assert suggest_location("gr", names) == "groups"
    assert suggest_location("gr f", names) == "gr fraud"
    assert suggest_location("errors p", names) == "errors payments.dlq"
    assert suggest_location("schema orders-v", names) == "schema orders-value"
    assert suggest_location("context p", names) == "context production"
    assert suggest_location("group z", names) is None
    assert [named_kind(text) for text in ("gr bil", "dlq x", "overview", "t x")] == ["group", "dlq", "", ""]
