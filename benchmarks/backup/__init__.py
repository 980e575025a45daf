"""Backups of a data directory: full, incremental, verified and restored, without a broker and without a throttle."""

from benchmarks.backup import copies, forms
from benchmarks.harness.suite import Suite

SUITE = Suite.of("backup", copies, forms)
