"""The numbers for Prometheus, as a scrape gets them."""

from prometheus_client.parser import text_string_to_metric_families

from goqueue.observe.metrics import METRICS
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, broker, create, publish, read
from tests.cli.transactions import Producer

__all__ = ["broker"]


def scraped(broker: LocalBroker) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    text = ask(broker.url, "GET", "/metrics").body.decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(broker: LocalBroker, name: str, **labels: str) -> float:
    return scraped(broker)[name, frozenset(labels.items())]


def test_every_metric_of_the_table_is_scraped(broker: LocalBroker) -> None:
    create(broker.url, "t")
    publish(broker.url, "t", "x")
    raw = ask(broker.url, "GET", "/metrics")
    assert raw.headers["content-type"].startswith("text/plain; version=")
    families = {family.name.removesuffix("_info") for family in text_string_to_metric_families(raw.body.decode())}
    assert set(METRICS) <= families


def test_what_is_published_and_read_is_counted_by_topic(broker: LocalBroker) -> None:
    create(broker.url, "t")
    publish(broker.url, "t", "a", "b", "c")
    read(broker.url, "t")
    assert sample(broker, "goqueue_messages_published_total", topic="t") == 3
    assert sample(broker, "goqueue_messages_read_total", topic="t") == 3
    written = sample(broker, "goqueue_bytes_published_total", topic="t")
    assert written == sample(broker, "goqueue_bytes_read_total", topic="t")
    assert written == sample(broker, "goqueue_log_size_bytes", topic="t")


def test_a_deleted_topic_has_no_numbers(broker: LocalBroker) -> None:
    create(broker.url, "t")
    publish(broker.url, "t", "a")
    ask(broker.url, "DELETE", "/topics/t")
    assert not any(("topic", "t") in labels for _, labels in scraped(broker))


def test_requests_are_counted_by_the_template_of_their_path(broker: LocalBroker) -> None:
    create(broker.url, "t")
    ask(broker.url, "GET", "/topics/t")
    ask(broker.url, "GET", "/v1/topics/absent")
    ask(broker.url, "GET", "/somewhere/else")
    counted = {"endpoint": "/topics/{topic}", "method": "GET"}
    assert sample(broker, "goqueue_http_requests_total", **counted, status="200") == 1
    assert sample(broker, "goqueue_http_requests_total", **counted, status="404") == 1
    assert sample(broker, "goqueue_http_request_seconds_count", **counted) == 2
    assert sample(broker, "goqueue_http_requests_total", endpoint="none", method="any", status="404") == 1


def test_nothing_is_in_flight_once_all_is_answered(broker: LocalBroker) -> None:
    create(broker.url, "t")
    publish(broker.url, "t", "a", "b")
    ask(broker.url, "POST", "/topics/t/messages", {"messages": [{"value": "a", "partition": 7}]})
    assert sample(broker, "goqueue_in_flight_bytes") == 0


def test_groups_and_what_became_of_their_messages_are_counted(broker: LocalBroker) -> None:
    create(broker.url, "t")
    publish(broker.url, "t", "a", "b", "c", "d")
    member = ask(broker.url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
    lent = ask(broker.url, "GET", f"/groups/g/poll?member_id={member}&max_messages=3").json["messages"]
    acked, nacked, _ = (message["receipt_handle"] for message in lent)
    ask(broker.url, "POST", "/messages/ack", {"receipt_handle": acked})
    ask(broker.url, "POST", "/messages/nack", {"receipt_handle": nacked, "delay": "1h"})
    assert sample(broker, "goqueue_groups", state="stable") == 1
    assert sample(broker, "goqueue_group_members", group="g") == 1
    assert sample(broker, "goqueue_group_lag_messages", group="g", topic="t") == 3
    assert sample(broker, "goqueue_group_in_flight_messages", group="g") == 1
    assert sample(broker, "goqueue_group_lost_messages_total", group="g") == 0
    assert sample(broker, "goqueue_messages_settled_total", outcome="acked") == 1
    assert sample(broker, "goqueue_messages_settled_total", outcome="nacked") == 1
    assert sample(broker, "goqueue_rebalances_total", reason="join") == 1
    assert sample(broker, "goqueue_rebalance_seconds_count") == 1
    assert sample(broker, "goqueue_revocation_timeouts_total") == 0


def test_a_group_that_is_deleted_has_no_numbers(broker: LocalBroker) -> None:
    create(broker.url, "t")
    member = ask(broker.url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
    ask(broker.url, "POST", "/groups/g/leave", {"member_id": member})
    assert sample(broker, "goqueue_groups", state="empty") == 1
    ask(broker.url, "DELETE", "/groups/g")
    assert sample(broker, "goqueue_groups", state="empty") == 0
    assert not any(("group", "g") in labels for _, labels in scraped(broker))


def test_whoever_asks_for_openmetrics_gets_it(broker: LocalBroker) -> None:
    answer = ask(broker.url, "GET", "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


def test_transactions_and_what_they_hold_back_are_counted(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    producer = Producer(broker.url, "till-1")
    producer.put("orders")
    publish(broker.url, "orders", "of another")
    assert sample(broker, "goqueue_transactions_open", state="ongoing") == 1
    assert 0 < sample(broker, "goqueue_transaction_oldest_seconds") < 60
    assert sample(broker, "goqueue_transaction_held_back_messages", topic="orders", partition="0") == 2
    producer.commit()
    producer.begin()
    producer.abort("no such customer")
    assert sample(broker, "goqueue_transactions_open", state="ongoing") == 0
    assert sample(broker, "goqueue_transaction_oldest_seconds") == 0
    assert sample(broker, "goqueue_transactions_committed_total") == 1
    assert sample(broker, "goqueue_transactions_aborted_total", reason="asked") == 1
    assert sample(broker, "goqueue_transaction_seconds_count") == 2
    assert not any(name == "goqueue_transaction_held_back_messages" for name, _ in scraped(broker))
