"""Where logs are read from: a data directory, a copy of one, or a broker at work."""

from goqueue.spark.logs.port import LogSource, OpenSegment

__all__ = ["LogSource", "OpenSegment"]
