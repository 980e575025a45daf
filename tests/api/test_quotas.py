"""Quotas and usage of tenants over HTTP: what is refused, what is delayed, and what is reported."""

import csv
import http.client
import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from goqueue.client import Client
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import FRAMES
from tests.api.keys import eventually, secured
from tests.api.wire import section
from tests.brokers import Answer, ask


class Team:
    """Requests in the world of one tenant."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        assert ask(url, "POST", "/admin/tenants", {"name": name}).status == 201

    def quotas(self, **values: Any) -> Answer:
        return ask(self.url, "PUT", f"/admin/tenants/{self.name}/quotas", values)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return ask(self.url, method, path, body, {"x-tenant": self.name})

    def publish(self, topic: str, *values: str, **fields: Any) -> Answer:
        messages = [{"value": one, **fields} for one in values]
        return self.ask("POST", f"/topics/{self.topic(topic)}/messages", {"messages": messages})

    def topic(self, name: str) -> str:
        return f"{self.name}.{name}"

    def create(self, name: str, partitions: int = 1, **settings: Any) -> Answer:
        body = {"name": self.topic(name), "num_partitions": partitions, **settings}
        return self.ask("POST", "/topics", body)

    def usage(self, query: str = "") -> Any:
        answer = ask(self.url, "GET", f"/admin/tenants/{self.name}/usage?{query}")
        assert answer.status == 200, answer.body
        return answer.json


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("quotas")
    with LocalBroker(str(path), tenants__enabled="true", quotas__max_open_transactions="100") as broker:
        yield broker.url


def test_publishes_beyond_a_rate_are_refused_and_counted(shared: str) -> None:
    team = Team(shared, "rates")
    assert team.create("t").status == 201
    assert team.quotas(publish_rate_limit=10, soft_limits={"publish_rate_limit": 1}).status == 200
    assert team.publish("t", *"abcdefghijklmnopqrst").status == 200  # one batch may be larger than the burst
    refused = team.publish("t", "more")
    assert (refused.status, refused.code) == (429, "quota_exceeded")
    details = refused.json["details"]
    assert (details["quota"], details["limit"], details["remaining"]) == ("publish_rate_limit", 10, 0)
    assert 1 < details["retry_after"] <= 1.1 <= int(refused.headers["retry-after"])
    assert "goqueue-admin quota set rates publish_rate_limit=VALUE" in refused.json["hint"]
    usage = team.usage()
    assert (usage["published_messages"], usage["violations"]) == (20, {"publish_rate_limit": 1})
    assert usage["periods"][-1]["violations"] == {"publish_rate_limit": 1}
    assert usage["periods"][-1]["warnings"] != {}, usage
    assert team.quotas(publish_rate_limit="unlimited").status == 200
    assert team.publish("t", "more").status == 200


def test_failed_publish_gives_its_charge_back(shared: str) -> None:
    team = Team(shared, "refunds")
    assert team.create("t").status == 201
    team.quotas(publish_rate_limit=1)
    for _ in range(5):
        assert team.publish("missing", "a").status == 404
    assert team.publish("t", "a").status == 200


def test_frames_are_charged_for_their_messages_and_refused_by_the_names_of_their_tenant(shared: str) -> None:
    team = Team(shared, "frames")
    assert ask(shared, "POST", "/topics", {"name": "t", "num_partitions": 1}, {"x-tenant": "frames"}).status == 201
    team.quotas(publish_rate_limit=1000, publish_bytes_rate_limit=10**6)

    def publish(content: bytes) -> Answer:
        return ask(shared, "POST", "/topics/t/messages", content, {"x-tenant": "frames", "content-type": FRAMES})

    many = b"".join(frame.encode(b"x" * 100) for _ in range(500))
    missing = publish(section(0, many) + section(7, many))
    stored, refused = missing.json["results"]
    assert (stored["first_offset"], stored["next_offset"]) == (0, 500)
    assert refused["error"]["code"] == "partition_not_found"
    assert "'t'" in refused["error"]["error"], "the tenant's own name"
    assert "frames." not in missing.body.decode()
    assert publish(section(0, many) + section(0, many)).status == 400
    assert publish(section(0, many + b"wrong")).status == 400
    assert publish(section(0, many)).status == 200, "what failed was given back"
    assert publish(section(0, many * 4)).status == 200
    assert publish(section(0, many)).json["details"]["quota"] == "publish_rate_limit"
    assert team.usage()["published_messages"] == 3_000


def test_counts_and_bounds_are_checked_at_creation(shared: str) -> None:
    team = Team(shared, "bounds")
    team.quotas(
        max_topics=2, max_total_partitions=5, max_partitions_per_topic=4, max_retention_hours=24, max_consumer_groups=1,
        max_consumers_per_group=1, max_message_size_bytes=1000, max_delay_hours=1,
    )  # fmt: skip
    for made, quota in (
        (team.create("a", 5), "max_partitions_per_topic"),
        (team.create("a", 1, retention_hours=25), "max_retention_hours"),
        (team.create("a", 1, retention_hours=None), "max_retention_hours"),
    ):
        assert (made.status, made.code, made.json["details"]["quota"]) == (429, "quota_reached", quota), made.body
    assert team.create("a", 3).status == 201
    assert team.ask("GET", f"/topics/{team.topic('a')}").json["config"]["retention_hours"] == 24
    assert team.create("b", 3).json["details"]["quota"] == "max_total_partitions"
    assert team.create("b").status == 201
    assert team.create("c").json["details"]["quota"] == "max_topics"
    grown = team.ask("POST", f"/admin/topics/{team.topic('a')}/partitions", {"count": 6})
    assert grown.json["details"]["quota"] == "max_partitions_per_topic"
    changed = team.ask("PATCH", f"/admin/topics/{team.topic('a')}", {"retention_hours": 48})
    assert changed.json["details"]["quota"] == "max_retention_hours"
    join = {"topics": [team.topic("a")]}
    assert team.ask("POST", f"/groups/{team.topic('g')}/join", join).status == 200
    for group, quota in (("g", "max_consumers_per_group"), ("h", "max_consumer_groups")):
        refused = team.ask("POST", f"/groups/{team.topic(group)}/join", join)
        assert refused.json["details"]["quota"] == quota
    assert team.publish("a", "x" * 2000).json["details"]["quota"] == "max_message_size_bytes"
    assert team.publish("a", *["x" * 900] * 5).status == 200
    assert team.publish("a", "x", delay="90m").json["details"]["quota"] == "max_delay_hours"
    assert team.publish("a", "x", delay="30m").status == 200


def test_polls_and_reads_beyond_a_rate_are_delayed(shared: str) -> None:
    team = Team(shared, "readers")
    assert team.create("t").status == 201
    assert team.publish("t", *map(str, range(60))).status == 200
    group = f"/groups/{team.topic('g')}"
    member = team.ask("POST", f"{group}/join", {"topics": [team.topic("t")], "start": "earliest"}).json["member_id"]
    team.quotas(consume_rate_limit=20)
    poll = f"{group}/poll?member_id={member}&timeout=5"
    first = team.ask("GET", poll)
    assert first.status == 200, first.body
    first = first.json["messages"]
    assert len(first) == 20
    assert 1 <= len(team.ask("GET", poll).json["messages"]) <= 20  # delayed until there is something
    read = f"/topics/{team.topic('t')}/partitions/0/messages?limit=50"
    assert 1 <= len(team.ask("GET", read).json["messages"]) <= 20
    team.quotas(consume_rate_limit="unlimited", consume_bytes_rate_limit=1)
    assert len(team.ask("GET", read).json["messages"]) == 1
    assert team.ask("GET", poll).json["messages"] == []  # a second is not enough
    refused = team.ask("GET", read)
    assert (refused.status, refused.json["details"]["quota"]) == (429, "consume_bytes_rate_limit")
    usage = team.usage()
    assert usage["violations"]["consume_bytes_rate_limit"] == 2
    assert 20 + 1 + 1 + 1 <= usage["consumed_messages"] <= 20 + 20 + 20 + 1


def test_reads_are_charged_for_what_they_return(shared: str) -> None:
    team = Team(shared, "charged")
    assert team.create("t").status == 201
    for _ in range(3):
        assert team.publish("t", *["x"] * 500).status == 200
    path = f"/topics/{team.topic('t')}/partitions/0/messages"
    headers = {"x-tenant": team.name, "accept": "application/vnd.goqueue.frames"}
    expected = 0
    assert len(team.ask("GET", f"{path}?limit=7").json["messages"]) == 7  # without a quota
    expected += 7
    for read in ("frames", path, f"/topics/{team.topic('t')}/messages", f"{path}?order=priority"):
        for quotas, most in ({"consume_rate_limit": 100}, 100), ({"consume_bytes_rate_limit": 3500}, 100):
            team.quotas(**{"consume_rate_limit": None, "consume_bytes_rate_limit": None} | quotas)
            for _ in range(2):  # the second one waits for a part of a second, and is not refused
                if read == "frames":
                    answer = ask(shared, "GET", path, headers=headers)
                    count = int(answer.headers["x-goqueue-next-offset"])
                else:
                    answer = team.ask("GET", read)
                    count = len(answer.json["messages"])
                assert answer.status == 200, answer.body
                assert 1 <= count <= most, (read, quotas)
                expected += count
    usage = team.usage()
    assert usage["consumed_messages"] == expected
    assert 35 * expected <= usage["consumed_bytes"] <= 60 * expected
    assert max(usage["violations"].values(), default=0) <= 1, "waiting is no violation"


def test_full_storage_refuses_publishes_and_deletes_nothing(shared: str) -> None:
    team = Team(shared, "full")
    assert team.create("t").status == 201
    team.quotas(max_storage_bytes=20_000)
    sizes = [team.publish("t", "x" * 5000).status for _ in range(6)]
    assert sizes == [200, 200, 200, 429, 429, 429]  # what does not fit is refused, and what fits is not
    assert team.publish("t", "x" * 1000).status == 200
    usage = team.usage()
    assert 75 < usage["percentages"]["max_storage_bytes"] < 100
    stats = ask(shared, "GET", "/admin/tenants/full/stats").json
    assert stats["percentages"] == usage["percentages"]
    assert stats["violations"] == {"max_storage_bytes": 3}
    assert 15_000 < usage["storage_bytes"] < 20_000
    team.quotas(max_storage_bytes=10_000)
    assert team.publish("t", "x").json["details"]["quota"] == "max_storage_bytes"
    team.quotas(max_storage_bytes=10**6)
    assert team.publish("t", "x").status == 200


def test_connections_transactions_and_operations_are_bounded(shared: str) -> None:
    team = Team(shared, "bounded")
    assert team.create("t").status == 201
    team.quotas(max_connections=1, metadata_rate_limit=1, query_rate_limit=1, max_open_transactions=1)
    with closing(http.client.HTTPConnection(urlsplit(shared).netloc, timeout=30)) as held:
        held.request("GET", "/topics", headers={"x-tenant": "bounded"})
        assert held.getresponse().status == 200
        assert team.ask("GET", "/topics").json["details"]["quota"] == "max_connections"
        assert team.usage()["connections"] == 1
    eventually(lambda: team.ask("GET", "/topics").status == 200)
    assert team.create("u").status == 201
    assert team.create("v").json["details"]["quota"] == "metadata_rate_limit"
    assert team.ask("GET", "/traces").status == 200
    assert team.ask("GET", "/traces").json["details"]["quota"] == "query_rate_limit"
    begun = []
    for name in ("bounded.one", "bounded.two"):
        made = team.ask("POST", "/producers/init", {"transactional_id": name}).json
        body = {"producer_id": made["producer_id"], "epoch": made["epoch"], "transactional_id": name}
        begun.append(team.ask("POST", "/transactions/begin", body))
    assert [one.status for one in begun] == [200, 429]
    assert begun[1].status == 429, begun[1].body
    assert begun[1].json["details"]["quota"] == "max_open_transactions"


def test_quotas_are_shown_reset_and_tested_against_the_past(shared: str) -> None:
    team = Team(shared, "shown")
    assert team.quotas(max_topics=5, max_consumer_groups="unlimited").status == 200
    shown = team.quotas(max_connections=9).json
    assert shown["overrides"] == {"max_topics": 5, "max_consumer_groups": "unlimited", "max_connections": 9}
    assert (shown["max_topics"], shown["max_open_transactions"], shown["publish_rate_limit"]) == (5, 100, None)
    assert team.quotas(max_topics=None).json["overrides"].keys() == {"max_consumer_groups", "max_connections"}
    team.quotas(max_total_partitions=5)
    above = team.quotas(soft_limits={"max_total_partitions": 6})
    assert (above.status, above.json["details"]["problems"][0]["place"]) == (400, "soft_limits.max_total_partitions")
    assert team.quotas(soft_limits={"max_total_partitions": 6}, max_total_partitions=6).status == 200
    assert team.quotas(max_topic=1).status == team.quotas(publish_rate_limit=0).status == 400
    assert ask(shared, "DELETE", "/admin/tenants/shown/quotas").json["overrides"] == {}
    team.create("t", 3)
    team.usage()
    tested = ask(shared, "POST", "/admin/quotas/test", {"limits": {"max_total_partitions": 2}, "tenant": "shown"})
    (found,) = tested.json["results"]
    assert (found["tenant"], found["hours"], found["peak"]) == ("shown", 1, 3)
    for limits in {"max_delay_hours": 2}, {"publish_rate_limit": 0}:
        assert ask(shared, "POST", "/admin/quotas/test", {"limits": limits}).status == 400
    listed = ask(shared, "GET", "/admin/usage?by=hour", headers={"accept": "text/csv"})
    rows = {row["tenant_id"]: row for row in csv.DictReader(io.StringIO(listed.body.decode()))}
    assert (rows["shown"]["topics"], rows["shown"]["partitions"]) == ("1", "3")


def test_usage_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path), tenants__enabled="true") as broker:
        team = Team(broker.url, "acme")
        team.create("t", 2)
        team.create("gone")
        for topic in ("t", "gone"):
            assert team.publish(topic, *"abcde").status == 200
        assert team.ask("DELETE", f"/topics/{team.topic('gone')}").status == 200
        before = team.usage("by=total")
        assert (before["published_messages"], before["topics"]) == (10, 1)
    with LocalBroker(str(tmp_path), tenants__enabled="true") as broker:
        after = ask(broker.url, "GET", "/admin/tenants/acme/usage?by=total").json
        names = ("published_messages", "published_bytes", "consumed_messages", "storage_bytes", "topics", "partitions")
        assert {name: after[name] for name in names} == {name: before[name] for name in names}
        assert after["periods"][0]["published_messages"] == 10


def test_sdk_waits_for_its_quota_and_goes_on(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        broker.do("POST", "/admin/tenants", {"name": "acme"})
        broker.do("PUT", "/admin/tenants/acme/quotas", {"publish_rate_limit": 20, "consume_rate_limit": 50})
        broker.do("POST", "/topics", {"name": "acme.t", "num_partitions": 1})
        made = broker.do("POST", "/admin/keys", {"name": "k", "roles": ["admin"], "tenant": "acme"})
        with Client(broker.url, api_key=made["key"]) as client:
            with client.producer() as producer:
                for _ in range(4):
                    producer.send_many("t", ["x"] * 10)
                    producer.flush()
            with client.reader("t", until="now") as reader:
                assert sum(1 for _ in reader) == 40
            broker.do("PUT", "/admin/tenants/acme/quotas", {"consume_rate_limit": None, "consume_bytes_rate_limit": 30})
            broker.do("POST", "/topics", {"name": "acme.u", "num_partitions": 1})
            with client.producer() as producer:
                producer.send_many("u", ["x"] * 4)
            broker.do("PUT", "/admin/tenants/acme/quotas", {"consume_rate_limit": None, "consume_bytes_rate_limit": 60})
            with client.consumer("g", ["u"], start="earliest", until_idle="0.2s") as consumer:
                assert len([message.ack() for message in consumer]) == 4  # each is waited for longer than that
        violations = broker.do("GET", "/admin/tenants/acme/usage")["violations"]
        assert violations["publish_rate_limit"] > 0
