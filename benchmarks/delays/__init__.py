"""Delayed messages: scheduling, keeping and delivering them in time; values of 100 bytes, all durable."""

from benchmarks.delays import burst, late, pending
from benchmarks.harness.suite import Suite

SUITE = Suite("delays", (pending.scheduled, pending.ready, late.steady, burst.at_once))
