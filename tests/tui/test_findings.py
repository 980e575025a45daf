"""Where the findings of the doctor lead."""

from typing import Any

import pytest

from goqueue.observe.doctor import CHECKS
from goqueue_admin.dashboard.screens.findings import FindingRoute, finding_advice, finding_route
from goqueue_admin.dashboard.screens.routes import Location

_TEXT_ONLY = {
    "broker_stalled", "certificate_expiring",
    "certificate_not_loaded", "clock_behind", "clock_jumped", "connections_lowered", "connections_near_limit",
    "controller_missing", "data_directory_gone", "file_limit_near", "in_flight_full", "log_unclaimed", "loop_slow",
    "election_unclean", "leader_away", "partition_offline", "partition_under_min_isr",
    "partition_under_replicated", "replica_lagging", "node_certificate_expiring", "node_certificate_not_loaded",
    "damage_repaired", "node_dead", "node_failed", "node_refused", "record_not_adopted", "replica_damaged",
    "replicas_differ", "move_stalled", "topic_not_followed", "unclean_start", "vote_missing",
}  # fmt: skip
"""Codes about the process, its machine, its cluster and its backups: nothing on a screen would repair them."""


def finding(code: str, subject: str, **details: Any) -> dict[str, Any]:
    return {"code": code, "subject": subject, "sentence": "it is wrong", "hint": "repair it", "details": details}


def test_every_code_has_a_screen_or_is_about_the_machine() -> None:
    codes = {rule.code for check in CHECKS for rule in check.rules}
    led = {code for code in codes if finding_route(finding(code, "orders/1", topics=["orders"]))}
    assert codes - led == _TEXT_ONLY


@pytest.mark.parametrize(
    ("told", "place", "row"),
    [
        (finding("group_stuck", "billing", partitions=["orders/2"]), Location("group", ("billing",)), "orders/2"),
        (
            finding("poison_message", "billing", messages=[{"topic": "orders", "partition": 1, "offset": 7}]),
            Location("group", ("billing",)),
            "orders/1",
        ),
        (finding("messages_lost_to_retention", "billing", topics=["orders"]), Location("topic", ("orders",)), ""),
        (finding("dead_letters_waiting", "orders.dlq", messages=3), Location("errors", ("orders.dlq",)), ""),
        (finding("transaction_hung", "till-1"), Location("transaction", ("till-1",)), ""),
        (finding("partition_fenced", "orders/1"), Location("topic", ("orders",)), "1"),
        (finding("delayed_late", "orders/1"), Location("schedule", ("orders",)), ""),
        (finding("disk_filling", "/data"), Location("topics"), ""),
        (finding("group_stuck", "900 more", more=900), Location("groups"), ""),
    ],
)
def test_finding_leads_to_its_subject(told: dict[str, Any], place: Location, row: str) -> None:
    route = finding_route(told)
    assert route is not None
    assert (route.place, route.row) == (place, row)


@pytest.mark.parametrize(
    "told", [finding("log_closed", "__consumer_offsets/3"), finding("loop_slow", "the event loop"), finding("new", "x")]
)
def test_finding_without_a_screen_has_only_its_text(told: dict[str, Any]) -> None:
    assert finding_route(told) is None
    assert finding_advice(told, read_only=False) == ["what to do  repair it"]


def test_advice_names_the_key_except_in_read_only_mode() -> None:
    told = finding("transaction_hung", "till-1")
    assert finding_route(told) == FindingRoute(Location("transaction", ("till-1",)), "", "x aborts it")
    assert finding_advice(told, read_only=False)[1] == "⏎ opens     transaction till-1: x aborts it"
    assert finding_advice(told, read_only=True)[1] == "⏎ opens     transaction till-1"
