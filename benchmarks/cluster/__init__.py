"""A cluster of three nodes and its client on one machine, beside one broker in the same run."""

from benchmarks.cluster import moving, publishing
from benchmarks.harness.suite import Suite

SUITE = Suite.of("cluster", publishing, moving)
