"""Where logs are read from: a data directory, a copy of one, or a broker at work."""

from goqueue.spark.logs.port import Logs, OpenSegment

__all__ = ["Logs", "OpenSegment"]
