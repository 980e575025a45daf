"""Tests of the SDK's transactions, over gRPC."""

from tests.client import test_transactional_groups, test_transactions_with_broker
from tests.client.test_transactions_with_broker import broker

__all__ = ["broker"]

EXCEPT = {
    "test_a_commit_that_is_interrupted_leaves_a_producer_that_can_be_used": "interrupts a connection of HTTP",
    "test_a_small_transaction_takes_two_requests": "counts requests of HTTP",
    "test_a_task_that_is_cancelled_in_its_block_aborts": "is about the async client",
    "test_an_abort_that_fails_does_not_hide_the_exception": "loses answers of HTTP",
    "test_an_answer_about_acknowledgements_that_is_lost_changes_nothing": "loses answers of HTTP",
    "test_in_a_child_the_transaction_is_the_parents": "forks, which gRPC does not bear",
}
"""Tests that do not apply, and why."""

for _module in (test_transactions_with_broker, test_transactional_groups):
    globals().update(
        {name: test for name, test in vars(_module).items() if name.startswith("test_") and name not in EXCEPT}
    )
