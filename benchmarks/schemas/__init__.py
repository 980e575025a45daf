"""Schemas: payloads of about 1 KiB against schemas of each format, checks of new versions, and checked publishing."""

from benchmarks.harness.suite import Suite
from benchmarks.schemas import publishing, validation, versions

SUITE = Suite.of("schemas", validation, versions, publishing)
