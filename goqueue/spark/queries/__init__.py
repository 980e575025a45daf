"""Queries over topics: their views, what they need, and their results."""
