"""The low core of the broker: partitions, topics, records, and what all its other packages use."""
