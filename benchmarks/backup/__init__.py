"""Backups of a data directory: full, incremental, verified and restored, without a broker and without a throttle; and
publishes beside a backup of a broker.
"""

from benchmarks.backup import beside, copies
from benchmarks.harness.suite import Suite

SUITE = Suite.of("backup", copies, beside)
"""Full and incremental backups of 1 GB in four logs, 10 GB with `--long`, their verification, and a restore."""
