"""Priorities: what groups get of each, how soon, and how fast; values of 100 bytes, all durable."""

from benchmarks.harness.suite import Suite
from benchmarks.lanes import memory, mixed, shares, urgent

SUITE = Suite("lanes", (*mixed.rows, shares.saturated, urgent.behind, memory.backlog))
