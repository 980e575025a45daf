"""Priorities within a partition: which lane each message is in, and whose turn it is."""
