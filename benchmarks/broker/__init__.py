"""GoQueue over HTTP and its peers in the same run: a client and a server on the same cores, values of 100 bytes.

`contract` says what a broker can be asked; `goqueue`, `redis`, `nats` and `rabbit` are brokers; `load`, `paced`
and `slow` are clients of plain HTTP; `rows` puts brokers side by side, and the other modules measure.
"""

from benchmarks.broker import memory, publishing, receiving, sizes, slowness
from benchmarks.harness.suite import Suite

SUITE = Suite(
    "broker",
    (
        *publishing.bulk,
        *publishing.each,
        *receiving.read,
        publishing.json,
        *publishing.single,
        *receiving.roundtrip,
        *sizes.flows,
        memory.passage,
        slowness.beside_slow_ones,
    ),
)
