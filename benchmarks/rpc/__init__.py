"""gRPC: publishing and consuming on streams, unary calls, and what idle streams cost clients of HTTP."""

from benchmarks.harness.suite import Suite
from benchmarks.rpc import consuming, idle, publishing

SUITE = Suite.of("grpc", publishing, consuming, idle)
