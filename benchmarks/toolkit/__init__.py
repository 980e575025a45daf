"""The command line beside a broker: how long a command takes to be there, and how much goes through a pipe.

`starts` measures commands that do next to nothing, `pipes` those that do a lot.
"""

from benchmarks.harness.suite import Suite
from benchmarks.toolkit import dashboard, pipes, starts

SUITE = Suite(
    "toolkit",
    (
        *starts.alone,
        *starts.asking,
        *pipes.consumes,
        *pipes.publishes,
        dashboard.tail,
        dashboard.topics,
        dashboard.first_paint,
    ),
)
