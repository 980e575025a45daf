"""Groups: members that share the partitions of their topics."""
