"""Tenants: what they cost publishes and an idle broker, and what a tenant beyond its quota does to a neighbor."""

from benchmarks.harness.suite import Suite
from benchmarks.tenants import idle, neighbor, publishing

SUITE = Suite.of("tenants", publishing, idle, neighbor)
