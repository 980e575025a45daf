"""The numbers for Prometheus, as a scrape gets them."""

from prometheus_client.parser import text_string_to_metric_families

from goqueue.observe.metrics import METRICS
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish, read
from tests.cli.transactions import Producer


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


def test_every_metric_of_the_table_is_scraped(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "x")
    raw = ask(topic_broker.url, "GET", "/metrics")
    assert raw.headers["content-type"].startswith("text/plain; version=")
    families = {family.name.removesuffix("_info") for family in text_string_to_metric_families(raw.body.decode())}
    assert set(METRICS) <= families


def test_published_and_read_messages_are_counted_by_topic(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "a", "b", "c")
    read(topic_broker.url, "t")
    assert sample(topic_broker, "goqueue_messages_published_total", topic="t") == 3
    assert sample(topic_broker, "goqueue_messages_read_total", topic="t") == 3
    written = sample(topic_broker, "goqueue_bytes_published_total", topic="t")
    assert written == sample(topic_broker, "goqueue_bytes_read_total", topic="t")
    assert written == sample(topic_broker, "goqueue_log_size_bytes", topic="t")


def test_a_deleted_topic_has_no_numbers(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "a")
    ask(topic_broker.url, "DELETE", "/topics/t")
    assert not any(("topic", "t") in labels for _, labels in scraped(topic_broker))


def test_requests_are_counted_by_the_template_of_their_path(topic_broker: LocalBroker) -> None:
    ask(topic_broker.url, "GET", "/topics/t")
    ask(topic_broker.url, "GET", "/v1/topics/absent")
    ask(topic_broker.url, "GET", "/somewhere/else")
    counted = {"endpoint": "/topics/{topic}", "method": "GET"}
    assert sample(topic_broker, "goqueue_http_requests_total", **counted, status="200") == 1
    assert sample(topic_broker, "goqueue_http_requests_total", **counted, status="404") == 1
    assert sample(topic_broker, "goqueue_http_request_seconds_count", **counted) == 2
    assert sample(topic_broker, "goqueue_http_requests_total", endpoint="none", method="any", status="404") == 1


def test_in_flight_bytes_are_zero_after_all_answers(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "a", "b")
    ask(topic_broker.url, "POST", "/topics/t/messages", {"messages": [{"value": "a", "partition": 7}]})
    assert sample(topic_broker, "goqueue_in_flight_bytes") == 0


def test_groups_and_what_became_of_their_messages_are_counted(topic_broker: LocalBroker) -> None:
    publish(topic_broker.url, "t", "a", "b", "c", "d")
    member = ask(topic_broker.url, "POST", "/groups/g/join", {"topics": ["t"]}).json["member_id"]
    leased = ask(topic_broker.url, "GET", f"/groups/g/poll?member_id={member}&max_messages=3").json["messages"]
    acked, nacked, _ = (message["receipt_handle"] for message in leased)
    ask(topic_broker.url, "POST", "/messages/ack", {"receipt_handle": acked})
    ask(topic_broker.url, "POST", "/messages/nack", {"receipt_handle": nacked, "delay": "1h"})
    assert sample(topic_broker, "goqueue_groups", state="stable") == 1
    assert sample(topic_broker, "goqueue_group_members", group="g") == 1
    assert sample(topic_broker, "goqueue_group_lag_messages", group="g", topic="t") == 3
    assert sample(topic_broker, "goqueue_group_in_flight_messages", group="g") == 1
    assert sample(topic_broker, "goqueue_group_lost_messages_total", group="g") == 0
    assert sample(topic_broker, "goqueue_group_settled_messages_total", group="g") == 1
    assert sample(topic_broker, "goqueue_fetch_seconds_count") == 1
    assert sample(topic_broker, "goqueue_messages_settled_total", outcome="acked") == 1
    assert sample(topic_broker, "goqueue_messages_settled_total", outcome="nacked") == 1
    assert sample(topic_broker, "goqueue_rebalances_total", reason="join") == 1
    assert sample(topic_broker, "goqueue_rebalance_seconds_count") == 1
    assert sample(topic_broker, "goqueue_revocation_timeouts_total") == 0


def test_openmetrics_is_returned_on_request(broker: LocalBroker) -> None:
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
