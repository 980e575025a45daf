"""Schemas: payloads of about 1 KiB against schemas of each format, on one core, and checks of new versions."""

from benchmarks.harness.suite import Suite
from benchmarks.schemas import validation, versions

SUITE = Suite.of("schemas", validation, versions)
