"""Tenants: their cost for publishes and for an idle broker, and a neighbor of one that is beyond its quota."""

from benchmarks.harness.suite import Suite
from benchmarks.tenants import idle, neighbor, publishing

SUITE = Suite.of("tenants", publishing, idle, neighbor)
