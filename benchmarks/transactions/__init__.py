"""Transactions: their cost for publishers, and for readers beside them; values of 100 bytes, all durable."""

from benchmarks.harness.suite import Suite
from benchmarks.transactions import batches, crowd, rate

SUITE = Suite("transactions", (batches.each, batches.larger, rate.steady, crowd.open_ones, crowd.reads))
