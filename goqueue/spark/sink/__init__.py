"""Writing rows into topics."""
