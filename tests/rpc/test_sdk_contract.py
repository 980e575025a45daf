"""Tests of the SDK, over gRPC: what is published is read, consumed, settled and delivered later."""

from tests.client import test_consumer_with_broker, test_delayed_with_broker, test_with_broker
from tests.client.test_delayed_with_broker import ask, client
from tests.client.test_with_broker import filled, ten

__all__ = ["ask", "client", "filled", "ten"]

EXCEPT = {
    "test_a_client_works_in_a_loop_of_another_make": "is about the loop of the async client",
    "test_consumer_continues_after_a_broker_restart": "starts brokers without gRPC",
    "test_line_that_loses_answers_neither_loses_nor_doubles": "counts requests of HTTP",
    "test_a_line_that_loses_answers_neither_loses_nor_doubles": "loses answers of HTTP",
    "test_members_share_partitions_without_duplicates": "is about joins by the SDK, which a stream makes itself",
    "test_producer_continues_after_a_broker_restart": "starts brokers without gRPC",
    "test_producer_creates_topics_with_auto_create": "starts a broker without gRPC",
    "test_reader_continues_after_a_broker_restart": "starts brokers without gRPC",
    "test_reassigned_partition_loses_and_repeats_nothing": "is about joins by the SDK, which a stream makes itself",
    "test_tasks_share_partitions": "is about the async client",
}
"""Tests that do not apply, and why."""

for _module in (test_with_broker, test_consumer_with_broker, test_delayed_with_broker):
    globals().update(
        {name: test for name, test in vars(_module).items() if name.startswith("test_") and name not in EXCEPT}
    )
