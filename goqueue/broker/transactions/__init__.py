"""Transactions: who has begun what, where it has written, and how it ends everywhere."""
