"""Traces of messages."""
