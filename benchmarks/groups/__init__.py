"""Consumer groups over HTTP, and peers in the same run where they have the same: values of 100 bytes, all durable.

`wire` makes requests and `member` is one member of a group; `moves`, `crowd` and `load` are what runs in a process of
its own; the other modules measure.
"""

from benchmarks.groups import acking, consuming, flight, idle, rebalances, waking
from benchmarks.harness.suite import Suite

SUITE = Suite(
    "groups",
    (
        *consuming.many,
        consuming.each,
        consuming.alone,
        *acking.single,
        rebalances.rounds,
        rebalances.gaps,
        flight.ranges,
        flight.singles,
        idle.crowd,
        waking.wake,
    ),
)
