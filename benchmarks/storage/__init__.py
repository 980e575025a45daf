"""The storage engine alone: 100-byte values, on one loop, without network and without rules.

`stock` makes messages and logs, `flow` drives a log as a broker does; the other modules measure.
"""

from benchmarks.harness.suite import Suite
from benchmarks.storage import appends, memory, reads, scans, starts, upkeep

SUITE = Suite.of("storage", appends, reads, scans, starts, memory, upkeep)
