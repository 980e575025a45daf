"""GoQueue: one durable broker with a replayable log, acknowledgements, delays and dead letters."""

__version__ = "0.1.0"
