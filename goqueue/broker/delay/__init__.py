"""Delayed messages: durable at once in a log of their own, and appended to their topic when they are due."""
