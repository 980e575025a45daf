"""Filters on reads: what they say, which messages they let through, and how far one request looks."""
