"""Payloads as typed columns, by the schemas of a registry, a data directory or a file."""
