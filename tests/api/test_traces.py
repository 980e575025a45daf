"""Traces over HTTP: what happened to messages, and what a key sees of it."""

import shutil
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from goqueue.wire.trace_context import derived_trace_id
from tests.api.keys import secured
from tests.api.members import Member, told
from tests.api.troubled import LIFE, SETTINGS, SPAN, TRACE, live_troubled_life, trace_of
from tests.brokers import ask, create, publish


def test_trace_follows_a_message_through_delay_retries_dead_letters_and_redrive(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), **SETTINGS) as broker:
        create(broker.url, "orders")
        live_troubled_life(broker)
        trace = trace_of(broker.url, 1)
        assert [event["event_type"] for event in trace["events"]] == LIFE
        places = [(one["topic"], one["offset"], one["delayed"], one["relation"]) for one in trace["messages"]]
        assert places == [
            ("orders", 0, True, "start"),
            ("orders", 0, False, "delivered"),
            ("orders.dlq", 0, False, "dead_letter"),
            ("orders", 1, False, "redriven"),
        ]
        assert (trace["trace_id"], trace["parent_span_id"], trace["tracestate"]) == (TRACE, SPAN, "till=3")
        assert (trace["status"], trace["messages"][3]["groups"]) == ("completed", {"billing": "settled"})
        nacks = [event["details"] for event in trace["events"] if event["event_type"] == "consume.nacked"]
        assert [(one["attempt"], one["reason"]) for one in nacks] == [
            (1, "failure 0"), (2, "failure 1"), (3, "failure 2"),
        ]  # fmt: skip
        for other in (
            trace_of(broker.url, 0),
            trace_of(broker.url, 0, query="?delayed=true"),
            trace_of(broker.url, 0, "orders.dlq"),
            told(ask(broker.url, "GET", f"/traces/{TRACE}")),
            told(ask(broker.url, "GET", f"/traces/{derived_trace_id('orders', 0, 1).hex()}")),
        ):
            assert other == trace
    with LocalBroker(str(tmp_path / "data"), **SETTINGS) as broker:
        assert trace_of(broker.url, 1) == trace
        assert told(ask(broker.url, "GET", f"/traces/{TRACE}")) == trace
        told(ask(broker.url, "DELETE", "/topics/orders"))
        create(broker.url, "orders")
        assert ask(broker.url, "GET", "/topics/orders/partitions/0/messages/1/trace").code == "trace_not_found"


def test_failed_message_is_traced_completely_though_sampling_leaves_it_out(tmp_path: Path) -> None:
    settings = SETTINGS | {"tracing__sampling": "0"}
    with LocalBroker(str(tmp_path / "data"), **settings) as broker:
        create(broker.url, "orders")
        live_troubled_life(broker, flags="00")
        trace = trace_of(broker.url, 1)
    with LocalBroker(str(tmp_path / "data"), **settings) as broker:
        again = trace_of(broker.url, 1)
        assert [event["event_type"] for event in again["events"]] == LIFE
        assert again["events"] == trace["events"]


def test_status_of_a_trace_says_what_became_of_the_message(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="0") as broker:
        url = broker.url
        create(url, "orders")
        publish(url, "orders", "a", "b", "c", partition=0)
        assert trace_of(url, 0)["status"] == "completed"  # no group has received it
        member = Member(url).join()
        found = member.poll()
        assert {trace_of(url, offset)["status"] for offset in range(3)} == {"pending"}
        told(ask(url, "POST", "/messages/ack", {"receipt_handle": found[0]["receipt_handle"]}))
        told(ask(url, "POST", "/messages/reject", {"receipt_handle": found[1]["receipt_handle"]}))
        told(ask(url, "PATCH", "/groups/billing", {"dead_letter_topic": "none"}))
        told(ask(url, "POST", "/messages/reject", {"receipt_handle": found[2]["receipt_handle"]}))
        assert [trace_of(url, offset)["status"] for offset in range(3)] == ["completed", "error", "error"]
        ends = [trace_of(url, offset)["events"][-1]["event_type"] for offset in range(3)]
        assert ends == ["consume.acked", "publish.persisted", "consume.dropped"]
        for path in ("/topics/orders/partitions/0/messages/3/trace", f"/traces/{'1' * 32}"):
            answer = ask(url, "GET", path)
            assert (answer.status, answer.code) == (404, "trace_not_found")
        wrong = ask(url, "GET", "/traces/xyz")
        assert (wrong.code, "orders/0@9" in wrong.json["hint"]) == ("request_invalid", True)


def test_traces_are_listed_and_searched_with_the_newest_first(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), groups__max_retries="0") as broker:
        url = broker.url
        for name in ("orders", "tea"):
            create(url, name)
        publish(url, "tea", *"abc", partition=0)
        publish(url, "orders", "a", partition=0)
        publish(url, "orders", "b", partition=0)
        member = Member(url).join()
        found = member.poll()
        told(ask(url, "POST", "/messages/reject", {"receipt_handle": found[1]["receipt_handle"]}))
        places = {"error": ("orders", 1, 1), "pending": ("orders", 0, 2), "completed": ("tea", 0, 3)}
        for path, expected in {
            "/traces": ["error", "pending", "completed"],
            "/traces?limit=1": ["error"],
            "/traces/search?topic=orders": ["error", "pending"],
            "/traces/search?topic=orders&partition=0&offset=0": ["pending"],
            "/traces/search?status=error": ["error"],
            "/traces/search?consumer_group=billing": ["error", "pending"],
            "/traces/search?consumer_group=other": [],
            "/traces/search?start=2100-01-01T00:00:00Z": [],
            "/traces/search?end=2100-01-01T00:00:00Z&status=completed": ["completed"],
        }.items():
            answer = told(ask(url, "GET", path))
            rows = [(one["status"], one["topic"], one["offset"], one["batch"]) for one in answer["traces"]]
            assert rows == [(status, *places[status]) for status in expected], path
            assert answer["complete"]
        assert ask(url, "GET", "/traces/search?topic=nothing").code == "topic_not_found"
        stats = told(ask(url, "GET", "/traces/stats"))
        assert stats["statuses"] == {"completed": 1, "pending": 1, "error": 1}
        assert {name: stats["events"][name] for name in ("consume.fetched", "consume.rejected", "dlq.routed")} == {
            "consume.fetched": 1, "consume.rejected": 1, "dlq.routed": 1,
        }  # fmt: skip
        told(ask(url, "PATCH", "/admin/topics/tea", {"trace_sampling": 0}))
        publish(url, "tea", "d", partition=0)
        assert told(ask(url, "GET", "/traces"))["traces"][0]["topic"] == "orders"
        late = trace_of(url, 3, "tea")
        assert (late["sampled"], [one["event_type"] for one in late["events"]]) == (False, LIFE[:3])


def test_trace_shows_only_topics_and_groups_that_the_key_may_see(tmp_path: Path) -> None:
    with secured(tmp_path) as broker:
        for name in ("orders", "orders.dlq"):
            broker.do("POST", "/topics", {"name": name, "num_partitions": 1})
        broker.do("POST", "/topics/orders/messages", {"messages": [{"value": "a"}]})
        join = broker.do("POST", "/groups/billing/join", {"topics": ["orders"]})
        polled = broker.do("GET", f"/groups/billing/poll?member_id={join['member_id']}")
        broker.do("POST", "/messages/reject", {"receipt_handle": polled["messages"][0]["receipt_handle"]})
        rules = [{"kind": "topic", "pattern": "orders", "actions": ["read"]}]
        reader, other = broker.new_key("reader", rules=rules), broker.new_key("other")
        path = "/topics/orders/partitions/0/messages/0/trace"
        seen = broker.ask("GET", path, key=reader)
        assert seen.status == 200
        assert not [word for word in (b"orders.dlq", b"billing", b"goqueue-") if word in seen.body]
        assert [one["topic"] for one in seen.json["messages"]] == ["orders"]
        trace_id = seen.json["trace_id"]
        assert broker.ask("GET", f"/traces/{trace_id}", key=reader).body == seen.body
        hidden = broker.ask("GET", f"/traces/{trace_id}", key=other)
        unknown = broker.ask("GET", f"/traces/{'1' * 32}", key=other)
        assert (hidden.status, hidden.code) == (unknown.status, unknown.code) == (404, "trace_not_found")
        assert broker.ask("GET", path, key=other).code == "topic_not_found"
        assert [one["topic"] for one in broker.ask("GET", "/traces", key=reader).json["traces"]] == ["orders"]
        assert broker.ask("GET", "/traces", key=other).json["traces"] == []
        assert broker.ask("GET", "/traces/search?topic=orders", key=other).code == "topic_not_found"
        assert broker.ask("GET", "/traces/search?consumer_group=billing", key=reader).json["traces"] == []
        assert broker.ask("GET", "/traces/stats", key=reader).code == "permission_denied"
        for name in ("__consumer_offsets", "__metadata"):
            assert broker.ask("GET", f"/topics/{name}/partitions/0/messages/0/trace").code == "topic_not_found"


def test_trace_says_what_became_of_a_message_whose_records_are_gone(tmp_path: Path) -> None:
    data, settings = tmp_path / "data", {"groups__max_retries": "0"}
    with LocalBroker(str(data), **settings) as broker:
        url = broker.url
        create(url, "orders")
        publish(url, "orders", "a", "b", "c", partition=0)
        first, second, third = Member(url).join().poll()
        told(ask(url, "POST", "/messages/reject", {"receipt_handle": first["receipt_handle"]}))
        told(ask(url, "POST", "/topics/orders/redrive", {}))
        told(ask(url, "POST", "/messages/reject", {"receipt_handle": second["receipt_handle"]}))
        told(ask(url, "POST", "/messages/ack", {"receipt_handle": third["receipt_handle"]}))
    for records in ("kept", "removed"):
        if records == "removed":
            shutil.rmtree(data / "traces")
        with LocalBroker(str(data), **settings) as broker:
            url = broker.url
            redriven, dead = trace_of(url, 0), trace_of(url, 1)
            assert (trace_of(url, 0, "orders.dlq"), trace_of(url, 3)) == (redriven, redriven)
            assert trace_of(url, 1, "orders.dlq") == dead
            assert [
                [(one["topic"], one["offset"], one["relation"]) for one in trace["messages"]]
                for trace in (redriven, dead, trace_of(url, 2))
            ] == [
                [("orders", 0, "start"), ("orders.dlq", 0, "dead_letter"), ("orders", 3, "redriven")],
                [("orders", 1, "start"), ("orders.dlq", 1, "dead_letter")],
                [("orders", 2, "start")],
            ]
            assert [trace_of(url, offset)["status"] for offset in range(4)] == [
                "completed", "error", "completed", "completed",
            ]  # fmt: skip
            assert dead["messages"][0]["groups"] == {"billing": "settled"}
            expected = {} if records == "removed" else {0: "completed", 1: "error", 2: "completed"}
            for query in ("", "?topic=orders", "?topic=orders.dlq", "?consumer_group=billing"):
                rows = told(ask(url, "GET", f"/traces/search{query}"))["traces"]
                assert rows or records == "removed"
                assert {one["offset"]: one["status"] for one in rows}.items() <= expected.items(), query
