"""Transactions: their state, their timeouts, and how they end in every partition."""
