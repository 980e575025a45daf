"""Schemas: payloads of about 1 KiB checked, written and read, on one core, and checks of new versions."""

from benchmarks.harness.suite import Suite
from benchmarks.schemas import publishing, serializing, validation, versions

SUITE = Suite.of("schemas", validation, serializing, versions, publishing)
