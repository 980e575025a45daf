"""The contract of group clients: the fields of every answer, at the root and under /v1, and what a simple one does."""

from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import told
from tests.brokers import ask, create, publish

_NUMBERS = {
    "total_rebalances", "successful_rebalances", "failed_rebalances", "total_partitions_revoked",
    "total_partitions_assigned", "total_revocation_timeouts", "last_rebalance_duration_ms",
    "average_rebalance_duration_ms", "last_rebalance_at", "rebalances_by_reason",
}  # fmt: skip
_JOINED = {
    "member_id", "generation", "leader", "leader_id", "members", "assigned_partitions", "partitions",
    "rebalance_required", "protocol", "assignment_strategy", "state", "rebalance_state", "session_timeout",
    "heartbeat_interval", "revocation_timeout", "visibility_timeout",
}  # fmt: skip

FIELDS: dict[str, set[str]] = {
    "POST /groups/g/join": _JOINED,
    "POST /groups/h/join/cooperative": _JOINED,
    "GET /groups": {"groups"},
    "GET /groups/g": {"group_id", "state", "generation", "protocol", "assignment_strategy", "members", "lag"},
    "a member": {"member_id", "client_id", "assigned_partitions", "last_heartbeat", "joined_at"},
    "POST /groups/g/heartbeat": {"rebalance_required", "state", "generation"},
    "POST /groups/h/heartbeat/cooperative": {
        "rebalance_required", "partitions_to_revoke", "partitions_assigned", "generation", "protocol", "state",
        "rebalance_state", "revocation_deadline",
    },
    "POST /groups/h/revoke": {"status", "pending_count", "rebalance_state", "generation"},
    "GET /groups/g/assignment": {"member_id", "generation", "partitions", "partitions_to_revoke"},
    "GET /groups/g/cooperative": {
        "id", "state", "generation", "protocol", "assignment_strategy", "rebalance_state", "topics", "members",
        "member_assignments", "rebalance_metrics",
    },
    "GET /groups/g/rebalance/stats": _NUMBERS,
    "GET /rebalance/stats": _NUMBERS,
    "GET /groups/g/poll": {"messages", "next_offset", "generation", "rebalance_required"},
    "a message": {
        "topic", "partition", "offset", "key", "value", "timestamp", "priority", "headers", "attempt",
        "receipt_handle",
    },
    "POST /messages/visibility": {"extended", "new_deadline"},
    "POST /messages/ack": {"acknowledged"},
    "POST /messages/nack": {"requeued"},
    "POST /messages/reject": {"rejected", "dlq_topic"},
    "POST /topics/orders/redrive": {"moved", "matched", "scanned", "remaining", "dry_run", "complete", "results"},
    "a message that was sent back": {"partition", "offset", "target_topic", "target_partition"},
    "GET /reliability/stats": {
        "acks_total", "nacks_total", "rejects_total", "dlq_messages", "visibility_extensions", "in_flight",
        "oldest_unacked_seconds",
    },
    "POST /groups/g/settle": {"acks", "nacks", "rejects", "releases", "extensions"},
    "POST /groups/g/offsets": {"committed", "offsets"},
    "GET /groups/g/offsets": {"offsets"},
    "POST /groups/g/offsets/reset": {"dry_run", "topic", "generation", "partitions"},
    "a partition that was reset": {"partition", "before", "after"},
    "POST /groups/g/leave": {"left"},
    "POST /groups/h/leave/cooperative": {"left"},
    "DELETE /groups/g": {"deleted", "group_id"},
}  # fmt: skip


class Recorder:
    """Asks, and keeps which fields each answer had."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix
        self.fields: dict[str, set[str]] = {}

    def ask(self, method: str, path: str, body: Any = None, query: str = "") -> Any:
        answer = told(ask(self._url, method, f"{self._prefix}{path}?{query}", body))
        self.fields[f"{method} {path}"] = set(answer)
        return answer


def ask_everything(recorder: Recorder) -> None:
    join = {"topics": ["orders"], "client_id": "till"}
    me = recorder.ask("POST", "/groups/g/join", join)["member_id"]
    other = recorder.ask("POST", "/groups/h/join/cooperative", join)["member_id"]
    recorder.ask("GET", "/groups")
    recorder.fields["a member"] = set(recorder.ask("GET", "/groups/g")["members"][0])
    recorder.ask("POST", "/groups/g/heartbeat", {"member_id": me, "generation": 1})
    recorder.ask("POST", "/groups/h/heartbeat/cooperative", {"member_id": other, "generation": 1})
    recorder.ask("POST", "/groups/h/revoke", {"member_id": other, "generation": 1, "revoked_partitions": []})
    recorder.ask("GET", "/groups/g/assignment", query=f"member_id={me}")
    recorder.ask("GET", "/groups/g/cooperative")
    recorder.ask("GET", "/groups/g/rebalance/stats")
    recorder.ask("GET", "/rebalance/stats")
    found = recorder.ask("GET", "/groups/g/poll", query=f"member_id={me}&limit=4")["messages"]
    recorder.fields["a message"] = set(found[0])
    handles = [{"receipt_handle": message["receipt_handle"]} for message in found]
    recorder.ask("POST", "/messages/visibility", {**handles[0], "timeout": "1m"})
    recorder.ask("POST", "/messages/ack", handles[0])
    recorder.ask("POST", "/messages/nack", {**handles[1], "delay": "1h", "reason": "no stock"})
    recorder.ask("POST", "/messages/reject", {**handles[2], "reason": "broken"})
    sent_back = recorder.ask("POST", "/topics/orders/redrive", {"dry_run": True})["results"]
    recorder.fields["a message that was sent back"] = set(sent_back[0])
    recorder.ask("GET", "/reliability/stats")
    recorder.ask("POST", "/groups/g/settle", {"member_id": me})
    recorder.ask("POST", "/groups/g/offsets", {"member_id": me, "offsets": {"orders": {"0": 1}}})
    recorder.ask("GET", "/groups/g/offsets", query="topic=orders")
    answer = recorder.ask("POST", "/groups/g/offsets/reset", {"topic": "orders", "to": "latest", "dry_run": True})
    recorder.fields["a partition that was reset"] = set(answer["partitions"][0])
    recorder.ask("POST", "/groups/g/leave", {"member_id": me})
    recorder.ask("POST", "/groups/h/leave/cooperative", {"member_id": other})
    recorder.ask("DELETE", "/groups/g")


@pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])
def test_every_answer_has_the_fields_that_clients_know(broker: LocalBroker, prefix: str) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", *"abcd", key="k")
    recorder = Recorder(broker.url, prefix)
    ask_everything(recorder)
    missing = {what: names - recorder.fields[what] for what, names in FIELDS.items() if names - recorder.fields[what]}
    assert missing == {}
