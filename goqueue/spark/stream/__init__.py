"""Topics as a stream."""
